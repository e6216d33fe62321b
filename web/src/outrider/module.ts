// Fetches the engine's WebAssembly and compiles it while it comes.

import { chunksOf, stalled, STALL_MS } from './download.js';
import { OutriderError } from './errors.js';
import { within } from './within.js';

/** Pauses before each attempt, in milliseconds, as in downloads of models. */
const PAUSES_MS = [0, 250, 1000, 3000];

/** Called with the bytes of a file so far, uncompressed, and its length; null if that is unknown. */
export type OnBytes = (loadedBytes: number, totalBytes: number | null) => void;

/**
 * Compiles the module at an address. A transfer that breaks or stalls is begun again, from the start where the
 * browser's cache keeps no part of it (Chromium: of a compressed answer). The browser has to fetch the module itself to
 * cache compiled code.
 * @throws what the last attempt threw, {@link OutriderError} `download-failed` if it stalled; at once for an answer
 * that is no module, such as 404
 */
export async function compileModule(
  address: string,
  request: typeof fetch = (...args) => fetch(...args),
  onBytes: OnBytes = () => {},
): Promise<WebAssembly.Module> {
  let cause: unknown;
  for (const pause of PAUSES_MS) {
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
    const controller = new AbortController();
    const stall = stalled();
    try {
      const response = await within(STALL_MS, request(address, { signal: controller.signal }), stall);
      const type = response.headers.get('Content-Type') ?? '';
      // Some servers answer with their page where there is no file.
      if (!response.ok || type.startsWith('text/html')) {
        const answer = response.ok ? 'with a page' : response.status;
        const hint = "the option wasmUrl says where the package's .wasm files are";
        throw new Refusal(`${address} answers ${answer}; ${hint}`);
      }
      const counting = count(response, onBytes, stall);
      // Servers that do not know the type of a .wasm file are common.
      const compiling = type.startsWith('application/wasm')
        ? WebAssembly.compileStreaming(response)
        : response.arrayBuffer().then((bytes) => WebAssembly.compile(bytes));
      return await Promise.race([compiling, counting]);
    } catch (error) {
      controller.abort();
      if (error instanceof Refusal || error instanceof WebAssembly.CompileError) throw error;
      cause = error === stall ? new OutriderError('download-failed', `${address}: ${stall.message}`) : error;
    }
  }
  throw cause;
}

/**
 * Counts the bytes of a copy, so that the browser still compiles, and caches, the response that it has fetched. Never
 * resolves. @throws `stall` if no byte comes for a time
 */
async function count(response: Response, onBytes: OnBytes, stall: Error): Promise<never> {
  const length = Number(response.headers.get('Content-Length') ?? Number.NaN);
  const isPlain = response.headers.get('Content-Encoding') === null;
  try {
    let loaded = 0;
    for await (const chunk of chunksOf(response.clone(), (arriving) => within(STALL_MS, arriving, stall))) {
      loaded += chunk.length;
      onBytes(loaded, isPlain && length >= loaded ? length : null);
    }
  } catch (error) {
    if (error === stall) throw error;
    // A transfer that breaks is reported by the compilation.
  }
  return new Promise(() => {});
}

/** An answer that another attempt would not change. */
class Refusal extends Error {}
