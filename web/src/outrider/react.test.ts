// @vitest-environment happy-dom

import { act, createElement, StrictMode } from 'react';
import type { JSX } from 'react';
import { createRoot } from 'react-dom/client';
import type { Root } from 'react-dom/client';
import { afterEach, beforeEach, expect, expectTypeOf, test, vi } from 'vitest';
import type { OutriderChat } from './chat-element.js';
import { OutriderError } from './errors.js';
import { emptySummary, Generation } from './generation.js';
import { Outrider } from './index.js';
import type { GenerateOptions, LoadOptions, Summary } from './index.js';
import { useOutrider } from './react.js';
import type { UseOutrider } from './react.js';
import { stopWith } from './running.js';

/** An instance that a test loads and lets write by hand. */
class Instance {
  closed = 0;
  texts: Generation[] = [];
  /** Thrown by the next `generate()`. */
  refusal: Error | null = null;

  generate(_: unknown, { signal }: GenerateOptions = {}): Generation {
    if (this.refusal) throw this.refusal;
    const stop = () => generation.finish({ ...emptySummary });
    const generation = new Generation({} as never, stop);
    this.texts.push(generation);
    if (signal) stopWith(generation, signal);
    return generation;
  }

  close = () => void (this.closed += 1);
}

let loads: { options: LoadOptions; resolve: (instance: Instance) => void; reject: (error: Error) => void }[];
let states: UseOutrider[];
let root: Root;

let options: LoadOptions;

function Probe() {
  states.push(useOutrider(options));
  return null;
}

const state = () => states.at(-1)!;
const write = (generation: Generation | undefined, text: string) =>
  act(async () => {
    generation?.add({ tokens: [{ id: 1, text, origin: 'accepted' }], statistics: emptySummary, round: null });
  });

beforeEach(() => {
  [loads, states] = [[], []];
  options = { server: 'https://example.org' };
  vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
  vi.spyOn(Outrider, 'load').mockImplementation(
    (options = {}) => new Promise((resolve, reject) => loads.push({ options, resolve: resolve as never, reject })),
  );
  root = createRoot(document.body.appendChild(document.createElement('div')));
});
afterEach(async () => {
  await act(async () => root.unmount());
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const render = () => act(async () => root.render(createElement(StrictMode, null, createElement(Probe))));

async function loaded(): Promise<Instance> {
  await render();
  const instance = new Instance();
  await act(async () => loads.at(-1)?.resolve(instance));
  return instance;
}

test('strict mode loads twice, and the first instance is closed, however late it comes', async () => {
  await render();
  const [first, second] = [new Instance(), new Instance()];
  expect(loads.map(({ options }) => options.signal?.aborted)).toEqual([true, false]);
  await act(async () => loads[1]?.resolve(second));
  await act(async () => loads[0]?.resolve(first));
  expect([state().outrider, state().isReady, first.closed, second.closed]).toEqual([second, true, 1, 0]);
  await act(async () => root.unmount());
  expect([first.closed, second.closed]).toEqual([1, 1]);
});

test('a text grows, ends with its summary, and another takes its place', async () => {
  const instance = await loaded();
  await act(async () => void state().generate('Once'));
  await write(instance.texts[0], 'One');
  await write(instance.texts[0], ' day');
  expect(state()).toMatchObject({ text: 'One day', isWriting: true, summary: null });
  await act(async () => void state().generate('Again'));
  await write(instance.texts[1], 'Two');
  expect(state()).toMatchObject({ text: 'Two', isWriting: true, summary: null });
  await act(async () => instance.texts[1]?.finish({ ...emptySummary, tokens: 1 }));
  expect(state()).toMatchObject({ text: 'Two', isWriting: false, summary: { tokens: 1 } });
  const { generate, stop } = state();
  await act(async () => void generate('Once more'));
  await act(async () => stop());
  expect(state()).toMatchObject({ text: '', isWriting: false, summary: { finish: 'cancelled' }, generate, stop });
});

test('an error is in the state until the next text begins', async () => {
  await render();
  await act(async () => loads[0]?.reject(new Error('aborted')));
  expect(state().error).toBeNull();
  await act(async () => loads[1]?.reject(new OutriderError('connection-failed', 'no server')));
  expect(state()).toMatchObject({ isReady: false, error: { code: 'connection-failed' } });

  await act(async () => root.unmount());
  root = createRoot(document.body);
  const instance = await loaded();
  expect(state().error).toBeNull();
  instance.refusal = new OutriderError('invalid-option', 'no');
  await act(async () => void state().generate('a'));
  expect(state()).toMatchObject({ isWriting: false, error: { code: 'invalid-option' } });
  instance.refusal = null;
  await act(async () => void state().generate('a'));
  expect(state()).toMatchObject({ isWriting: true, error: null });
  await act(async () => instance.texts[0]?.fail(new OutriderError('connection-lost', 'gone')));
  expect(state()).toMatchObject({ isWriting: false, error: { code: 'connection-lost' } });
});

test('a text loads again what could not be loaded, and waits for what is being loaded', async () => {
  await render();
  await act(async () => loads[0]?.reject(new Error('aborted')));
  await act(async () => loads[1]?.reject(new OutriderError('connection-failed', 'no server')));
  expect(state()).toMatchObject({ isReady: false, isWriting: false, error: { code: 'connection-failed' } });
  await act(async () => void state().generate('a'));
  expect(state()).toMatchObject({ isWriting: true, error: null });
  await act(async () => loads[2]?.reject(new OutriderError('connection-failed', 'no server')));
  expect(state()).toMatchObject({ isWriting: false, error: { code: 'connection-failed' } });
  let written: Promise<Summary | null> | undefined;
  await act(async () => void (written = state().generate('a')));
  const instance = new Instance();
  await act(async () => loads[3]?.resolve(instance));
  await write(instance.texts[0], 'One');
  expect(state()).toMatchObject({ isReady: true, isWriting: true, text: 'One', error: null, outrider: instance });
  await act(async () => instance.texts[0]?.finish({ ...emptySummary, tokens: 1 }));
  expect(await written).toMatchObject({ text: 'One', tokens: 1 });
  await act(async () => root.unmount());
  expect([loads.length, instance.closed]).toEqual([4, 1]);
});

test('a stop ends a text that waits for the instance, and another takes its place', async () => {
  await render();
  let written: Promise<Summary | null> | undefined;
  await act(async () => void (written = state().generate('a')));
  await act(async () => state().stop());
  expect(await written).toBeNull();
  expect(state()).toMatchObject({ isWriting: false, error: null });
  await act(async () => void (written = state().generate('b')));
  await act(async () => void state().generate('c'));
  expect(await written).toBeNull();
  const instance = new Instance();
  await act(async () => loads[1]?.resolve(instance));
  expect([instance.texts.length, state().isWriting]).toEqual([1, true]);
  const abort = new AbortController();
  await act(async () => void state().generate('d', { signal: abort.signal }));
  await act(async () => abort.abort());
  expect(state()).toMatchObject({ isWriting: false, summary: { finish: 'cancelled' } });
});

test('JSX knows the element of a chat, with its attributes and properties', () => {
  type Props = JSX.IntrinsicElements['outrider-chat'];
  expectTypeOf<{ server: string; label: string; className: string }>().toExtend<Props>();
  expectTypeOf<{ loadOptions: LoadOptions; ref: (chat: OutriderChat | null) => void }>().toExtend<Props>();
  expectTypeOf<{ generateOptions: { temperature: string } }>().not.toExtend<Props>();
});

test('a signal of the page’s own gives loading up', async () => {
  const abort = new AbortController();
  options = { signal: abort.signal };
  await render();
  expect(loads.map(({ options }) => options.signal?.aborted)).toEqual([true, false]);
  const reason = new Error('enough');
  abort.abort(reason);
  expect(loads[1]?.options.signal).toMatchObject({ aborted: true, reason });
  await act(async () => loads[1]?.reject(reason));
  expect(state()).toMatchObject({ isReady: false, error: reason });
});

test('what an unmounted component’s text does is of no consequence', async () => {
  const instance = await loaded();
  await act(async () => void state().generate('a'));
  const seen = states.length;
  await act(async () => root.unmount());
  // A stopped text leaves nothing at the server.
  expect([instance.closed, instance.texts[0]?.ended]).toEqual([1, true]);
  await act(async () => instance.texts[0]?.fail(new OutriderError('closed', 'closed')));
  expect(states.length).toBe(seen);
});
