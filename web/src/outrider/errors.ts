/**
 * The code of an error, stable across versions. The list names the codes of this version; a newer engine may add others.
 *
 * | code | meaning |
 * |---|---|
 * | `download-failed` | the draft model or its tokenizer could not be fetched |
 * | `origin-refused` | the server of another origin does not let this page in |
 * | `corrupt-model`, `unsupported-model` | the draft file is damaged, or of a kind the engine cannot run |
 * | `corrupt-tokenizer` | the tokenizer file is damaged |
 * | `tokenizer-mismatch` | draft and server do not share one vocabulary |
 * | `corrupt-heads`, `heads-mismatch` | the file of trained heads is damaged, or belongs to another draft |
 * | `corrupt-chat` | the chat template cannot be used |
 * | `wasm-failed` | this browser could not start the WebAssembly engine |
 * | `gpu-failed` | the GPU was to draft, and there is none that can |
 * | `out-of-memory` | the draft does not fit into the memory the browser grants |
 * | `connection-failed`, `connection-lost` | no server at the address; the server went away |
 * | `incompatible-version` | page and server speak different versions of the protocol |
 * | `shutting-down`, `idle` | the server ended the session, because it stops or heard nothing for too long |
 * | `taken-over` | another page goes on with the session |
 * | `session-expired` | the session is as old as the server lets one get |
 * | `prompt-too-long` | the prompt does not fit the context window |
 * | `invalid-parameters` | the engine or the server cannot work with these options or this prompt |
 * | `malformed`, `out-of-order`, `impossible-verdict` | the server sent what cannot be |
 * | `server-full` | the server holds as many sessions as it allows, in all or from this address |
 * | `unauthorized` | the server wants a token, and knows no such |
 * | `worker-crashed`, `worker-unresponsive` | the worker died, or did not stop when asked to |
 * | `invalid-option` | there is no such option, or it is out of range |
 * | `unsupported-environment` | there is no browser around: Node, or a page that is rendered on a server |
 * | `cache-full`, `not-cacheable` | the draft model cannot be kept for the next visit: no space, or no `ETag`; reported to `onCacheFull`, not thrown |
 * | `no-draft` | the draft model could not be loaded, and what was asked for needs it |
 * | `server-error` | the server alone, without a draft, answered with an error that has no code here |
 * | `busy`, `closed` | the model is being loaded; the instance was closed |
 * | `draft-failed` | the draft model cannot compute |
 * | `not-idle`, `not-connected`, `invalid-draft`, `frame-too-long`, `unknown-session`, `unknown` | a fault of this package, or of a server of another version |
 * | `internal` | a fault of ours |
 */
export type OutriderErrorCode =
  | 'download-failed'
  | 'origin-refused'
  | 'corrupt-model'
  | 'unsupported-model'
  | 'corrupt-tokenizer'
  | 'tokenizer-mismatch'
  | 'corrupt-heads'
  | 'heads-mismatch'
  | 'corrupt-chat'
  | 'wasm-failed'
  | 'gpu-failed'
  | 'out-of-memory'
  | 'connection-failed'
  | 'connection-lost'
  | 'incompatible-version'
  | 'malformed'
  | 'out-of-order'
  | 'impossible-verdict'
  | 'server-full'
  | 'unauthorized'
  | 'shutting-down'
  | 'idle'
  | 'taken-over'
  | 'session-expired'
  | 'prompt-too-long'
  | 'invalid-parameters'
  | 'worker-crashed'
  | 'worker-unresponsive'
  | 'invalid-option'
  | 'unsupported-environment'
  | 'cache-full'
  | 'not-cacheable'
  | 'no-draft'
  | 'server-error'
  | 'busy'
  | 'closed'
  | 'draft-failed'
  | 'not-idle'
  | 'not-connected'
  | 'invalid-draft'
  | 'frame-too-long'
  | 'unknown-session'
  | 'unknown'
  | 'internal'
  | (string & {});

/** Every error that this package raises, apart from an aborted `load()`, which rejects with the signal's reason. */
export class OutriderError extends Error {
  override readonly name = 'OutriderError';
  /** The cause of the error; stable across versions, unlike `message`. */
  readonly code: OutriderErrorCode;
  /** The refused option of a generation, or parameter of OpenAI's API; undefined for other errors. */
  readonly option: string | undefined;

  constructor(code: OutriderErrorCode, message: string, options: ErrorOptions & { option?: string } = {}) {
    super(message, options);
    this.code = code;
    this.option = options.option;
  }
}

/** Makes the error for an option that is unknown or out of range. */
export function invalidOption(message: string, options?: ErrorOptions & { option?: string }): OutriderError {
  return new OutriderError('invalid-option', message, options);
}

/** An error as it crosses from the worker: structured cloning would drop the code. */
export interface PlainError {
  code: OutriderErrorCode;
  message: string;
  /** The error's own cause, if it is known. */
  cause?: PlainCause;
}

/** The cause of an error as it crosses: another error, or a value that can be cloned. */
export type PlainCause =
  { name: string; message: string; code?: string; cause?: PlainCause } | string | number | boolean;

/** Most errors in a chain of causes, since one may be its own cause. */
const LONGEST_CHAIN = 8;

function causeOf(thrown: unknown, left = LONGEST_CHAIN): { cause?: PlainCause } {
  const cause: unknown = thrown instanceof Error ? thrown.cause : undefined;
  if (cause === undefined || cause === null || left === 0) return {};
  if (typeof cause === 'string' || typeof cause === 'number' || typeof cause === 'boolean') return { cause };
  if (!(cause instanceof Error)) return { cause: String(cause) };
  const code = 'code' in cause && typeof cause.code === 'string' ? { code: cause.code } : {};
  return { cause: { name: cause.name, message: cause.message, ...code, ...causeOf(cause, left - 1) } };
}

/** The error that has crossed, with what it comes from. */
export function revive({ code, message, cause }: PlainError): OutriderError {
  return new OutriderError(code, message, cause === undefined ? {} : { cause: reviveCause(cause) });
}

function reviveCause(cause: PlainCause): unknown {
  if (typeof cause !== 'object') return cause;
  const { name, message, code } = cause;
  const error = new Error(message, cause.cause === undefined ? {} : { cause: reviveCause(cause.cause) });
  return Object.assign(error, { name }, code === undefined ? {} : { code });
}

/** Gives anything that was thrown a code. A trapped engine must not be used again and says `worker-crashed`. */
export function describe(thrown: unknown): PlainError {
  return { ...codeAndMessage(thrown), ...causeOf(thrown) };
}

function codeAndMessage(thrown: unknown): { code: OutriderErrorCode; message: string } {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  if (thrown instanceof WebAssembly.RuntimeError) {
    return { code: 'worker-crashed', message };
  }
  if (thrown instanceof WebAssembly.CompileError || thrown instanceof WebAssembly.LinkError) {
    return { code: 'wasm-failed', message };
  }
  if (thrown instanceof RangeError) {
    // The only size this package asks of the browser is the model's.
    return { code: 'out-of-memory', message };
  }
  if (thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string') {
    return { code: thrown.code, message };
  }
  return { code: 'internal', message };
}
