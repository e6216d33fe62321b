// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { OutriderChat } from './chat-element.js';
import { OutriderError } from './errors.js';
import { emptySummary, Generation } from './generation.js';
import { Outrider } from './index.js';
import type { GenerateOptions, LoadOptions, Message, Prompt } from './index.js';
import { stopWith } from './running.js';

/** An instance that a test lets write by hand. A stopped text ends when the test says so. */
class Instance {
  readonly ranges = { maxNewTokens: { max: 64 } };
  isClosed = false;
  prompts: Prompt[] = [];
  texts: { generation: Generation; isStopped: boolean }[] = [];

  generate(prompt: Prompt, { signal }: GenerateOptions): Generation {
    if (this.isClosed) throw new OutriderError('closed', 'closed');
    const text = { generation: new Generation({} as never, () => (text.isStopped = true)), isStopped: false };
    this.prompts.push(prompt);
    this.texts.push(text);
    if (signal) stopWith(text.generation, signal);
    return text.generation;
  }

  write(text: string): void {
    const tokens = [{ id: 1, text, origin: 'accepted' as const }];
    this.texts.at(-1)?.generation.add({ tokens, statistics: emptySummary, round: null });
  }

  end(text: string): void {
    this.texts.at(-1)?.generation.finish({ ...emptySummary, text });
  }

  close(): void {
    this.isClosed = true;
    const error = new OutriderError('closed', 'closed');
    for (const { generation } of this.texts) if (!generation.ended) generation.fail(error);
  }
}

const hello: Message = { role: 'user', content: 'Hello' };
let loads: { options: LoadOptions; resolve: (instance: Instance) => void }[];
const settled = () => new Promise((resolve) => setTimeout(resolve));

beforeEach(() => {
  loads = [];
  vi.spyOn(Outrider, 'load').mockImplementation(
    (options = {}) => new Promise((resolve) => loads.push({ options, resolve: resolve as never })),
  );
});
afterEach(() => {
  document.body.replaceChildren();
  vi.restoreAllMocks();
});

/** An element in the page with the parts that a user sees. */
function element(attributes: Readonly<Record<string, string>> = {}) {
  const chat = document.createElement('outrider-chat');
  for (const [name, value] of Object.entries(attributes)) chat.setAttribute(name, value);
  document.body.append(chat);
  const part = <T extends HTMLElement = HTMLElement>(name: string): T =>
    chat.shadowRoot!.querySelector<T>(`[part='${name}']`)!;
  return { chat, part, input: part<HTMLTextAreaElement>('input') };
}

async function loaded(attributes?: Readonly<Record<string, string>>) {
  const made = element(attributes);
  await settled();
  const instance = new Instance();
  loads.at(-1)?.resolve(instance);
  return { ...made, instance };
}

test('properties that are set before the element is defined hold', async () => {
  const early = document.createElement('outrider-chat') as OutriderChat;
  const [loadOptions, generateOptions] = [{ wait: 'draft' } as const, { seed: 1 }];
  Object.assign(early, { loadOptions, generateOptions, messages: [hello] });
  document.body.append(early);
  await import('./chat-element.js');
  customElements.upgrade(early);
  const chat = document.querySelector('outrider-chat')!;
  expect(chat).toMatchObject({ loadOptions, generateOptions, messages: [hello] });
  expect(Object.keys(chat)).not.toContain('messages');
  expect(chat.shadowRoot?.querySelector('[part=log]')?.textContent).toContain('Hello');
  await settled();
  expect(loads.map(({ options }) => options.wait)).toEqual(['draft']);
});

test('Stop and Escape end a message while the element loads, and give its text back', async () => {
  await import('./chat-element.js');
  const { chat, part, input } = element();
  const ways = [
    () => part('stop').click(),
    () => part('form').dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true, composed: true })),
    () => part('log').dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true, composed: true })),
  ];
  for (const stop of ways) {
    input.value = '';
    const sent = chat.send('Hello');
    await settled();
    expect(chat.isWriting).toBe(true);
    stop();
    await sent;
    expect([chat.isWriting, input.value, part('log').children.length]).toEqual([false, 'Hello', 0]);
    expect(part('error').textContent).toBe('');
  }
  expect(loads).toHaveLength(1);
});

test('an answer without text does not stay, stopped or not', async () => {
  await import('./chat-element.js');
  const { chat, part, input, instance } = await loaded();
  const heard: string[] = [];
  for (const type of ['message', 'error']) chat.addEventListener(type, () => heard.push(type));
  for (const [stops, alert] of [
    [true, ''],
    [false, 'The model has written nothing.'],
  ] as const) {
    input.value = '';
    const sent = chat.send('Hello');
    await settled();
    if (stops) chat.stop();
    instance.end('');
    await sent;
    expect([chat.messages, input.value, part('log').children.length]).toEqual([[], 'Hello', 0]);
    expect(part('error').textContent).toBe(alert);
  }
  expect(heard).toEqual([]);
  const sent = chat.send('Hello');
  await settled();
  instance.end('Hi');
  await sent;
  expect(instance.prompts.at(-1)).toEqual([hello]);
});

test('the log follows an answer only while its reader is at the end', async () => {
  await import('./chat-element.js');
  const { chat, part, instance } = await loaded();
  const log = part('log');
  Object.defineProperties(log, { scrollHeight: { value: 500 }, clientHeight: { value: 100 } });
  const sent = chat.send('Hello');
  await settled();
  expect(log.scrollTop).toBe(500);
  log.scrollTop = 50;
  instance.write('Good');
  await settled();
  expect(log.scrollTop).toBe(50);
  log.scrollTop = 399;
  instance.write(' day');
  await settled();
  expect(log.scrollTop).toBe(500);
  instance.end('Good day');
  await sent;
});

test('a message has the direction of its own text', async () => {
  await import('./chat-element.js');
  const { chat, part } = element();
  chat.messages = [{ role: 'user', content: 'שלום' }];
  const shown = part('log').lastElementChild;
  // The author, which has another direction, decides nothing.
  expect([shown?.getAttribute('dir'), shown?.querySelector('span')?.getAttribute('dir')]).toEqual(['auto', 'ltr']);
});

test('another server answers the next message, and the one of before closes when its answer has ended', async () => {
  await import('./chat-element.js');
  const { chat, instance } = await loaded({ server: 'https://one.example' });
  const sent = chat.send('Hello');
  await settled();
  chat.setAttribute('server', 'https://two.example');
  await settled();
  expect(instance.isClosed).toBe(false);
  instance.write('Yes');
  instance.end('Yes');
  await sent;
  await settled();
  expect([instance.isClosed, loads.length]).toEqual([true, 1]);
  // The same address is no other server.
  chat.setAttribute('server', 'https://two.example');
  const again = chat.send('Again');
  const second = new Instance();
  loads[1]?.resolve(second);
  await settled();
  second.end('Of course');
  await again;
  expect(loads.map(({ options }) => options.server)).toEqual(['https://one.example', 'https://two.example']);
  expect(second.prompts[0]).toHaveLength(3);
  chat.setAttribute('server', 'https://two.example');
  await settled();
  expect(second.isClosed).toBe(false);
});

test('the accessible name follows its attribute', async () => {
  await import('./chat-element.js');
  const { chat, part } = element({ label: 'Tales' });
  expect(part('log').getAttribute('aria-label')).toBe('Tales');
  chat.setAttribute('label', 'Stories');
  expect(part('log').getAttribute('aria-label')).toBe('Stories');
  chat.removeAttribute('label');
  expect(part('log').getAttribute('aria-label')).toBe('Conversation');
});

test('an element that is taken out in the middle of an answer keeps the text so far', async () => {
  await import('./chat-element.js');
  const { chat, part, instance } = await loaded();
  const sent = chat.send('Hello');
  await settled();
  instance.write('Good');
  await settled();
  chat.remove();
  await settled();
  expect([instance.texts[0]?.isStopped, instance.isClosed]).toEqual([true, false]);
  instance.end('Good');
  await sent;
  await settled();
  expect(instance.isClosed).toBe(true);
  document.body.append(chat);
  expect(chat.messages).toEqual([hello, { role: 'assistant', content: 'Good' }]);
  expect(part('log').lastElementChild?.textContent).toBe('Assistant: Good');
  await settled();
  expect(loads).toHaveLength(2);
});
