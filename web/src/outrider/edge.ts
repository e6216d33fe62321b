// What crosses between JavaScript and the WebAssembly engine (crate `wasm-edge`). Plain objects both ways;
// whatever the engine throws is an `Error` with a string `code`.

import type { NumberOptions, ParameterOptions, Scheme, UnsetOption } from './choices.js';
import type { Choices, Head, PolicyOption } from './tables.js';

/** What decides the tokens: drafts checked by the server, or the server alone. */
export type Mode = 'speculative' | 'cloud-only';

/**
 * Where a token comes from: drafted here and `accepted` by the server; written here and `passed` without asking it;
 * `resampled` by the server in place of the first draft it rejected; a `bonus` after a round without rejection; from the
 * server, and guessed here too, but too `late` to be judged; or from the server alone (`cloud`).
 */
export type Origin = 'accepted' | 'passed' | 'resampled' | 'bonus' | 'late' | 'cloud';

/** Why a generation ended: an end-of-text token, `maxNewTokens`, a full context window, a string of `stop`, or somebody who stopped it. */
export type Finish = 'eos' | 'length' | 'context' | 'stop' | 'cancelled';

/** One committed token. */
export interface Token {
  /** Of the vocabulary; -1 where the server is alone, without a draft: it tells texts only. */
  id: number;
  /** What it adds to the text; sometimes nothing, as one half of a character. */
  text: string;
  origin: Origin;
  /** What both models thought of it; with the option `evidence`. */
  evidence?: TokenEvidence;
}

/** What both models thought of a token. */
export interface TokenEvidence {
  /** ln p under the server's distribution, as it is sampled; null where the server told none. */
  logprob: number | null;
  /** Payload bits of the round's drafts, per draft; null where nothing was drafted. */
  bits: number | null;
  /**
   * At most eight tokens that could have stood there: the draft's three likeliest, and of the server's as many as there
   * is room for. The server's likeliest first; by `q` where it told nothing.
   */
  candidates: Candidate[];
}

/** A token that could have stood at a position. */
export interface Candidate {
  id: number;
  text: string;
  /** Its probability in what the draft was drawn from, after all rounding; null where nothing was drafted. */
  q: number | null;
  /** Its probability under the server's distribution, as it is sampled; null where the server told none. */
  p: number | null;
}

/** A piece of an answer that may call tools: text, or a call whose `arguments` are the JSON of an object. */
export type Piece = { type: 'text'; text: string } | { type: 'call'; name: string; arguments: string };

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
  /** Length of its file. */
  weightBytes: number;
  /** Memory that the engine has taken from the browser so far, for the weights and all else. */
  memoryBytes: number;
  /** The trained heads that it has. */
  heads: Readonly<Record<Head, boolean>>;
}

/** What the server granted in the handshake. */
export interface SessionInfo {
  contextLength: number;
  maxDraftTokens: number;
  maxInFlight: number;
  /** Guesses that it takes ahead of a text that it writes; 0 where it cannot be drafted ahead of. */
  maxGuesses: number;
  vocabSize: number;
}

/** What a generation cost so far. Ratios are zero while there is nothing to divide by. */
export interface Statistics {
  /** The acceptance rule; null where the server writes alone from the start. */
  rule: string | null;
  /** Its number; null where it has none. */
  ruleParameter: number | null;
  /** Whether the text may be distributed otherwise than the server's model would have it: by the rule or by a gate. */
  lossy: boolean;
  /** Tokens committed. */
  tokens: number;
  /** Of these, written here and never verified: those that a gate let pass. */
  passed: number;
  /** Of these, written by the server alone where that is faster: `adaptiveMode`. */
  streamed: number;
  elapsedMs: number;
  firstTokenMs: number;
  tokensPerSecond: number;
  rounds: number;
  drafted: number;
  /** Drafts that were accepted; ahead of the server, guesses that were right, in time or not. */
  accepted: number;
  /** Of these, guesses that the server had in time and found right, where it writes and drafts are made ahead of it. */
  inTime: number;
  /** Drafts that the server decided on, or guesses at what it wrote; what is behind a wrong one does not count. */
  judged: number;
  /** `accepted / judged`: the papers' α. */
  acceptanceRate: number;
  /** `accepted / drafted` */
  acceptedPerDrafted: number;
  /** Drafts of rounds in flight behind a rejected one: sent, and never verified. */
  wasted: number;
  /** Tokens sampled anew in place of a rejected draft. */
  resampled: number;
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
  /**
   * The probability that the support left out, mean over the committed tokens of the session's generations with the
   * same `droppedMassTarget`, `stepSize` and `initialThreshold`; null for schemes other than `c-sqs`.
   */
  meanDroppedMass: number | null;
  /**
   * What `meanDroppedMass` cannot exceed, by Theorem 2 of the SQS paper; null where that is 1 or more (with the
   * defaults until the session has 1011 tokens), and for schemes other than `c-sqs`.
   */
  droppedMassBound: number | null;
  /** `dssd`, `sampled`: how often the page could keep no sample and asked for all probabilities. */
  followUps: number;
  /** `dssd`: what a rejection brings down, follow-ups included; null while there was none. */
  downlinkBytesPerRejection: number | null;
  /** Tokens that a round commits: the accepted drafts and the one after them. */
  tokensPerRound: number;
  /** L: what a further draft costs, as a multiple of a round without any; null until rounds of different lengths tell. */
  costRatio: number | null;
  /** γ*: the best draft length for what was measured; null until that is known. */
  optimalDraftLength: number | null;
  /** Tokens per unit of time, as a multiple of the server alone, by the closed form; null without `adaptiveMode`. */
  predictedSpeedup: number | null;
  /** α by the closed form; null unless the server explains its verdicts. */
  predictedAcceptanceRate: number | null;
  /** How far the text's distribution is from that of the server's model, in total variation; null unless the server explains its verdicts. */
  divergence: number | null;
  /** What the page goes by where it drafts ahead of the server. */
  ahead?: AheadRecord;
}

/** What the page goes by where it drafts ahead of the server: what it measured, and what it chose. */
export interface AheadRecord {
  /** How it writes now. */
  way: AheadWay;
  /** Guesses sent together, how long a pass waits for them, how many lie ahead of the text at most. */
  group: number;
  patienceMs: number;
  lead: number;
  /** Times of a pass that judges nothing, of a draft, of the link; null until they are measured. */
  passMs: number | null;
  draftMs: number | null;
  roundTripMs: number | null;
  /** The share of guesses behind right ones that is right, lately. */
  acceptanceRate: number;
  /** All ways, of which the fastest is kept; none where `groupSize` is given. */
  ways: {
    name: AheadWay;
    /** What it promises, as a multiple of the server alone; null until that is known. */
    promised: number | null;
    /** What it gave lately; null before it was tried. */
    tokensPerSecond: number | null;
    /** Tokens over which that was measured. */
    measured: number;
  }[];
}

/** No guesses; guesses that nobody waits for; passes that wait for the first guess behind a wrong one; both ends in turn. */
export type AheadWay = 'alone' | 'at once' | 'patient' | 'in turn';

/** A scheme whose drafts are verified round by round. */
export type RoundScheme = Exclude<Scheme, 'auto' | 'ahead'>;

/** What the costs of a round are compared for: every scheme of rounds, lattices in the papers' code, K-SQS also in ours. */
export type ComparedScheme = RoundScheme | 'k-sqs/adaptive';

/** What one round of drafts cost. */
export interface RoundRecord {
  /** Its number within the generation. */
  round: number;
  /** The ids that were drafted. */
  drafted: number[];
  /** How many of them the server accepted, from the first on. */
  accepted: number;
  /** The token that followed them: resampled or bonus. Null if the round ended without. */
  token: number | null;
  /** Of the scheme's payload alone. */
  payloadBits: number;
  /** With the frame around it. */
  uplinkBits: number;
  downlinkBits: number;
  draftMs: number;
  roundTripMs: number;
  /** β after the round; null for schemes other than `c-sqs`. */
  threshold: number | null;
  /** The payload that the same drafts would have cost under each scheme; empty unless asked for by `compareSchemes`. */
  otherBits: Partial<Record<ComparedScheme, number>>;
}

/** One round: what the server committed with one answer, and the totals when it was told: with several rounds in flight perhaps after later ones. */
export interface Round {
  tokens: Token[];
  /** With `tools`: the text and the calls that have become certain; not there while nothing has. */
  pieces?: Piece[];
  statistics: Statistics;
  /** What the drafts cost; null where there are no rounds: `cloud-only`, and ahead of the server. */
  round: RoundRecord | null;
}

/** The end of a generation. */
export interface Summary extends Statistics {
  /** The text, up to a string of `stop`. */
  text: string;
  /** With `tools`: all of it, as text and calls; not there where nothing was written. */
  pieces?: Piece[];
  promptTokens: number;
  finish: Finish;
  promptTokenIds: number[];
  /** All that were committed, with those of the string that stopped the text. `tokens` also counts what the same round brought behind it. */
  tokenIds: number[];
}

/** What a session can be resumed with after a reload. Whoever has it can. */
export interface Claim {
  session: string;
  secret: string;
  attempts: number;
  generation: number;
}

/** What happens to the connection of a generation. */
export type LineEvent =
  | { state: 'begun'; claim: Claim | null }
  /** It is lost; the next attempt comes after so long. */
  | { state: 'reconnecting'; attempt: number; delayMs: number }
  /** The generation goes on; `anew`: in another session, as the server has forgotten the one before. */
  | { state: 'resumed'; anew: boolean; claim: Claim | null };

/** How a generation holds on to its session. */
export interface Continuation {
  /** Attempts to connect again, without success, before it is given up. */
  attempts: number;
  /** Tokens that were committed before a reload; they follow the prompt. */
  committed: number[];
}

/** A number for every option; null where that is left to the others. */
export type RequestNumbers = Required<Omit<NumberOptions, UnsetOption>> & Record<UnsetOption, number | null>;

/** A message of a conversation. Templates see it as it is, in JSON: what is not there is undefined to them. */
export interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool';
  /** Text, also in parts; null or nothing where the assistant only calls tools. */
  content?: string | readonly TextPart[] | null;
  /** What the assistant calls. */
  tool_calls?: readonly ToolCall[];
  /** The call that a message of a tool is the result of. */
  tool_call_id?: string;
  /** The tool of a result. */
  name?: string;
}

/** A part of a content; a model sees all of them as one text. */
export interface TextPart {
  type: 'text';
  text: string;
}

/** A call of a tool, as OpenAI's API has it. */
export interface ToolCall {
  id?: string;
  type?: 'function';
  function: {
    name: string;
    /** An object, or its JSON. */
    arguments: string | Readonly<Record<string, unknown>>;
  };
}

/** What the assistant may call, as OpenAI's API has it. */
export interface Tool {
  type: 'function';
  function: {
    name: string;
    description?: string;
    /** A JSON schema. */
    parameters?: Readonly<Record<string, unknown>>;
  };
}

/** What is gone on from: a text, or a conversation whose next message is the assistant's. */
export type Prompt = string | readonly Message[];

/** A complete generation request; `GenerateOptions` documents the fields. The number of a policy that has none is null. */
export type GenerateRequest = RequestNumbers &
  Choices &
  Record<PolicyOption, string> &
  Record<keyof ParameterOptions, number | null> & {
    prompt: Prompt;
    tools: readonly Tool[];
    stop: readonly string[];
    evidence: boolean;
    mode: Mode;
    adaptiveMode: boolean;
    compareSchemes: boolean;
  };

/** The engine's class as wasm-bindgen exports it. */
export interface Edge {
  info(): ModelInfo;
  /** With a bearer token if the server wants one. */
  connect(url: string, token: string | undefined, claim: Claim | null): Promise<SessionInfo>;
  set_link(link: Link): void;
  generate(
    request: GenerateRequest,
    continuation: Continuation,
    onRound: (round: Round) => void,
    onLine: (event: LineEvent) => void,
  ): Promise<Summary>;
  /** The ids of a prompt, as `generate` reads it. */
  tokenize(prompt: Prompt, tools: readonly Tool[]): Uint32Array;
  /** The text of ids; special tokens give none. */
  detokenize(ids: Uint32Array): string;
  stop(): void;
  close(): void;
}

/** Takes a model file in pieces, straight to where its weights stay. */
export interface EdgeLoader {
  push(chunk: Uint8Array): void;
  /**
   * Makes an engine, with a `tokenizer.json` and, if there are any, a `heads.safetensors` and a `chat.json`. The loader is
   * spent.
   */
  finish(tokenizer: Uint8Array, heads?: Uint8Array, chat?: Uint8Array): Edge;
  /** Gives back what an unfinished loader holds. */
  free(): void;
}

/** What the generated module exports. */
export interface Engine {
  EdgeLoader: new (totalBytes?: number) => EdgeLoader;
}
