// A host around a fake engine, for its tests.

import { expect, vi } from 'vitest';
import type { EngineRequest } from './builds.js';
import type { Sink } from './download.js';
import type { Edge, GenerateRequest, GpuHandle, Round, Summary } from './edge.js';
import { emptySummary } from './generation.js';
import { addresses, session } from './fixtures.js';
import { EdgeHost } from './host.js';
import type { FromWorker } from './messages.js';
import { resolveRequest, openLink } from './options.js';
import { generationRanges } from './tables.js';

export const noHeads = { gate: false, stop: false };
export const request: GenerateRequest = resolveRequest('p', {}, generationRanges, noHeads);
export const claim = { session: '01', secret: '02', attempts: 0, generation: 1 };
export const continuation = { attempts: 3, stallMs: 5000, committed: [], guessesFrom: 0.8, offlineTokens: 64 };
export const round: Round = {
  tokens: [{ id: 1, text: 'a', origin: 'accepted' }],
  statistics: emptySummary,
  round: null,
};
export const done: Summary = { ...emptySummary, finish: 'length' };
export const engineInfo = { build: 'simd128' as const, threads: 1, failed: [] };
export const coded = (code: string) => Object.assign(new Error(code), { code });

/** A host around a fake engine, loaded; `posts` without the progress. */
export async function loaded(
  engine: Partial<Edge>,
  heads: Uint8Array | null = null,
  downloadInto = async (_: string, sink: Sink) => {
    await sink.begin(3);
    sink.push(new Uint8Array([1, 2, 3]));
  },
  chat: Uint8Array | null = null,
  {
    wanted = 'wasm',
    gpu = null,
    offline = false,
    welcome = null,
    acceptance = null,
  }: {
    wanted?: EngineRequest['engine'];
    gpu?: GpuHandle | Error | null;
    offline?: boolean;
    /** The Welcome that an earlier visit has kept. */
    welcome?: Uint8Array | null;
    /** The acceptance that an earlier visit has kept. */
    acceptance?: Uint8Array | null;
  } = {},
) {
  const posts: FromWorker[] = [];
  const connect = vi.fn<Edge['connect']>(() => Promise.resolve(session));
  const edge: Edge = {
    info: () => ({
      engine: 'wasm',
      declined: null,
      vocabSize: 4096,
      contextLength: 512,
      weightBytes: 1,
      memoryBytes: 2,
      heads: noHeads,
    }),
    another: () => edge,
    connect,
    connect_later: vi.fn(() => session),
    welcome: () => new Uint8Array([7]),
    acceptance: () => undefined,
    expect_acceptance: vi.fn(),
    set_link: vi.fn(),
    generate: () => Promise.resolve(done),
    tokenize: (prompt) => Uint32Array.of(prompt.length),
    detokenize: (ids) => `${ids.length} ids`,
    stop: vi.fn(),
    network_changed: vi.fn(),
    add_context: vi.fn(),
    remove_context: vi.fn(),
    close: vi.fn(),
    ...engine,
  };
  const exit = vi.fn();
  const finish = vi.fn((..._: unknown[]) => Promise.resolve(edge));
  const loaders: { on: string; totalBytes: number | undefined; chunks: number[][]; free: () => void }[] = [];
  const [ignoreSettings, lookup] = [vi.fn(), vi.fn()];
  class EdgeLoader {
    on = 'processor';
    totalBytes: number | undefined;
    chunks: number[][] = [];
    free = vi.fn();
    finish = finish;
    ignore_settings = ignoreSettings;

    constructor(totalBytes?: number) {
      this.totalBytes = totalBytes;
      loaders.push(this);
    }

    static on_gpu(totalBytes: number | undefined, { name }: GpuHandle, always: boolean): EdgeLoader {
      return Object.assign(new EdgeLoader(totalBytes), { on: `${name}${always ? ', always' : ''}` });
    }

    static lookup(...given: unknown[]): Edge {
      lookup(...given);
      return edge;
    }

    push(chunk: Uint8Array): void {
      if (chunk[0] === 0) throw coded('corrupt-model');
      this.chunks.push([...chunk]);
    }
  }
  const [keepBytes, allowOffline] = [vi.fn(), vi.fn()];
  const host = new EdgeHost({
    post: (message) => posts.push(message),
    exit,
    hasWebGpu: gpu !== null,
    loadEngine: () =>
      Promise.resolve({
        EdgeLoader,
        GpuHandle: { open: () => (gpu instanceof Error ? Promise.reject(gpu) : Promise.resolve(gpu!)) },
        info: engineInfo,
      }),
    download: () => Promise.resolve(new Uint8Array()),
    downloadInto,
    downloadOptional: (url: string) => Promise.resolve({ h: heads, c: chat }[url] ?? null),
    keepBytes,
    keptBytes: (url) => Promise.resolve(url.includes('acceptance') ? acceptance : welcome),
    allowOffline,
  });
  const sources = {
    draft: 'd',
    mayLackDraft: true,
    tokenizer: 't',
    heads: 'h',
    chat: 'c',
    session: 'ws://s',
    wantsToken: true,
    ignoreSettings: ['k'],
  };
  host.receive({
    type: 'load',
    engine: { engine: wanted, build: 'auto', threads: 1, addresses },
    sources,
    link: openLink,
    connectTimeoutMs: 50,
    offline,
    claim,
  });
  host.receive({ type: 'context', id: 'early', text: 'before' });
  await vi.waitFor(() => expect(posts.at(-1)?.type).toMatch(/^load/));
  return {
    host,
    posts,
    edge,
    lookup,
    connect,
    exit,
    finish,
    loaders,
    sources,
    ignoreSettings,
    keepBytes,
    allowOffline,
  };
}

export const answer = (posts: FromWorker[]) =>
  vi.waitFor(() => {
    const last = posts.at(-1);
    expect(last?.type).toMatch(/^(done|failed|crashed)$/);
    return last;
  });
