// The page of `cargo xtask bench edge`: holds the engines, each in a worker, and asks them one at a time. The driver
// calls `globalThis.engines`. Times are milliseconds.

import { noteMemories, watchMemories } from './memories.mjs';

/** An engine in a worker of its own. */
class InWorker {
  #worker;
  #waiting = new Map();
  #next = 0;

  constructor(module) {
    this.#worker = new Worker(module, { type: 'module' });
    this.#worker.onmessage = ({ data: { id, value, error } }) => {
      const { resolve, reject } = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) resolve(value);
      else reject(new Error(error));
    };
    this.#worker.onerror = (event) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(event.message));
    };
  }

  ask(verb, request = {}) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, verb, ...request });
    });
  }

  pass(pass) {
    return this.ask('pass', pass);
  }

  end() {
    this.#worker.terminate();
  }
}

/** Outrider or candle. */
class WasmBindgen extends InWorker {
  constructor() {
    super('/worker.mjs');
  }

  load({ module, model, threads }) {
    return this.ask('load', { module, model, threads });
  }

  gpu(group) {
    return this.ask('gpu', group);
  }

  memory() {
    return this.ask('memory');
  }
}

/** What transformers.js computes with. */
class Onnx extends InWorker {
  #memories;

  constructor() {
    super('/onnx.mjs');
  }

  async load({ module, model, threads, gpu }) {
    const memories = `memories-${Math.random()}`;
    this.#memories = watchMemories(memories);
    const loadMs = await this.ask('load', { module, model, threads, gpu, memories });
    if (gpu) {
      await this.ask('pass', { rows: 1, cached: 0, allLogits: true, times: 1 });
      const { submissions } = await this.#memories.counted();
      if (submissions === 0) throw new Error('it submits nothing to this GPU');
    }
    return loadMs;
  }

  async memory() {
    return (await this.#memories.counted()).bytes;
  }
}

/** Tokens whose time is one pass of one row in `Wllama.pass`. */
const GENERATED = 16;

/** llama.cpp, which takes texts and gives timings. */
class Wllama {
  #wllama;
  #memories;
  #turn = 0;

  async load({ module, model, threads, gpu, context }) {
    const name = `memories-${Math.random()}`;
    this.#memories = watchMemories(name);
    const restore = noteMemoriesFirst(name);
    const { Wllama: Library } = await import(`${module}/index.js`);
    const quiet = { debug() {}, log() {}, warn() {}, error: console.error };
    this.#wllama = new Library({ default: `${module}/wasm/wllama.wasm` }, { suppressNativeLog: true, logger: quiet });
    if (gpu && !this.#wllama.isSupportWebGPU()) throw new Error('wllama has no WebGPU here');
    const began = performance.now();
    const file = await (await fetch(model)).blob();
    try {
      await this.#wllama.loadModel([file], {
        n_ctx: context,
        n_threads: threads,
        n_parallel: 1,
        // More than there are: all.
        n_gpu_layers: gpu ? 999 : 0,
        warmup: false,
      });
    } finally {
      restore();
    }
    const loadMs = performance.now() - began;
    if (gpu) {
      await this.#complete(text(16, 'b'), 1);
      // It goes on without one that lacks what it needs, 16-bit floats for example.
      const { submissions } = await this.#memories.counted();
      if (submissions === 0) throw new Error('wllama leaves this GPU alone and computes on the processor');
    }
    return loadMs;
  }

  /** Null for what it cannot do: several rows behind others, with logits of each. */
  async pass({ rows, cached, times }) {
    if (rows > 1 && cached > 0) return null;
    const found = [];
    // One generation is as many passes of one row as anybody is asked for.
    for (let i = 0; i < (rows === 1 ? 1 : times); i++) {
      if (rows === 1) {
        // The same text again: it is still cached but for the last token.
        const { predicted_n, predicted_ms } = await this.#complete(text(cached - GENERATED / 2, 'b'), GENERATED);
        found.push(predicted_ms / predicted_n);
      } else {
        // Another first letter, so that nothing is cached. What a token costs, as the text may end up a few longer.
        const letter = String.fromCharCode(99 + (this.#turn++ % 20));
        const { prompt_n, prompt_ms } = await this.#complete(text(rows, letter), 1);
        found.push((prompt_ms / prompt_n) * rows);
      }
    }
    return found;
  }

  async #complete(prompt, count) {
    const { timings } = await this.#wllama.createCompletion({
      prompt,
      max_tokens: count,
      temperature: 0,
      ignore_eos: true,
      // Bytes that are no text by themselves end wllama 3.8.1 with an error.
      logit_bias: highBytes,
    });
    if (timings === undefined) throw new Error('wllama gave no timings');
    return timings;
  }

  async memory() {
    return (await this.#memories.counted()).bytes;
  }

  end() {
    return this.#wllama.exit();
  }
}

/** Workers that are started from blobs note their memory, until what comes back is called. */
function noteMemoriesFirst(name) {
  const original = URL.createObjectURL;
  URL.createObjectURL = (blob) =>
    original.call(URL, new Blob([`(${noteMemories})(${JSON.stringify(name)});\n`, blob], { type: blob.type }));
  return () => {
    URL.createObjectURL = original;
  };
}

/** Token 3 is byte 0. */
const highBytes = Object.fromEntries(Array.from({ length: 128 }, (_, i) => [3 + 128 + i, -100]));

/** About `count` tokens: no made-up word begins with one letter, so each letter is a token, after that of beginning and the
 * three bytes of the space before the first word. */
function text(count, first) {
  const letters = 'acegikmoqsuwy';
  return Array.from({ length: Math.max(1, count - 4) }, (_, i) => (i === 0 ? first : letters[(i * 7) % 13])).join('');
}

const held = new Map();
const sweepers = [];

globalThis.engines = {
  async load(name, { kind, ...request }) {
    const Engine = { wllama: Wllama, onnx: Onnx }[kind] ?? WasmBindgen;
    const engine = new Engine();
    held.set(name, engine);
    return engine.load(request);
  },
  pass: (name, pass) => held.get(name).pass(pass),
  gpu: (name, group) => held.get(name).gpu(group),
  memory: (name) => held.get(name).memory(),
  async end(name) {
    await held.get(name).end();
    held.delete(name);
  },
  /** Readies `count` workers that read memory. */
  async prepareSweeps(module, count, mebibytes) {
    for (let i = 0; i < count; i++) {
      const sweeper = new WasmBindgen();
      await sweeper.ask('fill', { module, mebibytes });
      sweepers.push(sweeper);
    }
  },
  /** Bytes per second of `count` workers that read at the same time. */
  async sweep(count) {
    const rates = await Promise.all(sweepers.slice(0, count).map((sweeper) => sweeper.ask('sweep', { times: 4 })));
    const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    return rates.map(middle).reduce((sum, rate) => sum + rate, 0);
  },
};
