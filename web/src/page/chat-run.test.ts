// @vitest-environment happy-dom

import { readFileSync } from 'node:fs';
import { beforeEach, expect, test, vi } from 'vitest';
import type { Outrider } from '../outrider/index.js';
import type { ChatTask } from './chat-run.js';
import type { Runner, Task } from './runner.js';

const html = readFileSync('index.html', 'utf8');
const task = () => ({ values: { seed: 5 }, choices: {}, policies: null }) as unknown as ChatTask;

beforeEach(() => {
  document.body.innerHTML = html.slice(html.indexOf('<body'), html.indexOf('</body>'));
  localStorage.clear();
});

/** A chat whose last message has no answer, and the texts that it asks for. */
async function unanswered() {
  localStorage.setItem('outrider.chat', JSON.stringify([{ said: 'Hello', answer: '' }]));
  // The page's elements are found when its modules are loaded.
  vi.resetModules();
  const { ChatRun } = await import('./chat-run.js');
  const run = vi.fn<(outrider: Outrider, task: Task) => Promise<null>>(() => Promise.resolve(null));
  const chat = new ChatRun(
    { isRunning: false, stop() {}, run } as unknown as Runner,
    task,
    () => true,
    () => Promise.resolve(false),
  );
  return { chat, run };
}

const instance = {
  mode: 'draft',
  ranges: { maxNewTokens: { max: 512 } },
  context: { ids: [], add() {} },
} as unknown as Outrider;

test('a new seed that is asked for before the server has answered is the answer’s', async () => {
  const { chat, run } = await unanswered();
  document.querySelector<HTMLButtonElement>('[data-again]')?.click();
  await new Promise((resolve) => setTimeout(resolve));
  expect(run).not.toHaveBeenCalled();
  chat.outrider = instance;
  await vi.waitFor(() => expect(run).toHaveBeenCalled());
  const seed = run.mock.calls[0]?.[1].values.seed;
  expect(seed).toEqual(expect.any(Number));
  expect(seed).not.toBe(5);
});

test('a message that was sent before the server has answered has the seed of the settings', async () => {
  const { chat, run } = await unanswered();
  chat.open('Hello again');
  await vi.waitFor(() => expect(document.querySelector<HTMLTextAreaElement>('#message')?.value).toBe('Hello again'));
  chat.submit();
  await new Promise((resolve) => setTimeout(resolve));
  chat.outrider = instance;
  await vi.waitFor(() => expect(run).toHaveBeenCalled());
  expect(run.mock.calls[0]?.[1].values.seed).toBe(5);
});
