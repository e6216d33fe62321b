import { OutriderError } from './errors.js';

/** How long to wait before each attempt, in milliseconds; a radio link needs seconds to come back. */
const PAUSES_MS = [0, 250, 1000, 3000];

/** Where the bytes of a download go. */
export interface Sink {
  /** A file begins, or begins anew: what was pushed before counts no more. */
  begin(totalBytes: number | null): void | Promise<void>;
  /** The next bytes of the file. */
  push(chunk: Uint8Array): void;
}

/** What is kept of a file from one visit to the next. */
export interface Kept {
  /** What the server calls the version that is kept; null: none is. */
  readonly etag: string | null;
  /** The length of the whole file; null if it is not known. */
  readonly total: number | null;
  /** How many bytes are there, from the first on. */
  readonly length: number;
  /** Reads from a position on; gives how many bytes there were. */
  read(at: number, into: Uint8Array): number;
  /** Forgets what there is; what is appended is of this version. */
  begin(etag: string | null, total: number | null): void;
  append(chunk: Uint8Array): void;
  /** Whether what was read, from the first byte to the last, is what was once appended. */
  isSound(): Promise<boolean>;
  close(): void;
}

/** Bytes that are read from what is kept at a time. */
const KEPT_CHUNK = 1 << 20;

/**
 * Fetches a file into `sink`, telling how far it is. A transfer that breaks is taken up where it broke if the server
 * can (`Range` with `If-Range`, so that bytes of two versions never mix), else from the start. What is `kept` is not
 * fetched, if the server says that it is the same version; what comes is kept.
 *
 * Memory: one chunk. What the sink throws ends the download and is thrown on.
 * @throws {@link OutriderError} `download-failed`; `origin-refused`, after the second attempt
 */
export async function downloadInto(
  url: string,
  sink: Sink,
  onProgress: (loadedBytes: number, totalBytes: number | null) => void = () => {},
  request: typeof fetch = (...args) => fetch(...args),
  kept: Kept | null = null,
): Promise<void> {
  let length = kept?.length ?? 0;
  let total: number | null = kept?.total ?? null;
  let validator: string | null = kept?.etag ?? null;
  /** Parts come uncompressed: the rest of what is compressed would be more bytes than all of it again. */
  let isCompressed = false;
  /** Bytes that are kept and that the sink has not had. */
  let unread = length;
  let cause: unknown;
  let isSuspect = false;
  const keeping = (action: (kept: Kept) => void): void => {
    try {
      if (kept) action(kept);
    } catch {
      // Nothing is kept on a full disk; the download goes on.
      kept = null;
    }
  };
  const forget = (why: string): never => {
    [length, unread, validator] = [0, 0, null];
    throw new Error(why);
  };
  const readKept = async (): Promise<void> => {
    if (!kept || unread === 0) return;
    await refusing(() => sink.begin(total));
    for (let at = 0; at < unread;) {
      const chunk = new Uint8Array(Math.min(KEPT_CHUNK, unread - at));
      const read = kept.read(at, chunk);
      if (read === 0) {
        forget('the kept part of the file is gone');
      }
      await refusing(() => sink.push(chunk.subarray(0, read)));
      at += read;
      onProgress(at, total);
    }
    if (!(await kept.isSound())) forget('the kept file is damaged');
    unread = 0;
  };

  for (const pause of PAUSES_MS) {
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
    // A weak validator names a version, and does not promise equal bytes: it serves for a whole file, not for a part.
    const isNamed: boolean = length > 0 && validator !== null && !isCompressed;
    const whole: boolean = isNamed && length === total;
    const resuming: boolean = isNamed && (whole || !validator?.startsWith('W/'));
    try {
      const response: Response = await request(url, {
        headers: whole
          ? { 'If-None-Match': validator ?? '' }
          : resuming
            ? { Range: `bytes=${length}-`, 'If-Range': validator ?? '' }
            : {},
      });
      if (whole && response.status === 304) return await readKept();
      if (resuming && !isRest(response, length, validator)) forget('the rest of the file is no longer there');
      if (!response.ok) {
        throw new OutriderError(
          'download-failed',
          `${url} answered ${response.status} ${response.statusText}`,
          { cause: response.status },
        );
      }
      if (resuming && response.status === 206) {
        await readKept();
      } else {
        [length, unread] = [0, 0];
        total = lengthOf(response);
        const etag = response.headers.get('etag');
        validator = etag ?? response.headers.get('last-modified');
        const coding = response.headers.get('content-encoding');
        isCompressed = coding !== null && coding !== 'identity';
        keeping((kept) => kept.begin(etag, total));
        await refusing(() => sink.begin(total));
      }
      onProgress(length, total);
      for await (const chunk of chunksOf(response)) {
        await refusing(() => sink.push(chunk));
        keeping((kept) => kept.append(chunk));
        length += chunk.length;
        onProgress(length, total);
      }
      // More arrives where the length is that of a compressed answer, and the server does not let other sites see that.
      if (total === null || length >= total) return;
      cause = new Error(`${length} of ${total} bytes arrived`);
    } catch (error) {
      if (error instanceof Refusal) throw error.cause;
      if (error instanceof OutriderError) throw error;
      cause = error;
      if (length > 0 || !(error instanceof TypeError)) continue;
      if (isSuspect) {
        const { origin } = new URL(url);
        const why = `${origin} does not let pages of ${globalThis.origin} in (--allow-origin)`;
        throw new OutriderError('origin-refused', why, { cause });
      }
      isSuspect = await answersOthers(url, request);
    }
  }
  const detail = cause instanceof Error ? cause.message : String(cause);
  throw new OutriderError('download-failed', `${url} could not be fetched: ${detail}`, { cause });
}

/**
 * Whether the server of another origin answers those who may not read the answer. Then it was not the network that
 * failed the request: a browser says the same of both.
 */
async function answersOthers(url: string, request: typeof fetch): Promise<boolean> {
  const { origin } = globalThis;
  if (origin === undefined || new URL(url).origin === origin) return false;
  try {
    await request(url, { method: 'HEAD', mode: 'no-cors' });
    return true;
  } catch {
    return false;
  }
}

/** Reads a file of the user's into `sink`, telling how far it is. Memory: one chunk. */
export async function readInto(
  file: Blob,
  sink: Sink,
  onProgress: (loadedBytes: number, totalBytes: number | null) => void = () => {},
): Promise<void> {
  await sink.begin(file.size);
  let length = 0;
  for await (const chunk of chunksOf(new Response(file))) {
    sink.push(chunk);
    length += chunk.length;
    onProgress(length, file.size);
  }
}

/**
 * Fetches a file as {@link downloadInto} does, into memory: the file once, if the server tells its length; at most
 * three times while growing, if not.
 * @throws {@link OutriderError} `download-failed`
 */
export async function download(
  url: string,
  onProgress?: (loadedBytes: number, totalBytes: number | null) => void,
  request?: typeof fetch,
): Promise<Uint8Array> {
  const file = new Growing();
  await downloadInto(url, file, onProgress, request);
  return file.bytes();
}

/** {@link download} of a file that may not be there: null if the server answers that it is not. */
export async function downloadOptional(url: string, request?: typeof fetch): Promise<Uint8Array | null> {
  try {
    return await download(url, undefined, request);
  } catch (error) {
    if (error instanceof OutriderError && error.cause === 404) return null;
    throw error;
  }
}

/** The length of the body as it will be read; unknown if it travels compressed. */
function lengthOf(response: Response): number | null {
  const encoding = response.headers.get('content-encoding');
  const length = Number(response.headers.get('content-length') ?? Number.NaN);
  return Number.isSafeInteger(length) && (encoding === null || encoding === 'identity') ? length : null;
}

/**
 * Whether an answer to a request for the rest of a version, from a position on, is of use: that rest, or all of another
 * version. Servers that do not read `If-Range` send a part of any version, or that there is none.
 */
function isRest(response: Response, at: number, validator: string | null): boolean {
  if (response.status !== 206) return response.status !== 416;
  const etag = response.headers.get('etag');
  const start = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
  return (etag === null || etag === validator) && (start === undefined || Number(start) === at);
}

/** Yields the body of a response as it comes. Leaving the loop early cancels the transfer. */
export async function* chunksOf(response: Response): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  if (!reader) return;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    // A transfer that has ended or failed has nothing left to cancel.
    reader.cancel().catch(() => {});
  }
}

/** The sink will not have the bytes. Told apart from failures of the network, which are worth another attempt. */
class Refusal extends Error {
  constructor(cause: unknown) {
    super('refused', { cause });
  }
}

async function refusing(action: () => void | Promise<void>): Promise<void> {
  try {
    await action();
  } catch (error) {
    throw new Refusal(error);
  }
}

/** Bytes that are appended to. Invariant: the first `length` bytes of `#buffer` are the content. */
class Growing implements Sink {
  length = 0;
  #buffer = new Uint8Array(0);

  begin(totalBytes: number | null): void {
    this.length = 0;
    if (totalBytes !== null) this.#reserve(totalBytes);
  }

  #reserve(capacity: number): void {
    if (capacity <= this.#buffer.length) return;
    const grown = new Uint8Array(capacity);
    grown.set(this.#buffer.subarray(0, this.length));
    this.#buffer = grown;
  }

  push(chunk: Uint8Array): void {
    const end = this.length + chunk.length;
    if (end > this.#buffer.length) this.#reserve(Math.max(end, 2 * this.#buffer.length));
    this.#buffer.set(chunk, this.length);
    this.length = end;
  }

  bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.length);
  }
}
