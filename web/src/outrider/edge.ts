// What crosses between JavaScript and the WebAssembly engine (crate `wasm-edge`). Plain objects both ways;
// whatever the engine throws is an `Error` with a string `code`.

import type { EngineKind } from './builds.js';
import type { NumberOptions, ParameterOptions, Scheme, UnsetOption } from './choices.js';
import type { Limits } from './limits.js';
import type { RoundRecord, Statistics } from './statistics.js';
import type { Choices, Head, PolicyOption } from './tables.js';

export type { AheadRecord, RoundRecord, Statistics, WayRecord } from './statistics.js';

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

/** The draft model, and what it runs on. */
export interface DraftInfo extends ModelInfo {
  engine: EngineKind;
  declined: string | null;
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

/** The server's part of the handshake. */
export interface SessionInfo extends Limits {
  vocabSize: number;
}

/** No guesses; guesses that nobody waits for; passes that wait for the first guess behind a wrong one; both ends in turn. */
export type AheadWay = 'alone' | 'at once' | 'patient' | 'in turn';

/** A scheme whose drafts are verified round by round. */
export type RoundScheme = Exclude<Scheme, 'auto' | 'ahead'>;

/** What the costs of a round are compared for: every scheme of rounds, lattices in the papers' code, K-SQS also in ours. */
export type ComparedScheme = RoundScheme | 'k-sqs/adaptive';

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
  info(): DraftInfo;
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
  finish(tokenizer: Uint8Array, heads?: Uint8Array, chat?: Uint8Array): Promise<Edge>;
  /** Gives back what an unfinished loader holds. */
  free(): void;
}

/** A GPU that is open. */
export interface GpuHandle {
  readonly name: string;
}

/** What the generated module exports. */
export interface Engine {
  EdgeLoader: {
    new (totalBytes?: number): EdgeLoader;
    /** For a GPU, which drafts `always` or if it is faster. */
    on_gpu(totalBytes: number | undefined, gpu: GpuHandle, always: boolean): EdgeLoader;
  };
  GpuHandle: { open(): Promise<GpuHandle> };
}
