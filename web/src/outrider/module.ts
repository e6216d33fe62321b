// Fetches the engine's WebAssembly and compiles it while it comes.

import { chunksOf } from './download.js';

/** Pauses before each attempt, in milliseconds, as in downloads of models. */
const PAUSES_MS = [0, 250, 1000, 3000];

/** Called with the bytes of a file so far, uncompressed, and its length; null if that is unknown. */
export type OnBytes = (loadedBytes: number, totalBytes: number | null) => void;

/**
 * Compiles the module at an address. A transfer that breaks is begun again, from the start where the browser's cache keeps
 * no part of it (Chromium: of a compressed answer). The browser has to fetch the module itself to cache compiled code.
 * @throws what the last attempt threw; at once for an answer that is no module, such as 404
 */
export async function compileModule(
  address: string,
  request: typeof fetch = (...args) => fetch(...args),
  onBytes?: OnBytes,
): Promise<WebAssembly.Module> {
  let cause: unknown;
  for (const pause of PAUSES_MS) {
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
    try {
      const response = await request(address);
      const type = response.headers.get('Content-Type') ?? '';
      // Some servers answer with their page where there is no file.
      if (!response.ok || type.startsWith('text/html')) {
        const answer = response.ok ? 'with a page' : response.status;
        const hint = "the option wasmUrl says where the package's .wasm files are";
        throw new Refusal(`${address} answers ${answer}; ${hint}`);
      }
      if (onBytes) void count(response, onBytes);
      // Servers that do not know the type of a .wasm file are common.
      return await (type.startsWith('application/wasm')
        ? WebAssembly.compileStreaming(response)
        : WebAssembly.compile(await response.arrayBuffer()));
    } catch (error) {
      if (error instanceof Refusal || error instanceof WebAssembly.CompileError) throw error;
      cause = error;
    }
  }
  throw cause;
}

/** Counts the bytes of a copy, so that the browser still compiles, and caches, the response that it has fetched. */
async function count(response: Response, onBytes: OnBytes): Promise<void> {
  const length = Number(response.headers.get('Content-Length') ?? Number.NaN);
  const isPlain = response.headers.get('Content-Encoding') === null;
  try {
    let loaded = 0;
    for await (const chunk of chunksOf(response.clone())) {
      loaded += chunk.length;
      onBytes(loaded, isPlain && length >= loaded ? length : null);
    }
  } catch {
    // A transfer that breaks is reported by the compilation.
  }
}

/** An answer that another attempt would not change. */
class Refusal extends Error {}
