// Fetches the engine's WebAssembly and compiles it while it comes.

/** Pauses before each attempt, in milliseconds, as in downloads of models. */
const PAUSES_MS = [0, 250, 1000, 3000];

/**
 * Compiles the module at an address. A transfer that breaks is begun again, from the start where the browser's cache keeps
 * no part of it (Chromium: of a compressed answer). The browser has to fetch the module itself to cache compiled code.
 * @throws what the last attempt threw; at once for an answer that is no module, such as 404
 */
export async function compileModule(
  address: string,
  request: typeof fetch = (...args) => fetch(...args),
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

/** An answer that another attempt would not change. */
class Refusal extends Error {}
