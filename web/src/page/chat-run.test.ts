// @vitest-environment happy-dom

import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Outrider, Round, Summary } from '../outrider/index.js';
import type { ChatTask } from './chat-run.js';
import type { Runner, Task } from './runner.js';

const html = readFileSync('index.html', 'utf8');
const settings = () => ({ values: { seed: 5 }, choices: {}, policies: null }) as unknown as ChatTask;
const old = { said: 'Hello', answer: 'Good morning.', costs: '3 tokens in 2 passes' };

type Run = (outrider: Outrider, task: Task, onRound: (round: Round) => void) => Promise<Summary | null>;

beforeEach(() => {
  document.body.innerHTML = html.slice(html.indexOf('<body'), html.indexOf('</body>'));
  localStorage.clear();
  sessionStorage.clear();
});
afterEach(() => vi.restoreAllMocks());

const instance = {
  mode: 'draft',
  ranges: { maxNewTokens: { max: 512 } },
  context: { ids: [], add() {} },
} as unknown as Outrider;

interface Given {
  task?: () => ChatTask | null;
  askTemplate?: () => Promise<boolean | null>;
  run?: Run;
  turns?: { said: string; answer: string }[];
  outrider?: Outrider | null;
}

/** A chat, and the texts that it asks for: without an answer if not given. */
async function chatOf({ task = settings, askTemplate, run, turns = [old], outrider = instance }: Given = {}) {
  if (turns.length > 0) localStorage.setItem('outrider.chat', JSON.stringify(turns));
  // The page's elements are found when its modules are loaded.
  vi.resetModules();
  const { ChatRun } = await import('./chat-run.js');
  const runs = vi.fn<Run>(run ?? (() => Promise.resolve(null)));
  const runner = {
    isRunning: false,
    get changes() {
      return 0;
    },
    stop() {},
    run: runs,
  };
  const chat = new ChatRun(
    runner as unknown as Runner,
    task,
    () => true,
    askTemplate ?? (() => Promise.resolve(false)),
  );
  if (outrider) chat.outrider = outrider;
  return { chat, run: runs, runner };
}

const find = <T extends HTMLElement = HTMLElement>(selector: string) => document.querySelector<T>(selector);
const field = () => find<HTMLTextAreaElement>('#message')!;
const shown = (selector: string) => find(selector)?.textContent;
const stored = () => JSON.parse(localStorage.getItem('outrider.chat') ?? '[]') as { said: string; answer: string }[];
const passed = () => new Promise((resolve) => setTimeout(resolve, 20));

/** Types a message and sends it, or does not where it is empty. */
function send(chat: { submit(): void }, message: string): void {
  field().value = message;
  chat.submit();
}

test('a new seed that is asked for before the server has answered is the answer’s', async () => {
  const { chat, run } = await chatOf({ turns: [{ said: 'Hello', answer: '' }], outrider: null });
  find('[data-again]')?.click();
  await passed();
  expect(run).not.toHaveBeenCalled();
  chat.outrider = instance;
  await vi.waitFor(() => expect(run).toHaveBeenCalled());
  const seed = run.mock.calls[0]?.[1].values.seed;
  expect(seed).toEqual(expect.any(Number));
  expect(seed).not.toBe(5);
});

test('a message that was sent before the server has answered has the seed of the settings', async () => {
  const { chat, run } = await chatOf({ turns: [{ said: 'Hello', answer: '' }], outrider: null });
  void chat.open('Hello again');
  await vi.waitFor(() => expect(field().value).toBe('Hello again'));
  chat.submit();
  await passed();
  chat.outrider = instance;
  await vi.waitFor(() => expect(run).toHaveBeenCalled());
  expect(run.mock.calls[0]?.[1].values.seed).toBe(5);
});

test('an answer stays while a setting is wrong, and so does a message that is typed', async () => {
  const { chat, run } = await chatOf({ task: () => null });
  find('[data-again]')?.click();
  find('[aria-label="Edit message 1"]')?.click();
  send(chat, 'Hello again');
  await passed();
  expect(run).not.toHaveBeenCalled();
  expect([shown('.answer .bubble')?.trim(), field().value]).toEqual(['Good morning.', 'Hello again']);
  expect(stored()).toEqual([old]);
});

test('an answer comes back if a new one gets no token, and an edited message can be sent again', async () => {
  const { chat, run } = await chatOf();
  find('[data-again]')?.click();
  await vi.waitFor(() => expect(run).toHaveBeenCalledTimes(1));
  expect(stored()).toEqual([old]);
  await vi.waitFor(() => expect(shown('.answer .bubble')?.trim()).toBe('Good morning.'));
  field().value = 'not sent yet';
  find('[aria-label="Edit message 1"]')?.click();
  send(chat, 'Hello again');
  await vi.waitFor(() => expect(field().value).toBe('Hello again'));
  expect([shown('.answer .bubble')?.trim(), find('#cancel-edit')?.hidden]).toEqual(['Good morning.', false]);
  expect(stored()).toEqual([old]);
});

test('a failed answer keeps its tokens, is called failed, and waits for no twin', async () => {
  const { chat } = await chatOf({
    run: (_, __, onRound) => {
      const statistics = { tokens: 1, elapsedMs: 100, tokensPerSecond: 10, serverPasses: 1 };
      onRound({ tokens: [{ text: 'Well' }], statistics } as unknown as Round);
      return Promise.resolve(null);
    },
  });
  find('[data-again]')?.click();
  await vi.waitFor(() => expect(shown('#twin-sentence')).toBe('This answer failed, so it has no twin.'));
  expect(stored()).toMatchObject([{ said: 'Hello', answer: 'Well' }]);
  expect([shown('#gain-speed'), shown('#gain-time-note')]).toEqual(['10.0', 'not compared']);
  send(chat, 'Next');
  await passed();
  expect(shown('#gain-speed')).toBe('10.0');
});

test('times with an outage in them are not compared, and a stopped twin is not waited for', async () => {
  const summary = { tokens: 1, tokenIds: [1], elapsedMs: 100, tokensPerSecond: 10, serverPasses: 1, text: 'Well' };
  const ends = ['eos', 'eos', 'eos', 'cancelled'];
  const { chat, runner } = await chatOf({
    run: () => Promise.resolve({ ...summary, finish: ends.shift() } as Summary),
  });
  const changes = vi.spyOn(runner, 'changes', 'get').mockReturnValueOnce(0).mockReturnValueOnce(1);
  send(chat, 'Next');
  const lost = 'The same text, word for word. The link changed or was lost meanwhile, so the times cannot be compared.';
  await vi.waitFor(() => expect(shown('#twin-sentence')).toBe(lost));
  expect(shown('#gain-time-note')).toBe('not compared');
  changes.mockRestore();
  send(chat, 'Next');
  await vi.waitFor(() => expect(shown('#twin-sentence')).toBe('The twin was stopped.'));
  expect([shown('#gain-speed-note'), shown('#gain-time-note')]).toEqual(['of this answer', 'not compared']);
});

test('figures of an earlier answer do not stay beside a new one', async () => {
  let end = (): void => {};
  const { chat } = await chatOf({ run: () => new Promise((resolve) => (end = () => resolve(null))) });
  find('#gain-speed')!.textContent = '171';
  send(chat, 'Next');
  await passed();
  expect(shown('#gain-speed')).toBe('–');
  find('#gain-speed')!.textContent = '171';
  end();
  await vi.waitFor(() => expect(shown('#gain-speed')).toBe('–'));
});

test('a message is not taken while another view writes, and the page says why', async () => {
  const { chat, run, runner } = await chatOf();
  runner.isRunning = true;
  send(chat, 'Next');
  find('[data-again]')?.click();
  await passed();
  expect(run).not.toHaveBeenCalled();
  expect(field().value).toBe('Next');
  expect(shown('#alert')).toBe('Another text is being written. Stop it, then try again.');
  expect(stored()).toEqual([old]);
});

test('only a prompt with earlier answers is a full conversation', async () => {
  const full = 'This message does not fit beside the conversation before it: shorten it, or begin a new chat.';
  for (const [turns, expected] of [
    [[], [undefined, undefined]],
    [[old], [full, full]],
  ] as const) {
    sessionStorage.clear();
    const { chat, run } = await chatOf({ turns: [...turns] });
    for (const [index, said] of ['Hello', 'Next'].entries()) {
      send(chat, said);
      await vi.waitFor(() => expect(run).toHaveBeenCalledTimes(index + 1));
      await passed();
    }
    expect(run.mock.calls.map(([, { tooLong }]) => tooLong)).toEqual(expected);
  }
});

test('each tab keeps its conversation, whatever another tab saves', async () => {
  const { chat } = await chatOf({ turns: [] });
  send(chat, 'From this tab');
  await passed();
  localStorage.setItem('outrider.chat', JSON.stringify([old]));
  await chatOf({ turns: [] });
  expect(shown('.question .bubble')).toBe('You: From this tab');
  sessionStorage.clear();
  await chatOf({ turns: [] });
  expect(shown('.question .bubble')).toBe('You: Hello');
});

test('a chat template that was not known is asked for again', async () => {
  const askTemplate = vi.fn<() => Promise<boolean | null>>().mockResolvedValueOnce(null).mockResolvedValue(true);
  const { chat, run } = await chatOf({ askTemplate, turns: [] });
  await vi.waitFor(() => expect(shown('#chat-note')).toMatch(/continues stories/));
  send(chat, 'Hello');
  await vi.waitFor(() => expect(run).toHaveBeenCalled());
  expect(run.mock.calls[0]?.[1].prompt).toEqual([{ role: 'user', content: 'Hello' }]);
  expect(shown('#chat-note')).toMatch(/remembers the conversation/);
  await chat.open();
  expect(askTemplate).toHaveBeenCalledTimes(2);
});

test('the prompt of an address is filled in once, and not after a reload of a chat that has begun', async () => {
  vi.spyOn(performance, 'getEntriesByType').mockReturnValue([{ type: 'reload' } as unknown as PerformanceEntry]);
  const { chat } = await chatOf();
  await chat.open('From the address');
  expect(field().value).toBe('');
  await (await chatOf({ turns: [] })).chat.open('From the address');
  expect(field().value).toBe('');
  sessionStorage.clear();
  localStorage.clear();
  await (await chatOf({ turns: [] })).chat.open('From the address');
  expect(field().value).toBe('From the address');
});

const key = (name: string, init: KeyboardEventInit = {}) =>
  new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true, ...init });

test('leaving an edit gives back the unsent text and the focus, and Escape does nothing else', async () => {
  await chatOf();
  field().value = 'not sent yet';
  const edit = () => find('[aria-label="Edit message 1"]')?.click();
  edit();
  expect(field().value).toBe('Hello');
  field().dispatchEvent(key('Escape', { isComposing: true }));
  expect(field().value).toBe('Hello');
  const escape = key('Escape');
  field().dispatchEvent(escape);
  expect([field().value, escape.defaultPrevented]).toEqual(['not sent yet', true]);
  const another = key('Escape');
  field().dispatchEvent(another);
  expect(another.defaultPrevented).toBe(false);
  edit();
  find('#cancel-edit')?.focus();
  find('#cancel-edit')?.click();
  expect([field().value, document.activeElement]).toEqual(['not sent yet', field()]);
});

test('the focus goes from Regenerate to the conversation', async () => {
  await chatOf({ run: () => new Promise(() => {}) });
  find('[data-again]')?.focus();
  find('[data-again]')?.click();
  await passed();
  expect(document.activeElement?.id).toBe('chat-log');
});

test('Copy says that there is no clipboard', async () => {
  vi.spyOn(navigator, 'clipboard', 'get').mockReturnValue(undefined as unknown as Clipboard);
  await chatOf();
  const copy = find('.answer button');
  copy?.click();
  await vi.waitFor(() => expect(copy?.textContent).toBe('Not copied'));
});
