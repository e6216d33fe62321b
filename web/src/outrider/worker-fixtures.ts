// A server and a worker for tests of texts that begin before the draft model is there.

import type { EngineInfo } from './builds.js';
import type { FromWorker, ToWorker } from './messages.js';

/** The answer of `/v1/info`. */
export const info = { vocabSize: 9, limits: { contextLength: 64, maxDraftTokens: 8, maxInFlight: 2, maxGuesses: 8 } };
export const engine: EngineInfo = { engine: 'wasm', declined: null, build: 'relaxed', threads: 1, failed: [] };
export const model = {
  ...{ vocabSize: 9, contextLength: 64, weightBytes: 1, memoryBytes: 2 },
  heads: { gate: false, stop: false },
};

/** A worker that loads when the test says so. */
export class SlowWorker extends EventTarget {
  static last: SlowWorker;
  sent: ToWorker[] = [];
  constructor() {
    super();
    SlowWorker.last = this;
  }
  postMessage(message: ToWorker): void {
    this.sent.push(message);
  }
  say(data: FromWorker): void {
    this.dispatchEvent(new MessageEvent('message', { data }));
  }
  terminate(): void {}
}
