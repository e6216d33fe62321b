// What crosses between JavaScript and the WebAssembly engine (crate `wasm-edge`). Plain objects both ways;
// whatever the engine throws is an `Error` with a string `code`.

import type { EngineKind } from './builds.js';
import type { NumberOptions, ParameterOptions, UnsetOption } from './choices.js';
import type { Limits } from './limits.js';
import type { RoundRecord, Statistics } from './statistics.js';
import type { Choices, Head, PolicyOption } from './tables.js';

export type { AheadWay, ComparedScheme, RoundScheme } from './schemes.js';
export type { AheadRecord, RoundRecord, Statistics, WayRecord } from './statistics.js';

/** The mode of a generation: drafts verified by the server, or the server alone. */
export type Mode = 'speculative' | 'cloud-only';

/**
 * The origin of a token: drafted here and `accepted` by the server; written here and `passed` unverified;
 * `resampled` by the server in place of the first draft it rejected; a `bonus` after a round without rejection; from the
 * server, and guessed here too, but too `late` to be judged; or from the server alone (`cloud`).
 */
export type Origin = 'accepted' | 'passed' | 'resampled' | 'bonus' | 'late' | 'cloud';

/**
 * The reason why a generation ended: an end-of-text token, `maxNewTokens`, a full context window, a string of `stop`,
 * or a call of `stop()`. With the option `stop` the server alone gives `stop` for an end-of-text token, too.
 */
export type Finish = 'eos' | 'length' | 'context' | 'stop' | 'cancelled';

/** One committed token. */
export interface Token {
  /** The id in the vocabulary; -1 where the server alone writes and sends text only. */
  id: number;
  /** The text that the token adds; empty for, say, one half of a character. */
  text: string;
  origin: Origin;
  /** Probabilities of both models, with the option `evidence`. */
  evidence?: TokenEvidence;
}

/** Probabilities that both models gave to a token and its alternatives. */
export interface TokenEvidence {
  /** ln p under the server's distribution as it is sampled; null where it is unknown. */
  logprob: number | null;
  /** Payload bits of the round's drafts, per draft; null where nothing was drafted. */
  bits: number | null;
  /**
   * At most eight candidates for the position: the draft's three most likely, then the server's most likely. Sorted by
   * the server's probability, or by `q` where that is unknown.
   */
  candidates: Candidate[];
}

/** A candidate for a position of the text. */
export interface Candidate {
  id: number;
  text: string;
  /** Its probability in the rounded distribution that the draft was sampled from; null where nothing was drafted. */
  q: number | null;
  /** Its probability under the server's distribution as it is sampled; null where it is unknown. */
  p: number | null;
}

/** A piece of an answer that may call tools: text, or a call whose `arguments` are the JSON of an object. */
export type Piece = { type: 'text'; text: string } | { type: 'call'; name: string; arguments: string };

/** The link between page and server. A rate of `null` is not limited. */
export interface Link {
  uplinkBitsPerSecond: number | null;
  downlinkBitsPerSecond: number | null;
  roundTripMs: number;
  /** Cuts the link: the connection closes, and none opens until this is false again. */
  isCut: boolean;
}

/** The draft model, and the engine that runs it. */
export interface DraftInfo extends ModelInfo {
  engine: EngineKind | 'lookup';
  declined: string | null;
}

/** Properties of the draft model. */
export interface ModelInfo {
  vocabSize: number;
  contextLength: number;
  /** The length of the model's file. */
  weightBytes: number;
  /** Memory that the engine has allocated so far, weights included. */
  memoryBytes: number;
  /** The trained heads of the draft model. */
  heads: Readonly<Record<Head, boolean>>;
}

/** Limits that the server granted in the handshake, and the size of its vocabulary. */
export interface SessionInfo extends Limits {
  vocabSize: number;
}

/**
 * One round: the tokens committed by one answer of the server, and the totals at that time. With several rounds in
 * flight the totals may include later rounds.
 */
export interface Round {
  tokens: Token[];
  /** With `tools`: text and calls that are complete; absent while there are none. */
  pieces?: Piece[];
  statistics: Statistics;
  /** The cost of the drafts; null without rounds: in `cloud-only`, and ahead of the server. */
  round: RoundRecord | null;
  /** Guesses that stay visible after these tokens; absent if there are none. */
  guess?: Guess;
  /** The number of visible guesses that these tokens contradict; absent if there are none. */
  withdrawn?: number;
  /** @internal True if reasoning in the text has both of its tags, even where the prompt opens it. */
  isTagged?: true;
}

/** Guesses of the draft model after the confirmed text. The server has not confirmed them, and they may be wrong. */
export interface Guess {
  ids: number[];
  /** The text that they would add to the texts of all confirmed tokens. */
  text: string;
  /** The estimated chance that all of them are right. */
  chance: number;
  /** True if they were made without a connection. */
  offline: boolean;
}

/** The result of a generation. */
export interface Summary extends Statistics {
  /** The seed of the text: the one given, or the random one that was taken. */
  seed: number;
  /** The text, up to a string of `stop`. */
  text: string;
  /** With `tools`: the whole answer as text and calls; absent if it is empty. */
  pieces?: Piece[];
  promptTokens: number;
  finish: Finish;
  /** The ids of the prompt; empty where the server alone wrote the text. */
  promptTokenIds: number[];
  /** @internal {@link Round.isTagged} */
  isTagged?: true;
  /**
   * All committed ids, those of the string that stopped the text included. `tokens` also counts later tokens of the
   * same round.
   */
  tokenIds: number[];
}

/** The secret that resumes a session after a reload. Keep it private: it is all that resuming takes. */
export interface Claim {
  session: string;
  secret: string;
  attempts: number;
  generation: number;
}

/** A change of a generation's connection. */
export type LineEvent =
  | { state: 'begun'; claim: Claim | null }
  /** The connection is lost; the next attempt follows after the delay. */
  | { state: 'reconnecting'; attempt: number; delayMs: number }
  /** The generation continues; `anew` is true in another session, because the server has forgotten the previous one. */
  | { state: 'resumed'; anew: boolean; claim: Claim | null };

/** The terms on which a generation keeps its session. */
export interface Continuation {
  /** Failed attempts to reconnect before the generation fails. */
  attempts: number;
  /** Longest silence of the server while text is due, in milliseconds; then its connection counts as lost. */
  stallMs: number;
  /** Tokens committed before a reload; they follow the prompt. */
  committed: number[];
  /** Least chance of guesses that become visible; 1 for none. */
  guessesFrom: number;
  /** Most tokens guessed after the committed text while the connection is lost. */
  offlineTokens: number;
}

/** A number for every option; null where it depends on other options. */
export type RequestNumbers = Record<Exclude<keyof NumberOptions, UnsetOption> | 'seed', number> &
  Record<Exclude<UnsetOption, 'seed'>, number | null>;

/** A message of a conversation. Templates see it as it is, in JSON: what is not there is undefined to them. */
export interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool';
  /** Text, also in parts; null or nothing where the assistant only calls tools. */
  content?: string | readonly TextPart[] | null | undefined;
  /** Calls that the assistant makes. */
  tool_calls?: readonly ToolCall[] | undefined;
  /** The id of the call that this result answers. */
  tool_call_id?: string | undefined;
  /** The name of the tool that gave the result. */
  name?: string | undefined;
}

/** Further variables of a chat template, such as `{ enable_thinking: false }`. It ignores those it does not read. */
export type TemplateVariables = Readonly<Record<string, unknown>>;

/** A part of a message's content; the model sees all parts as one text. */
export interface TextPart {
  type: 'text';
  text: string;
}

/** A call of a tool, as in OpenAI's API. */
export interface ToolCall {
  id?: string | undefined;
  type?: 'function' | undefined;
  function: {
    name: string;
    /** The arguments as an object or its JSON. */
    arguments: string | Readonly<Record<string, unknown>>;
  };
}

/** A tool that the assistant may call, as in OpenAI's API. */
export interface Tool {
  type: 'function';
  function: {
    name: string;
    description?: string | undefined;
    /** The JSON schema of the arguments. */
    parameters?: Readonly<Record<string, unknown>> | undefined;
  };
}

/** A prompt: a text to continue, or a conversation whose next message is the assistant's. */
export type Prompt = string | readonly Message[];

/**
 * A complete generation request; `GenerateOptions` documents the fields. The number of a policy that has none is null.
 */
export type GenerateRequest = RequestNumbers &
  Choices &
  Record<PolicyOption, string> &
  Record<keyof ParameterOptions, number | null> & {
    prompt: Prompt;
    tools: readonly Tool[];
    chatTemplateKwargs: TemplateVariables;
    continueFinalMessage: boolean;
    /** @internal {@link GenerateOptions.tagsReasoning} */
    tagsReasoning?: true;
    stop: readonly string[];
    /** Options that change the server's probabilities, as fields of OpenAI's API in JSON; null for none. */
    shaping: string | null;
    evidence: boolean;
    mode: Mode;
    adaptiveMode: boolean;
    compareSchemes: boolean;
  };

/** The engine's class as wasm-bindgen exports it. */
export interface Edge {
  info(): DraftInfo;
  /** An edge with a session and a KV cache of its own, which shares model, texts of the page and emulated link. */
  another(): Edge;
  /** Opens a session; each of its connections asks for a bearer token, if there is one. */
  connect(url: string, token: (() => Promise<string>) | undefined, claim: Claim | null): Promise<SessionInfo>;
  /**
   * Begins a session with a server that cannot be reached now, on the terms of an earlier Welcome: the next generation
   * connects, and guesses meanwhile.
   */
  connect_later(
    url: string,
    token: (() => Promise<string>) | undefined,
    claim: Claim | null,
    welcome: Uint8Array,
  ): SessionInfo;
  /** The server's last Welcome, without the session's secret. */
  welcome(): Uint8Array | undefined;
  /** Acceptance of the last text in bytes, for `expect_acceptance` of a later visit; undefined before any text. */
  acceptance(): Uint8Array | undefined;
  /** Plans first texts by the acceptance of an earlier visit. */
  expect_acceptance(kept: Uint8Array): void;
  set_link(link: Link): void;
  generate(
    request: Omit<GenerateRequest, 'seed'> & { seed: number | bigint },
    continuation: Continuation,
    onRound: (round: Round) => void,
    onLine: (event: LineEvent) => void,
    onGuess: (guess: Guess) => void,
  ): Promise<Summary>;
  /** The ids of a prompt, as `generate` reads it. */
  tokenize(
    prompt: Prompt,
    tools: readonly Tool[],
    chatTemplateKwargs: TemplateVariables,
    continueFinalMessage: boolean,
  ): Uint32Array;
  /** The text of ids; special tokens give none. */
  detokenize(ids: Uint32Array): string;
  stop(): void;
  /** Adds a text in which guesses are looked up, in place of one of the same name. */
  add_context(name: string, text: string): void;
  remove_context(name: string): void;
  /** Says that the connection may be dead: for a second its silence is borne, once. */
  network_changed(): void;
  close(): void;
}

/** Loads a model file chunk by chunk into its final place in memory. */
export interface EdgeLoader {
  /** Ignores settings of these names, although they are not known. To be called before the first `push`. */
  ignore_settings(keys: string[]): void;
  push(chunk: Uint8Array): void;
  /**
   * Makes an engine from the weights, a `tokenizer.json` and optionally a `heads.safetensors` and a `chat.json`. The
   * loader cannot be used after it.
   */
  finish(tokenizer: Uint8Array, heads?: Uint8Array, chat?: Uint8Array): Promise<Edge>;
  /** Frees the memory of an unfinished loader. */
  free(): void;
}

/** A handle of an open GPU. */
export interface GpuHandle {
  readonly name: string;
}

/** The exports of the generated module. */
export interface Engine {
  EdgeLoader: {
    new (totalBytes?: number): EdgeLoader;
    /** Makes a loader for a GPU, which drafts `always` or only if it is faster. */
    on_gpu(totalBytes: number | undefined, gpu: GpuHandle, always: boolean): EdgeLoader;
    /** Makes an engine without a draft model, which looks guesses up. */
    lookup(tokenizer: Uint8Array, chat: Uint8Array | undefined): Edge;
  };
  GpuHandle: { open(): Promise<GpuHandle> };
}
