// Keeps a downloaded model in the origin's private file system, so that a page that is opened again need not fetch it.
// Only workers have files that can be read and written at once.

import type { Kept } from './download.js';

const folderName = 'outrider';
/** A file begins with so many bytes of JSON, filled up with spaces; the model follows. */
const headBytes = 512;

interface Head {
  etag: string | null;
  total: number | null;
}

/** What is kept of the file at an address; null where nothing can be kept, or another tab is at it. */
export async function keptFile(url: string): Promise<Kept | null> {
  try {
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle(folderName, { create: true });
    const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(url));
    const name = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
    const file = (await folder.getFileHandle(name, { create: true })) as FileSystemFileHandle & SyncAccess;
    return new KeptFile(await file.createSyncAccessHandle());
  } catch {
    return null;
  }
}

/** Forgets all models that were kept. */
export async function forgetFiles(): Promise<void> {
  try {
    const root = await navigator.storage.getDirectory();
    await root.removeEntry(folderName, { recursive: true });
  } catch {
    // There is nothing, or it is in use.
  }
}

/** What is used of a `FileSystemSyncAccessHandle`, which the types of a page lack. */
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

/** A model in a file. Invariant: the bytes behind the head are the first ones of the version that the head names. */
export class KeptFile implements Kept {
  readonly #handle: Handle;
  #head: Head;
  #length: number;

  constructor(handle: Handle) {
    this.#handle = handle;
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
    return this.#handle.read(into, { at: headBytes + at });
  }

  begin(etag: string | null, total: number | null): void {
    this.#handle.truncate(0);
    this.#length = 0;
    this.#head = { etag, total };
    // What has no name cannot be told from other versions.
    if (etag === null) return;
    const head = new TextEncoder().encode(JSON.stringify(this.#head));
    if (head.length > headBytes) this.#head = { etag: null, total: null };
    else
      this.#handle.write(
        Uint8Array.from({ length: headBytes }, (_, i) => head[i] ?? 0x20),
        { at: 0 },
      );
  }

  append(chunk: Uint8Array): void {
    if (this.etag === null) return;
    const written = this.#handle.write(chunk, { at: headBytes + this.#length });
    if (written < chunk.length) throw new Error('the disk is full');
    this.#length += chunk.length;
  }

  close(): void {
    this.#handle.flush();
    this.#handle.close();
  }
}

function readHead(handle: Handle): Head {
  const none = { etag: null, total: null };
  const bytes = new Uint8Array(headBytes);
  if (handle.read(bytes, { at: 0 }) < headBytes) return none;
  try {
    const { etag, total } = JSON.parse(new TextDecoder().decode(bytes)) as Head;
    return typeof etag === 'string' ? { etag, total: typeof total === 'number' ? total : null } : none;
  } catch {
    return none;
  }
}
