// Wasm memory and work on GPUs of engines that tell neither.

/**
 * Counts the wasm memory of workers, and what they submit to a GPU, by what those note that call `noteMemories` with
 * this name.
 */
export function watchMemories(name) {
  return {
    /** Bytes of the largest, and how often all have submitted something to a GPU. */
    counted: () =>
      new Promise((resolve) => {
        const channel = new BroadcastChannel(name);
        const most = { bytes: 0, submissions: 0 };
        channel.onmessage = ({ data }) => {
          most.bytes = Math.max(most.bytes, data.bytes);
          most.submissions += data.submissions;
        };
        channel.postMessage('counted');
        setTimeout(() => {
          channel.close();
          resolve(most);
        }, 500);
      }),
  };
}

/** A worker's part. It stands by itself, so that it can be put before the code of others. */
export function noteMemories(name) {
  const memories = new Set();
  const { Memory, instantiate, instantiateStreaming } = WebAssembly;
  WebAssembly.Memory = new Proxy(Memory, {
    construct(target, parameters) {
      const memory = Reflect.construct(target, parameters);
      memories.add(memory);
      return memory;
    },
  });
  const noting =
    (original) =>
    async (...parameters) => {
      const result = await original.apply(WebAssembly, parameters);
      const { exports } = result.instance ?? result;
      for (const value of Object.values(exports)) if (value instanceof Memory) memories.add(value);
      return result;
    };
  WebAssembly.instantiate = noting(instantiate);
  WebAssembly.instantiateStreaming = noting(instantiateStreaming);
  let submissions = 0;
  if (globalThis.GPUQueue !== undefined) {
    const { submit } = GPUQueue.prototype;
    GPUQueue.prototype.submit = function (...parameters) {
      submissions++;
      return submit.apply(this, parameters);
    };
  }
  const channel = new BroadcastChannel(name);
  channel.onmessage = () => {
    const bytes = [...memories].reduce((sum, memory) => sum + memory.buffer.byteLength, 0);
    channel.postMessage({ bytes, submissions });
  };
}
