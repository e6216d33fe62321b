// What the page and the worker say to each other.

import type { EngineInfo, EngineRequest } from './builds.js';
import type {
  Claim,
  Continuation,
  GenerateRequest,
  LineEvent,
  Link,
  ModelInfo,
  Prompt,
  Round,
  SessionInfo,
  Summary,
  Tool,
} from './edge.js';
import type { PlainError } from './errors.js';

/** Addresses of what the worker loads and connects to, or files of the user's. */
export interface Sources {
  draft: string | Blob;
  tokenizer: string | Blob;
  /** May not be there; null: there is nothing to look for. */
  heads: string | null;
  /** May not be there. */
  chat: string;
  session: string;
  /** What the server wants to be shown, if anything. */
  token?: string;
  /** What downloads send along. */
  headers?: Readonly<Record<string, string>>;
}

/** How far `Outrider.load()` is. */
export type LoadProgress =
  /** Bytes of the draft model; `totalBytes` is null if the server does not tell the size. */
  | { stage: 'download'; loadedBytes: number; totalBytes: number | null }
  /** The bytes are here and become a model. */
  | { stage: 'prepare' }
  /** The model stands; the session with the server is being opened. */
  | { stage: 'connect' };

/** What the tokenizer is asked. */
export type Question =
  { about: 'text'; ids: readonly number[] } | { about: 'ids'; prompt: Prompt; tools: readonly Tool[] };

/** A text, or ids. */
export type Answer = string | number[];

export type ToWorker =
  | {
      type: 'load';
      engine: EngineRequest;
      sources: Sources;
      link: Link;
      connectTimeoutMs: number;
      claim: Claim | null;
    }
  | { type: 'generate'; id: number; request: GenerateRequest; continuation: Continuation }
  | { type: 'stop'; id: number }
  | { type: 'ask'; id: number; question: Question }
  | { type: 'link'; link: Link }
  | { type: 'close' };

export type FromWorker =
  | { type: 'progress'; progress: LoadProgress }
  | { type: 'loaded'; engine: EngineInfo; model: ModelInfo; session: SessionInfo }
  | { type: 'load-failed'; error: PlainError }
  /** Something else drafts than before. */
  | { type: 'engine'; engine: EngineInfo }
  /** Connected anew, after the connection was lost. */
  | { type: 'reconnected'; session: SessionInfo }
  | { type: 'round'; id: number; round: Round }
  | { type: 'line'; id: number; event: LineEvent }
  | { type: 'done'; id: number; summary: Summary }
  | { type: 'failed'; id: number; error: PlainError }
  /** The draft model cannot be kept for the next visit. */
  | { type: 'cache-full'; error: PlainError }
  | { type: 'answer'; id: number; answer: Answer }
  | { type: 'no-answer'; id: number; error: PlainError }
  /** It has said goodbye to the server, and ends. */
  | { type: 'closed' }
  /** The engine cannot be used any more. */
  | { type: 'crashed'; error: PlainError };
