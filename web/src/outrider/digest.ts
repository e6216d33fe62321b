/** Bytes that are digested at a time. */
const BLOCK = 1 << 20;

/**
 * A digest of bytes that come in pieces: SHA-256 over the SHA-256 of each MiB. The browser's own digests, which are fast,
 * want all bytes at once.
 *
 * Memory: one block, and 32 bytes for each.
 */
export class BlockDigest {
  readonly #block = new Uint8Array(BLOCK);
  #filled = 0;
  readonly #digests: Promise<ArrayBuffer>[] = [];

  add(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length;) {
      const piece = bytes.subarray(at, at + BLOCK - this.#filled);
      this.#block.set(piece, this.#filled);
      this.#filled += piece.length;
      at += piece.length;
      if (this.#filled === BLOCK) this.#end();
    }
  }

  /** The digest of all added bytes, in hex; call it last. */
  async value(): Promise<string> {
    if (this.#filled > 0) this.#end();
    const digests = await Promise.all(this.#digests);
    const all = new Uint8Array(await new Blob(digests).arrayBuffer());
    return hex(await crypto.subtle.digest('SHA-256', all));
  }

  #end(): void {
    // The browser takes a copy before it goes on.
    this.#digests.push(crypto.subtle.digest('SHA-256', this.#block.subarray(0, this.#filled)));
    this.#filled = 0;
  }
}

export function hex(bytes: ArrayBuffer): string {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
