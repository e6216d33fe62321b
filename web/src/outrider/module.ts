// Fetches the engine's WebAssembly and compiles it while it comes.

/** How long to wait before each attempt, in milliseconds, as downloads of models do. */
const PAUSES_MS = [0, 250, 1000, 3000];

/**
 * Compiles the module at an address. A transfer that breaks is begun again: what has come is in the browser's cache, and
 * browsers that keep parts (Chromium, Firefox) ask for the rest. So the compiled code is kept as well, which browsers do
 * only for what they have fetched themselves.
 * @throws what the last attempt threw; at once for an answer that is no module, such as 404
 */
export async function compileModule(
  address: URL,
  request: typeof fetch = (...args) => fetch(...args),
): Promise<WebAssembly.Module> {
  let cause: unknown;
  for (const pause of PAUSES_MS) {
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
    try {
      const response = await request(address);
      if (!response.ok) throw new Refusal(`${address.href} answers ${response.status}`);
      // Servers that do not know the type of a .wasm file are common.
      const isTyped = response.headers.get('Content-Type')?.startsWith('application/wasm');
      return await (isTyped
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
