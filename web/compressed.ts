// What a page's build leaves beside its files: files that are compressed already.

import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, readdir, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Plugin } from 'vite';

/** Names of the files that compression makes smaller. */
const compressible = /\.(css|html|js|json|map|svg|txt|wasm|webmanifest)$/;
/** Below this a request costs more than its bytes. */
const LEAST_BYTES = 512;
/**
 * Brotli's last quality takes 3 s for a MiB; above this the one before the last two, which gives an eighth more bytes. An
 * engine has 6 MB.
 */
const PATIENT_BYTES = 8 << 20;
/** Results by content, so that only what has changed is compressed again. */
const cache = path.resolve(import.meta.dirname, 'node_modules/.cache/outrider-compressed');

/**
 * Compresses every file of the build that gets smaller by brotli and by gzip, beside it as `.br` and `.gz`: a server
 * sends them as they lie, so that no request waits for compression.
 */
export function compressed(): Plugin {
  let folder = '';
  return {
    name: 'compressed',
    apply: 'build',
    enforce: 'post',
    configResolved({ root, build }) {
      folder = path.resolve(root, build.outDir);
    },
    async closeBundle() {
      const names = await readdir(folder, { recursive: true });
      await mkdir(cache, { recursive: true });
      await Promise.all(
        names.filter((name) => compressible.test(name)).map((name) => compress(path.join(folder, name))),
      );
    },
  };
}

async function compress(file: string): Promise<void> {
  const bytes = await readFile(file);
  if (bytes.length < LEAST_BYTES) return;
  const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_SIZE_HINT, BROTLI_MAX_QUALITY } = constants;
  const quality = bytes.length > PATIENT_BYTES ? BROTLI_MAX_QUALITY - 2 : BROTLI_MAX_QUALITY;
  const params = { [BROTLI_PARAM_QUALITY]: quality, [BROTLI_PARAM_SIZE_HINT]: bytes.length };
  const forms = [
    { end: '.br', make: () => promisify(brotliCompress)(bytes, { params }) },
    { end: '.gz', make: () => promisify(gzip)(bytes, { level: constants.Z_BEST_COMPRESSION }) },
  ];
  const key = createHash('sha256').update(`${quality} `).update(bytes).digest('hex');
  await Promise.all(
    forms.map(async ({ end, make }) => {
      const form = await cached(path.join(cache, key + end), make);
      if (form.length < bytes.length) await writeFile(file + end, form);
    }),
  );
}

async function cached(file: string, make: () => Promise<Uint8Array>): Promise<Uint8Array> {
  try {
    return await readFile(file);
  } catch {
    const made = await make();
    // Whole or not at all, also if the build is ended in between; two files may have the same content.
    const unfinished = `${file}.${randomUUID()}`;
    await writeFile(unfinished, made);
    await rename(unfinished, file);
    return made;
  }
}
