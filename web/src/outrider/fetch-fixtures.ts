// A worker that answers by itself, for tests of `outrider.fetch`.

import type { EngineInfo } from './builds.js';
import type { GenerateRequest, Piece, Summary } from './edge.js';
import { session } from './fixtures.js';
import { emptySummary } from './generation.js';
import type { FromWorker, ToWorker } from './messages.js';

const engine: EngineInfo = { engine: 'wasm', declined: null, build: 'relaxed', threads: 1, failed: [] };
const heads = { gate: false, stop: false };
const model = { vocabSize: 4096, contextLength: 512, weightBytes: 1, memoryBytes: 2, heads };

/** The end of a generation that a test ends by hand. */
export const HANGS = 'hangs';

/** A worker that writes two words and the seed, or what `pieces` has, one part a task. */
export class WritingWorker extends EventTarget {
  static requests: GenerateRequest[] = [];
  static stops = 0;
  static pieces: Piece[] | null = null;
  static error: { code: string; message: string } | null = null;
  /** The seed of the text that `error` ends, if not of each. */
  static failing: number | null = null;

  /** Forgets what earlier tests have set. */
  static reset(): void {
    Object.assign(WritingWorker, { requests: [], stops: 0, pieces: null, error: null, failing: null });
  }

  #stopped = new Set<number>();

  postMessage(message: ToWorker): void {
    if (message.type === 'load') this.#say({ type: 'loaded', engine, model, session, offline: false, reasons: false });
    if (message.type === 'generate') void this.#write(message.id, message.request);
    if (message.type === 'stop') {
      WritingWorker.stops += 1;
      this.#stopped.add(message.id);
      this.#say({ type: 'done', id: message.id, summary: { ...emptySummary, text: 'cut', finish: 'cancelled' } });
    }
  }

  async #write(id: number, request: GenerateRequest): Promise<void> {
    WritingWorker.requests.push(request);
    const { pieces, error, failing } = WritingWorker;
    const [texts, seed] = [['Good ', 'day '], String(request.seed)];
    for (const text of pieces ? [''] : [...texts, seed]) {
      await new Promise((resolve) => setTimeout(resolve));
      if (this.#stopped.has(id)) return;
      const tokens = text === '' ? [] : [{ id: 1, text, origin: 'accepted' } as const];
      const statistics = { ...emptySummary, tokens: 1 };
      if (error && (failing === null || failing === request.seed)) return this.#say({ type: 'failed', id, error });
      this.#say({ type: 'round', id, round: { tokens, statistics, round: null, ...(pieces && { pieces }) } });
    }
    const summary: Summary = {
      ...emptySummary,
      ...{ text: `Good day ${seed}`, tokens: 3, serverPasses: 2, promptTokens: 5, finish: 'eos' },
      ...(pieces && { pieces }),
    };
    if (!JSON.stringify(request.prompt).includes(HANGS)) this.#say({ type: 'done', id, summary });
  }

  #say(data: FromWorker): void {
    queueMicrotask(() => this.dispatchEvent(new MessageEvent('message', { data })));
  }

  terminate(): void {}
}

/** The address of the API; requests to it do not leave the page. */
export const baseURL = 'https://outrider.invalid/v1';
