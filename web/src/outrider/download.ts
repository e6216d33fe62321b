import { OutriderError } from './errors.js';
import { within } from './within.js';

/** Pauses before each attempt, in milliseconds; a radio link needs seconds to come back. */
const PAUSES_MS = [0, 250, 1000, 3000];

/** Longest time without a byte, in milliseconds, after which a transfer is begun again. */
export const STALL_MS = 20_000;

/** Answers of a server that may answer otherwise in a moment. */
const busyStatuses = [429, 502, 503, 504];

/** The receiver of a download's bytes. */
export interface Sink {
  /** Begins a file, or begins it again: bytes pushed before are discarded. */
  begin(totalBytes: number | null): void | Promise<void>;
  /** Takes the next bytes of the file. */
  push(chunk: Uint8Array): void;
}

/** The copy of a file that is kept from one visit to the next. */
export interface Kept {
  /** The server's `ETag` of the kept version; null without one. */
  readonly etag: string | null;
  /** The length of the whole file; null if it is not known. */
  readonly total: number | null;
  /** The number of kept bytes, from the first byte on. */
  readonly length: number;
  /** Reads from a position on, and returns the number of bytes read. */
  read(at: number, into: Uint8Array): number;
  /** Discards the copy, and begins one of this version. */
  begin(etag: string | null, total: number | null): void;
  append(chunk: Uint8Array): void;
  /** Checks that the bytes read, from first to last, are those that were appended. */
  isSound(): Promise<boolean>;
  close(): void;
}

/** Waits for something to arrive, perhaps not for ever. */
export type Wait = <T>(arriving: Promise<T>) => Promise<T>;

/** Bytes read from a kept file at a time. */
const KEPT_CHUNK = 1 << 20;

/**
 * Fetches a file into `sink`, and reports its progress. A transfer that breaks or stalls is resumed there if the server
 * can (`Range` with `If-Range`, so that bytes of two versions never mix), else from the start. A `kept` copy is used
 * instead if the server confirms its version; new bytes are added to it.
 *
 * Memory: one chunk. An error of the sink ends the download and is thrown.
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
  /** Parts come uncompressed: the rest of a compressed file would be more bytes than the whole again. */
  let isCompressed = false;
  /** Kept bytes that the sink has not received. */
  let unread = length;
  let cause: unknown;
  let isSuspect = false;
  /** Attempts that have failed since a stalled transfer last brought new bytes. */
  let failed = 0;
  let furthest = length;
  const keeping = (action: (kept: Kept) => void): void => {
    try {
      if (kept) action(kept);
    } catch {
      // On a full disk nothing is kept; the download continues.
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

  for (; failed < PAUSES_MS.length; failed += 1) {
    const pause = PAUSES_MS[failed] ?? 0;
    const controller = new AbortController();
    const stall = stalled();
    const wait: Wait = (arriving) => within(STALL_MS, arriving, stall);
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
    // A weak validator names a version, and does not promise equal bytes: it serves for a whole file, not for a part.
    const isNamed: boolean = length > 0 && validator !== null && !isCompressed;
    const whole: boolean = isNamed && length === total;
    const resuming: boolean = isNamed && (whole || !validator?.startsWith('W/'));
    try {
      const headers: Record<string, string> = whole
        ? { 'If-None-Match': validator ?? '' }
        : resuming
          ? { Range: `bytes=${length}-`, 'If-Range': validator ?? '' }
          : {};
      const response: Response = await wait(request(url, { headers, signal: controller.signal }));
      if (whole && response.status === 304) return await readKept();
      if (resuming && !isRest(response, length, validator)) forget('the rest of the file is no longer there');
      if (!response.ok) {
        const { status } = response;
        const why = `${url} answered ${status} ${response.statusText}`;
        const failed = new OutriderError('download-failed', why, { cause: status });
        if (!busyStatuses.includes(status)) throw failed;
        cause = failed;
        continue;
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
      for await (const chunk of chunksOf(response, wait)) {
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
      if (error === stall) {
        controller.abort();
        // A long download may stall more often than it may fail.
        if (length > furthest) failed = 0;
        furthest = Math.max(furthest, length);
      }
      if (length > 0 || !(error instanceof TypeError)) continue;
      if (isSuspect) throw originRefused(url, cause);
      isSuspect = await answersOthers(url, request);
    }
  }
  if (cause instanceof OutriderError) throw cause;
  const detail = cause instanceof Error ? cause.message : String(cause);
  throw new OutriderError('download-failed', `${url} could not be fetched: ${detail}`, { cause });
}

/**
 * Checks whether a server of another origin answers a request whose answer this page may not read. Then the network did
 * not fail the request: a browser reports both with the same error.
 */
export async function answersOthers(url: string, request: typeof fetch): Promise<boolean> {
  const { origin } = globalThis;
  if (origin === undefined || new URL(url).origin === origin) return false;
  try {
    // Every Outrider server lets all pages see that this one exists; of other servers any answer will do.
    await within(STALL_MS, request(new URL('/healthz', url), { method: 'HEAD', mode: 'no-cors' }), stalled());
    return true;
  } catch {
    return false;
  }
}

/** Makes the error of a server that does not let this page in. */
export function originRefused(url: string, cause: unknown): OutriderError {
  const why = `${new URL(url).origin} does not let pages of ${globalThis.origin} in (--allow-origin)`;
  return new OutriderError('origin-refused', why, { cause });
}

/** Reads a local file into `sink`, and reports its progress. Memory: one chunk. */
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
 * Fetches a file as {@link downloadInto} does, into memory: the size of the file if its length is known, else at most
 * three times that.
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

/** Fetches a file that may not exist: null if the server answers 404. */
export async function downloadOptional(url: string, request?: typeof fetch): Promise<Uint8Array | null> {
  try {
    return await download(url, undefined, request);
  } catch (error) {
    if (error instanceof OutriderError && error.cause === 404) return null;
    throw error;
  }
}

/** Returns whether a download failed because the server answered 410: it has no such file, whatever proxies say. */
export function isGone(error: unknown): boolean {
  return error instanceof OutriderError && error.cause === 410;
}

/** The length of the body as it will be read; null if it is compressed. */
function lengthOf(response: Response): number | null {
  const encoding = response.headers.get('content-encoding');
  const length = Number(response.headers.get('content-length') ?? Number.NaN);
  return Number.isSafeInteger(length) && (encoding === null || encoding === 'identity') ? length : null;
}

/**
 * Checks that an answer to a request for the rest of a version is that rest, or all of another version. Servers that do
 * not read `If-Range` send a part of any version, or 416.
 */
function isRest(response: Response, at: number, validator: string | null): boolean {
  if (response.status !== 206) return response.status !== 416;
  const etag = response.headers.get('etag');
  const start = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
  return (etag === null || etag === validator) && (start === undefined || Number(start) === at);
}

/** Makes the error of a transfer that stalls. */
export function stalled(): Error {
  const remedy = 'check the network, and whether a proxy or firewall holds the file back, then load again';
  return new Error(`no byte came for ${STALL_MS / 1000} s; ${remedy}`);
}

/** Yields the body of a response, each chunk awaited with `wait`. Leaving the loop early cancels the transfer. */
export async function* chunksOf(response: Response, wait: Wait = (chunk) => chunk): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  if (!reader) return;
  try {
    for (;;) {
      const { done, value } = await wait(reader.read());
      if (done) return;
      yield value;
    }
  } finally {
    // A transfer that has ended or failed has nothing left to cancel.
    reader.cancel().catch(() => {});
  }
}

/** A refusal by the sink, which unlike a failure of the network is not worth another attempt. */
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
