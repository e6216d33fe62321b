// ONNX Runtime Web in a worker of its own, used as transformers.js does: each pass is given the KV cache and gives
// it back, longer. On a GPU it stays there. Messages are { id, verb, … }, answers { id, value } or { id, error }.

import { noteMemories } from './memories.mjs';

let runtime;
let session;
/** Keys and values behind so many tokens. */
const kept = { cached: undefined, past: {} };

const verbs = {
  /** Loads the model and says how long it took. */
  async load({ module, model, threads, gpu, memories }) {
    noteMemories(memories);
    runtime = await import(module);
    runtime.env.wasm.numThreads = threads;
    const options = {
      executionProviders: [gpu ? 'webgpu' : 'wasm'],
      preferredOutputLocation: gpu ? 'gpu-buffer' : 'cpu',
    };
    // What is no model makes it fetch and compile its module, which is not part of what the others load.
    await runtime.InferenceSession.create(new Uint8Array(), options).catch(() => {});
    const began = performance.now();
    const bytes = new Uint8Array(await (await fetch(model)).arrayBuffer());
    session = await runtime.InferenceSession.create(bytes, options);
    return performance.now() - began;
  },

  async pass({ rows, cached, allLogits, times }) {
    if (kept.cached !== cached) {
      free(kept.past);
      Object.assign(kept, { cached, past: {} });
      if (cached > 0) kept.past = (await run({}, 0, cached, false)).present;
    }
    const spent = [];
    // One more than are timed, as the other engines do.
    for (let i = 0; i <= times; i++) {
      const began = performance.now();
      const { present } = await run(kept.past, cached, rows, allLogits);
      if (i > 0) spent.push(performance.now() - began);
      free(present);
    }
    return spent;
  },
};

/** Reads tokens of no meaning; their logits, or the last one's, are here when it ends. */
async function run(past, cached, rows, allLogits) {
  const { Tensor } = runtime;
  const longs = (numbers, shape) => new Tensor('int64', BigInt64Array.from(numbers, BigInt), shape);
  const integer = (number) => new Tensor('int32', Int32Array.of(number), [1]);
  const all = Array.from({ length: rows }, (_, row) => row);
  const wanted = allLogits ? all : [rows - 1];
  const { logits, ...outputs } = await session.run({
    ...(cached > 0 ? past : nothing()),
    input_ids: longs(
      all.map((row) => ((cached + row) * 37) % 4093),
      [1, rows],
    ),
    rows_wanted: longs(wanted, [wanted.length]),
    seqlens_k: integer(cached + rows - 1),
    total_sequence_length: integer(cached + rows),
  });
  await logits.getData();
  logits.dispose();
  const present = Object.entries(outputs).map(([name, tensor]) => [name.replace('present', 'past'), tensor]);
  return { present: Object.fromEntries(present) };
}

/** Keys and values of no token. */
function nothing() {
  const past = session.inputMetadata.filter(({ name }) => name.startsWith('past'));
  return Object.fromEntries(
    past.map(({ name, shape: [texts, heads, , width] }) => [
      name,
      new runtime.Tensor('float32', new Float32Array(), [texts, heads, 0, width]),
    ]),
  );
}

function free(tensors) {
  for (const tensor of Object.values(tensors)) tensor.dispose();
}

self.onmessage = async ({ data: { id, verb, ...request } }) => {
  try {
    self.postMessage({ id, value: await verbs[verb](request) });
  } catch (error) {
    self.postMessage({ id, error: String(error?.message ?? error) });
  }
};
