// Messages between the page and the worker.

import type { Build, EngineInfo, EngineRequest } from './builds.js';
import type {
  Claim,
  Continuation,
  GenerateRequest,
  Guess,
  LineEvent,
  Link,
  ModelInfo,
  Prompt,
  Round,
  SessionInfo,
  Summary,
  TemplateVariables,
  Tool,
} from './edge.js';
import type { PlainError } from './errors.js';

/** Addresses or local files that the worker loads, and the session's address. */
export interface Sources {
  /** Null where guesses are looked up only. */
  draft: string | Blob | null;
  /** True if the draft is the server's own, which may have none: guesses are then looked up. */
  mayLackDraft: boolean;
  tokenizer: string | Blob;
  /** The address of the trained heads, which may not exist; null without heads. */
  heads: string | null;
  /** The address of the chat template, which may not exist. */
  chat: string;
  session: string;
  /** True if the page has a bearer token, which it gives for each connection. */
  wantsToken: boolean;
  /** Settings of the draft model that are ignored although they are not known. */
  ignoreSettings?: readonly string[];
  /** Headers that downloads send. */
  headers?: Readonly<Record<string, string>>;
}

/** The progress of `Outrider.load()`. */
export type LoadProgress =
  /** Bytes of a build of the engine, uncompressed; `totalBytes` is null if the server compresses it. */
  | { stage: 'engine'; build: Build; loadedBytes: number; totalBytes: number | null }
  /** Bytes of the draft model; `totalBytes` is null if the size is unknown. */
  | { stage: 'download'; loadedBytes: number; totalBytes: number | null }
  /** The downloaded bytes become a model. */
  | { stage: 'prepare' }
  /** The model is ready; the session with the server is being opened. */
  | { stage: 'connect' };

/** A question to the tokenizer. */
export type Question =
  | { about: 'text'; ids: readonly number[] }
  /** The ids of a prompt, or the text of the last of them. */
  | {
      about: 'ids' | 'tail';
      prompt: Prompt;
      tools: readonly Tool[];
      chatTemplateKwargs: TemplateVariables;
      continueFinalMessage: boolean;
    };

/** The tokenizer's answer: a text, or ids. */
export type Answer = string | number[];

export type ToWorker =
  | {
      type: 'load';
      engine: EngineRequest;
      sources: Sources;
      link: Link;
      connectTimeoutMs: number;
      /** True if a start without the server is wanted. */
      offline: boolean;
      claim: Claim | null;
    }
  | { type: 'generate'; id: number; request: GenerateRequest; continuation: Continuation }
  | { type: 'stop'; id: number }
  | { type: 'ask'; id: number; question: Question }
  | { type: 'link'; link: Link }
  /** A text in which guesses are looked up; null to remove it. */
  | { type: 'context'; id: string; text: string | null }
  /** The network may have changed. */
  | { type: 'network' }
  | { type: 'token'; id: number; token: string }
  | { type: 'no-token'; id: number; error: PlainError }
  | { type: 'close' };

export type FromWorker =
  | { type: 'progress'; progress: LoadProgress }
  /** `offline`: the server could not be reached, and the session's limits are those of an earlier visit. */
  | {
      type: 'loaded';
      engine: EngineInfo;
      model: ModelInfo;
      session: SessionInfo;
      offline: boolean;
      /** True if the chat template has reasoning. */
      reasons: boolean;
    }
  | { type: 'load-failed'; error: PlainError }
  /** Another engine drafts from now on. */
  | { type: 'engine'; engine: EngineInfo }
  /** Connected again, after the connection was lost. */
  | { type: 'reconnected'; session: SessionInfo; offline: boolean }
  | { type: 'round'; id: number; round: Round }
  | { type: 'guess'; id: number; guess: Guess }
  | { type: 'line'; id: number; event: LineEvent }
  | { type: 'done'; id: number; summary: Summary }
  | { type: 'failed'; id: number; error: PlainError }
  /** The draft model cannot be kept for the next visit. */
  | { type: 'cache-full'; error: PlainError }
  /** A connection needs a bearer token. */
  | { type: 'token-wanted'; id: number }
  | { type: 'answer'; id: number; answer: Answer }
  | { type: 'no-answer'; id: number; error: PlainError }
  /** The session is closed, and the worker ends. */
  | { type: 'closed' }
  /** The engine cannot be used any more. */
  | { type: 'crashed'; error: PlainError };
