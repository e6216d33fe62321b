// Keeps a downloaded model in the origin's private file system, so that the next visit need not fetch it.
// Only workers have files that can be read and written at once.

import { BlockDigest, hex } from './digest.js';
import type { Kept } from './download.js';
import { OutriderError } from './errors.js';
import { forgetAnswers } from './kept-answers.js';

const folderName = 'outrider';
/** The bytes of JSON, padded with spaces, at the beginning of a file; the model follows. */
const headBytes = 512;

interface Head {
  /** The address of the model; absent in files of older versions. */
  url?: string;
  etag: string | null;
  total: number | null;
  /** The {@link BlockDigest} of the model, once it is complete. */
  sum?: string;
}

/** Opens the kept copy of the file at an address; null where none can be kept, or another tab has it open. */
export async function keptFile(
  url: string,
  onRefused: (error: OutriderError) => void = () => {},
): Promise<KeptFile | null> {
  try {
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle(folderName, { create: true });
    const file = await folder.getFileHandle(await nameOf(url), { create: true });
    const handle = await (file as FileSystemFileHandle & SyncAccess).createSyncAccessHandle();
    return new KeptFile(handle, url, onRefused);
  } catch (cause) {
    // Another tab that has the file open keeps it.
    if (!(cause instanceof DOMException && cause.name === 'NoModificationAllowedError')) {
      onRefused(new OutriderError('not-cacheable', 'this browser keeps no files for this page', { cause }));
    }
    return null;
  }
}

async function nameOf(url: string): Promise<string> {
  return hex(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(url)));
}

/** A draft model that is kept in this origin's private file system. */
export interface KeptModel {
  /** The address that it was fetched from. */
  url: string;
  /** The number of kept bytes. */
  bytes: number;
  /** The length of the file; null if it is unknown. */
  totalBytes: number | null;
  /** True if the copy is complete; the rest is fetched when the model is loaded again. */
  complete: boolean;
}

/** The folder of kept files; null where there is none. */
async function folder(): Promise<FileSystemDirectoryHandle | null> {
  try {
    const root = await navigator.storage.getDirectory();
    return await root.getDirectoryHandle(folderName);
  } catch {
    return null;
  }
}

/** Lists the kept models. */
export async function listFiles(): Promise<KeptModel[]> {
  // The types of a page lack it.
  const kept = (await folder()) as (FileSystemDirectoryHandle & AsyncIterable<[string, unknown]>) | null;
  const models: KeptModel[] = [];
  if (!kept) return models;
  for await (const [name] of kept) {
    const file = await (await kept.getFileHandle(name)).getFile();
    const { url, etag, total } = parseHead(await file.slice(0, headBytes).text());
    if (url === undefined || etag === null) continue;
    const bytes = Math.max(0, file.size - headBytes);
    models.push({ url, bytes, totalBytes: total, complete: bytes === total });
  }
  return models;
}

/** Deletes the kept model at an address, and returns whether there was one. @throws {@link OutriderError} `busy` */
export async function deleteFile(url: string): Promise<boolean> {
  try {
    const kept = await folder();
    await kept?.removeEntry(await nameOf(url));
    return kept !== null;
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === 'NotFoundError') return false;
    throw new OutriderError('busy', 'the model is being loaded', { cause });
  }
}

/** Deletes all kept models, and the answers of their servers. @throws {@link OutriderError} `busy` */
export async function forgetFiles(): Promise<void> {
  await forgetAnswers();
  if (!(await folder())) return;
  try {
    const root = await navigator.storage.getDirectory();
    await root.removeEntry(folderName, { recursive: true });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === 'NotFoundError') return;
    throw new OutriderError('busy', 'a model is being loaded, here or in another tab', { cause });
  }
}

/** The used methods of a `FileSystemSyncAccessHandle`, which the types of a page lack. */
export interface Handle {
  read(into: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(size: number): void;
  getSize(): number;
  flush(): void;
  close(): void;
}

interface SyncAccess {
  createSyncAccessHandle(): Promise<Handle>;
}

/** A kept copy in a file. Invariant: the bytes after the head are the first ones of the version that the head names. */
export class KeptFile implements Kept {
  readonly #handle: Handle;
  readonly #url: string;
  readonly #onRefused: (error: OutriderError) => void;
  #head: Head;
  #length: number;
  /** The digest of the first `#digested` bytes, as they were read or written. */
  #digest = new BlockDigest();
  #digested = 0;

  constructor(handle: Handle, url: string, onRefused: (error: OutriderError) => void = () => {}) {
    this.#handle = handle;
    this.#url = url;
    this.#onRefused = onRefused;
    this.#head = readHead(handle);
    this.#length = this.#head.etag === null ? 0 : Math.max(0, handle.getSize() - headBytes);
  }

  get etag(): string | null {
    return this.#head.etag;
  }

  get total(): number | null {
    return this.#head.total;
  }

  get length(): number {
    return this.#length;
  }

  read(at: number, into: Uint8Array): number {
    const read = this.#handle.read(into, { at: headBytes + at });
    this.#follow(at, into.subarray(0, read));
    return read;
  }

  begin(etag: string | null, total: number | null): void {
    this.#handle.truncate(0);
    this.#length = 0;
    [this.#digest, this.#digested] = [new BlockDigest(), 0];
    this.#head = { url: this.#url, etag, total };
    if (etag === null) {
      // Without a name a version cannot be told from the next one.
      const lack = `${this.#url} is sent without an ETag that this page may read, so that it is downloaded at each visit`;
      const remedy = 'send an ETag, to other origins with Access-Control-Expose-Headers: ETag';
      return this.#onRefused(new OutriderError('not-cacheable', `${lack}; ${remedy}`));
    }
    if (!this.#writeHead()) this.#head = { etag: null, total: null };
  }

  append(chunk: Uint8Array): void {
    if (this.etag === null) return;
    const written = this.#write(chunk, headBytes + this.#length);
    this.#follow(this.#length, chunk.subarray(0, written));
    this.#length += written;
    if (written < chunk.length) throw this.#full();
  }

  /** Checks that the bytes read are those that were written; true for a file that was never sealed. */
  async isSound(): Promise<boolean> {
    const { sum } = this.#head;
    return sum === undefined || this.#digested < this.#length || (await this.#digest.value()) === sum;
  }

  /** Stores the digest of a complete file. */
  async seal(): Promise<void> {
    const { etag, total, sum } = this.#head;
    const isWhole = this.#length === total && this.#digested === total;
    if (etag === null || sum !== undefined || !isWhole) return;
    this.#head = { ...this.#head, sum: await this.#digest.value() };
    this.#writeHead();
  }

  #follow(at: number, bytes: Uint8Array): void {
    if (at !== this.#digested) return;
    this.#digest.add(bytes);
    this.#digested += bytes.length;
  }

  /** Writes the head, without an address that is too long for it; false if it does not fit. */
  #writeHead(): boolean {
    const encode = (head: Omit<Head, 'url'>): Uint8Array => new TextEncoder().encode(JSON.stringify(head));
    const { url: _, ...unnamed } = this.#head;
    const whole = encode(this.#head);
    const head = whole.length > headBytes ? encode(unnamed) : whole;
    if (head.length > headBytes) return false;
    const padded = new Uint8Array(headBytes).fill(0x20);
    padded.set(head);
    this.#write(padded, 0);
    return true;
  }

  #write(bytes: Uint8Array, at: number): number {
    try {
      return this.#handle.write(bytes, { at });
    } catch (cause) {
      throw this.#full(cause);
    }
  }

  /** Reports that no more bytes can be kept. */
  #full(cause?: unknown): OutriderError {
    const error = new OutriderError('cache-full', 'the disk or the origin’s quota is full', { cause });
    this.#onRefused(error);
    return error;
  }

  close(): void {
    try {
      this.#handle.flush();
    } catch (cause) {
      this.#full(cause);
    } finally {
      this.#handle.close();
    }
  }
}

function readHead(handle: Handle): Head {
  const bytes = new Uint8Array(headBytes);
  if (handle.read(bytes, { at: 0 }) < headBytes) return { etag: null, total: null };
  return parseHead(new TextDecoder().decode(bytes));
}

function parseHead(text: string): Head {
  const none = { etag: null, total: null };
  try {
    const { url, etag, total, sum } = JSON.parse(text) as Head;
    if (typeof etag !== 'string') return none;
    const known = { ...(url !== undefined && { url }), ...(sum !== undefined && { sum }) };
    return { ...known, etag, total: typeof total === 'number' ? total : null };
  } catch {
    return none;
  }
}
