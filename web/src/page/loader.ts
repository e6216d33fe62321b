// Loading: its progress, the engine, and the names of the models.

import type { EngineInfo, LoadProgress, ModelInfo } from '../outrider/index.js';
import { element } from './elements.js';
import { formatBytes, formatPercent } from './format.js';
import { engineSentence } from './sentences.js';
import type { ServedModels } from './models.js';

/** The lengths of the builds of the engine in bytes, from `vite.config.ts`. */
declare const ENGINE_BYTES: Readonly<Record<string, number>>;

/** The line with the progress of loading: first of the engine, then of the model. */
export class LoadView {
  #since = 0;
  #timer: ReturnType<typeof setInterval> | undefined;

  /** Begins with the engine, whose progress is unknown: the line counts the seconds. */
  begin(): void {
    this.#since = performance.now();
    clearInterval(this.#timer);
    this.#waiting();
    this.#timer = setInterval(() => this.#waiting(), 1000);
  }

  progress(progress: LoadProgress): void {
    clearInterval(this.#timer);
    switch (progress.stage) {
      case 'engine': {
        const { build, loadedBytes, totalBytes } = progress;
        return this.#count('Draft engine', loadedBytes, totalBytes ?? ENGINE_BYTES[build] ?? null);
      }
      case 'download':
        return this.#count('Draft model', progress.loadedBytes, progress.totalBytes);
      case 'prepare':
        return this.#show('Preparing the draft model', undefined);
      case 'connect':
        this.#show('Connecting to the server', undefined);
    }
  }

  ready(engine: EngineInfo, { weightBytes, memoryBytes, vocabSize, contextLength }: ModelInfo): void {
    this.drafts(engine);
    const size = `${formatBytes(weightBytes)} (${formatBytes(memoryBytes)} of memory)`;
    this.#end(`Draft ready: ${size}, ${vocabSize} tokens, context ${contextLength}`);
  }

  /** Shows the engine that drafts from now on. */
  drafts(engine: EngineInfo): void {
    const shown = element('engine', HTMLElement);
    shown.dataset['engine'] = engine.engine;
    shown.dataset['build'] = engine.build;
    shown.dataset['threads'] = String(engine.threads);
    shown.textContent = engineSentence(engine);
    const failed = engine.failed.map(({ build, message }) => `${build} did not start: ${message}`);
    const declined = engine.declined === null ? [] : [`the GPU does not draft: ${engine.declined}`];
    shown.title = [...failed, ...declined].join('\n');
  }

  failed(): void {
    this.#end('Not ready');
  }

  /** Shows bytes, and per cent where the length is known. */
  #count(what: string, loaded: number, total: number | null): void {
    if (!total || loaded > total) return this.#show(`${what}: ${formatBytes(loaded)}`, undefined);
    const share = loaded / total;
    const words = `${what}: ${formatBytes(loaded)} of ${formatBytes(total)}, ${formatPercent(share)}`;
    this.#show(words, share);
  }

  #waiting(): void {
    const seconds = Math.floor((performance.now() - this.#since) / 1000);
    this.#show(`Loading the draft engine${seconds > 0 ? `, ${seconds} s so far` : ''}`, undefined);
  }

  #end(words: string): void {
    clearInterval(this.#timer);
    this.#show(words, null);
  }

  /** @param share progress from 0 to 1; undefined if it is unknown; null hides the bar */
  #show(words: string, share: number | undefined | null): void {
    element('load-text', HTMLElement).textContent = words;
    const bar = element('load-bar', HTMLProgressElement);
    bar.hidden = share === null;
    if (typeof share === 'number') bar.value = share;
    else bar.removeAttribute('value');
  }
}

/** The parts of `/v1/info` that the page shows. */
export interface Told {
  models: ServedModels;
  elsewhere: { name: string; url: string }[];
}

/** Asks the server, or what an earlier visit has kept of it; null where there is no answer. */
async function ask(path: string, init?: RequestInit): Promise<Response | null> {
  try {
    return (await fetch(path, init).catch(() => caches.match(path))) ?? null;
  } catch {
    return null;
  }
}

/** Reads an answer that is JSON; empty where it is none. */
async function read<Answer>(answer: Response | null): Promise<Partial<Answer>> {
  try {
    return ((await answer?.json()) ?? {}) as Partial<Answer>;
  } catch {
    return {};
  }
}

/** The headers of a request with the access token, if there is one. */
function withToken(token: string | null): RequestInit {
  return token === null ? {} : { headers: { Authorization: `Bearer ${token}` } };
}

/** Asks for the server's models; null where it does not answer, as it may without a token. */
export async function askModels(token: string | null): Promise<Told | null> {
  const { models, elsewhere = [] } = await read<Told>(await ask('v1/info', withToken(token)));
  return models ? { models, elsewhere } : null;
}

/** Asks whether the server's model has a chat template; null where the server does not say. */
export async function askTemplate(token: string | null): Promise<boolean | null> {
  const answer = await ask('pair/chat.json', withToken(token));
  if (answer?.status === 404) return false;
  return answer?.ok ? Boolean((await read<{ template: string }>(answer)).template) : null;
}

/**
 * Asks whether the server refuses pages of this address: it takes them for another site's if a proxy hides the name in
 * the address bar. A request that names its page is answered at once.
 */
export async function isRefused(): Promise<boolean> {
  const headers = { 'Content-Type': 'application/json' };
  const request = { method: 'POST', headers, body: '{}' };
  const { error } = await read<{ error: { code?: string } }>(await ask('v1/completions', request));
  return error?.code === 'origin_not_allowed';
}
