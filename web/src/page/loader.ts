// Loading: how far it is, which engine came of it, and which models these are.

import type { EngineInfo, LoadProgress, ModelInfo } from '../outrider/index.js';
import { element } from './elements.js';
import { formatBytes } from './format.js';
import { engineSentence } from './sentences.js';
import type { ServedModels } from './models.js';

/** The line beside the prompt that says how far loading is: first the engine's, then the model's. */
export class LoadView {
  #since = 0;
  #timer: ReturnType<typeof setInterval> | undefined;

  /** Loading begins. Nothing tells how much of the engine is there, so the seconds are counted. */
  begin(): void {
    this.#since = performance.now();
    clearInterval(this.#timer);
    this.#waiting();
    this.#timer = setInterval(() => this.#waiting(), 1000);
  }

  progress(progress: LoadProgress): void {
    clearInterval(this.#timer);
    switch (progress.stage) {
      case 'download': {
        const { loadedBytes, totalBytes } = progress;
        const total = totalBytes === null ? '' : ` of ${formatBytes(totalBytes)}`;
        this.#show(
          `Draft model: ${formatBytes(loadedBytes)}${total}`,
          totalBytes ? loadedBytes / totalBytes : undefined,
        );
        return;
      }
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

  /** What drafts, from now on. */
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

  #waiting(): void {
    const seconds = Math.floor((performance.now() - this.#since) / 1000);
    this.#show(`Loading the draft engine${seconds > 0 ? `, ${seconds} s so far` : ''}`, undefined);
  }

  #end(words: string): void {
    clearInterval(this.#timer);
    this.#show(words, null);
  }

  /** @param share how far, 0 to 1; undefined if nobody knows; null hides the bar */
  #show(words: string, share: number | undefined | null): void {
    element('load-text', HTMLElement).textContent = words;
    const bar = element('load-bar', HTMLProgressElement);
    bar.hidden = share === null;
    if (typeof share === 'number') bar.value = share;
    else bar.removeAttribute('value');
  }
}

/** What a server tells of itself. */
export interface Told {
  models: ServedModels;
  elsewhere: { name: string; url: string }[];
}

/** Which models these are; null where the server does not tell, as one may not without a token. */
export async function askModels(): Promise<Told | null> {
  try {
    const response = await fetch('v1/info');
    const { models, elsewhere = [] } = (await response.json()) as Partial<Told>;
    return models ? { models, elsewhere } : null;
  } catch {
    return null;
  }
}

/** Whether the server has a form of its own for conversations: a chat template of its model. */
export async function askTemplate(): Promise<boolean> {
  try {
    const { template } = (await (await fetch('pair/chat.json')).json()) as { template?: unknown };
    return Boolean(template);
  } catch {
    return false;
  }
}

/**
 * Whether the server refuses pages of this address: behind a proxy that hides the name in the address bar it takes them
 * for another site's. A request that says whose page it comes from is answered at once.
 */
export async function isRefused(): Promise<boolean> {
  try {
    const headers = { 'Content-Type': 'application/json' };
    const response = await fetch('v1/completions', { method: 'POST', headers, body: '{}' });
    const { error } = (await response.json()) as { error?: { code?: string } };
    return error?.code === 'origin_not_allowed';
  } catch {
    return false;
  }
}
