// One engine in a worker of its own: Outrider's or candle's wasm-bindgen module, which have the same class `Bench`, or
// memory to sweep. Messages are { id, verb, … }, answers { id, value } or { id, error }.
//
// A worker may also be a thread of another: it then gets that one's module and memory and never answers.

let glue;
let wasm;
let bench;
let adapter;
let memory;
const threads = [];

const verbs = {
  /** Loads the model and says how long it took, from the first byte asked for to the last weight in place. */
  async load({ module, model, threads: count }) {
    const compiled = await start(module);
    for (let i = 1; i < count; i++) threads.push(await startThread(module, compiled));
    const began = performance.now();
    const response = await fetch(model);
    bench = new glue.Bench(Number(response.headers.get('content-length')));
    for (const reader = response.body.getReader(); ;) {
      const { done, value } = await reader.read();
      if (done) break;
      bench.push(value);
    }
    adapter = await bench.finish();
    return performance.now() - began;
  },

  pass: async ({ rows, cached, allLogits, times }) => Array.from(await bench.pass(rows, cached, allLogits, times)),

  /**
   * Of a GPU: how it is called; milliseconds of a draft whose largest logits are enough, and of a guess in a group;
   * submissions, read-backs, bytes of these and dispatches of each kind of draft.
   */
  async gpu({ most, k, cached, times }) {
    const counted = async (drafts, action) => {
      const before = bench.counts();
      const value = await action();
      return { value, each: Array.from(bench.counts(), (count, i) => (count - before[i]) / drafts) };
    };
    // One more than are timed; what is cached is there after that.
    await bench.pass(1, cached, true, 1);
    const rows = await counted(times + 1, () => bench.pass(1, cached, true, times));
    const largest = await counted(times + 1, () => bench.top_k(k, cached, times));
    const guesses = await counted(most * (times + 1), () => bench.guesses(most, cached, times));
    const [largestMs, guessMs] = [largest, guesses].map(({ value }) => Array.from(value));
    const each = { ofRows: rows.each, ofLargest: largest.each, ofGuesses: guesses.each };
    return { adapter, most, k, largestMs, guessMs, ...each };
  },

  /** Wasm memory never shrinks: what it is now is what it was at most. */
  memory: () => wasm.memory.buffer.byteLength,

  /** Readies memory to read. */
  async fill({ module, mebibytes }) {
    await start(module);
    memory = new glue.Memory(mebibytes);
  },

  sweep: ({ times }) => Array.from(memory.sweep(times)),
};

async function start(module, compiled, shared) {
  glue = await import(module);
  compiled ??= await WebAssembly.compileStreaming(fetch(module.replace(/\.js$/, '_bg.wasm')));
  wasm = await glue.default({ module_or_path: compiled, memory: shared });
  return compiled;
}

/** A worker that shares this one's memory. */
function startThread(module, compiled) {
  return new Promise((resolve, reject) => {
    const thread = new Worker(import.meta.url, { type: 'module' });
    thread.onmessage = () => resolve(thread);
    thread.onerror = (event) => reject(new Error(event.message));
    thread.postMessage({ verb: 'thread', module, compiled, memory: wasm.memory });
  });
}

self.onmessage = async ({ data: { id, verb, ...request } }) => {
  if (verb === 'thread') {
    await start(request.module, request.compiled, request.memory);
    self.postMessage('ready');
    glue.work();
    return;
  }
  try {
    self.postMessage({ id, value: await verbs[verb](request) });
  } catch (error) {
    self.postMessage({ id, error: String(error?.message ?? error) });
  }
};
