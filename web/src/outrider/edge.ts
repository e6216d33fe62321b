// What crosses between JavaScript and the WebAssembly engine (crate `wasm-edge`). Plain objects both ways;
// whatever the engine throws is an `Error` with a string `code`.

/** What decides the tokens: drafts checked by the server, or the server alone. */
export type Mode = 'speculative' | 'cloud-only';

/**
 * Where a token comes from: drafted here and `accepted` by the server; `resampled` by the server in place of
 * the first draft it rejected; a `bonus` after a round without rejection; or from the server alone (`cloud`).
 */
export type Origin = 'accepted' | 'resampled' | 'bonus' | 'cloud';

/** Why a generation ended: an end-of-text token, `maxNewTokens`, a full context window, or a stop. */
export type Finish = 'eos' | 'length' | 'context' | 'cancelled';

/** One committed token. */
export interface Token {
  id: number;
  text: string;
  origin: Origin;
}

/** The link between page and server. `null` is a rate that is not limited. */
export interface Link {
  uplinkBitsPerSecond: number | null;
  downlinkBitsPerSecond: number | null;
  roundTripMs: number;
}

/** The draft model. */
export interface ModelInfo {
  vocabSize: number;
  contextLength: number;
  weightBytes: number;
}

/** What the server granted in the handshake. */
export interface SessionInfo {
  contextLength: number;
  maxDraftTokens: number;
  vocabSize: number;
}

/** What a generation cost so far. Ratios are zero while there is nothing to divide by. */
export interface Statistics {
  /** Tokens committed. */
  tokens: number;
  elapsedMs: number;
  firstTokenMs: number;
  tokensPerSecond: number;
  rounds: number;
  drafted: number;
  accepted: number;
  /** `accepted / drafted` */
  acceptanceRate: number;
  /** Bits sent to the server. */
  uplinkBits: number;
  /** Bits received from the server. */
  downlinkBits: number;
  /** Of the scheme's payload alone, which is what the papers count; frames and prompt excluded. */
  payloadBitsPerDraftedToken: number;
  uplinkBitsPerDraftedToken: number;
  uplinkBitsPerToken: number;
  downlinkBitsPerToken: number;
  /** Forward passes of the target model. */
  serverPasses: number;
  serverPassesPerToken: number;
  /** Of the last round, from the draft's first byte to the verdict's last. */
  roundTripMs: number;
  /** Time spent drafting. */
  draftMs: number;
}

/** One round: what the server committed with one answer, and the totals after it. */
export interface Round {
  tokens: Token[];
  statistics: Statistics;
}

/** The end of a generation. */
export interface Summary extends Statistics {
  text: string;
  promptTokens: number;
  finish: Finish;
  promptTokenIds: number[];
  tokenIds: number[];
}

/** A complete generation request; `GenerateOptions` documents the fields. */
export interface GenerateRequest {
  prompt: string;
  mode: Mode;
  maxNewTokens: number;
  temperature: number;
  topK: number;
  topP: number;
  seed: number;
  supportSize: number;
  latticeResolution: number;
  draftLength: number;
  bitBudget: number;
}

/** The engine's class as wasm-bindgen exports it. */
export interface Edge {
  info(): ModelInfo;
  connect(url: string): Promise<SessionInfo>;
  set_link(link: Link): void;
  generate(request: GenerateRequest, onRound: (round: Round) => void): Promise<Summary>;
  stop(): void;
  close(): void;
}

/** Makes an engine from the bytes of a GGUF file and of a `tokenizer.json`. */
export type EdgeConstructor = new (draft: Uint8Array, tokenizer: Uint8Array) => Edge;
