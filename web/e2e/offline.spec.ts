// The chat without its server: after a reload in the middle of an answer, and from the first message on.

import { rm } from 'node:fs/promises';
import { isFull } from './built.js';
import { expect, test } from './fixtures.js';
import type { Demo } from './fixtures.js';
import { writeGrownTarget } from './grown.js';
import { Proxy } from './proxy.mjs';
import { Server } from './server.js';

test.use({ serviceWorkers: 'allow' });
// During an outage other tests run.
test.describe.configure({ mode: 'parallel' });

/** At a seed the server's noise belongs to the positions of the text, whichever session asks for them. */
const query = { temperature: 0.8, seed: 5, maxNewTokens: 160 };

const message = 'Once upon a time';

/** Flags of a server that is not done before it goes. */
let slow: string[];
let file: string;

test.beforeAll(async ({}, info) => {
  file = info.outputPath('grown.gguf');
  await writeGrownTarget(file, 32);
  slow = ['--target', file];
});

test.afterAll(() => rm(file, { force: true }));

const answer = (demo: Demo) => demo.page.locator('.answer .bubble');
const guess = (demo: Demo) => demo.page.locator('.answer .guess[data-offline]');

async function send(demo: Demo): Promise<void> {
  await demo.page.getByLabel('Your message').fill(message);
  await demo.page.getByRole('button', { name: 'Send' }).click();
}

/** Cuts the connection in the middle of the answer, however fast that is written. */
async function sendAndCut(demo: Demo, proxy: Proxy, downMs: number): Promise<void> {
  proxy.cutAfter('/session', 250, downMs);
  await send(demo);
  await expect.poll(() => proxy.isDown, { intervals: [20] }).toBe(true);
  await expect(answer(demo)).toHaveText(/\S+ \S+ \S+/);
}

async function idle(demo: Demo, timeout = 60_000): Promise<void> {
  await expect(demo.page.locator('#chat')).toHaveAttribute('data-phase', 'idle', { timeout });
}

/** Opens the chat, and waits until the page is kept; returns the answer that nothing has cut. */
async function wholeAnswer(demo: Demo, server: { url: string }): Promise<string> {
  await demo.open(server, query, 'chat');
  await send(demo);
  await idle(demo);
  const whole = await answer(demo).innerText();
  await demo.page.getByRole('button', { name: 'New chat' }).click();
  const kept = () =>
    demo.page.evaluate(async () => (await caches.keys()).length > 1 && !!navigator.serviceWorker.controller);
  await expect.poll(kept).toBe(true);
  return whole;
}

test('an answer that is cut by a reload without the server goes on in grey, and becomes the whole answer', async ({
  demo,
}) => {
  await using server = await Server.start(slow);
  using proxy = await Proxy.before(server.url);
  const whole = await wholeAnswer(demo, proxy);
  await sendAndCut(demo, proxy, Infinity);
  await server.kill();
  await demo.page.reload();
  await expect(guess(demo)).toHaveText(/\S/, { timeout: 30_000 });
  await expect(guess(demo)).toHaveAttribute('aria-hidden', 'true');
  await expect(demo.page.locator('#chat-status')).toHaveText(/^Offline: grey text is unverified/);
  // What was confirmed before stands before it.
  const confirmed = await answer(demo).evaluate((bubble) => {
    const copy = bubble.cloneNode(true) as HTMLElement;
    for (const guess of copy.querySelectorAll('.guess')) guess.remove();
    return copy.textContent?.trim() ?? '';
  });
  expect(confirmed).not.toBe('');
  expect(whole.slice(0, Math.min(confirmed.length, 20))).toBe(confirmed.slice(0, 20));
  // Another reload loses nothing.
  await demo.page.reload();
  await expect(guess(demo)).toHaveText(/\S/, { timeout: 30_000 });
  await server.startAgain(slow);
  proxy.restore();
  await expect(demo.main).toHaveAttribute('data-connection', 'resumed', { timeout: 30_000 });
  await idle(demo);
  await expect(guess(demo)).toHaveCount(0);
  expect(await answer(demo).innerText()).toBe(whole);
});

test('a page that opens without the server answers in grey, and is confirmed when that is back', async ({ demo }) => {
  await using server = await Server.start(slow);
  const whole = await wholeAnswer(demo, server);
  await server.kill();
  await demo.page.reload();
  await demo.ready();
  await expect(demo.alert).toHaveText(/^You are offline, or the server is\. Your chat is still here/);
  await expect(demo.main).toHaveAttribute('data-connection', 'offline');
  await send(demo);
  await expect(guess(demo)).toHaveText(/\S/, { timeout: 30_000 });
  await expect(demo.page.locator('#retry')).toBeHidden();
  await server.startAgain(slow);
  await idle(demo);
  expect(await answer(demo).innerText()).toBe(whole);
});

// A minute is within the session’s lifetime, like ten seconds: it takes `cargo xtask test --full`.
for (const seconds of isFull ? [1, 10, 60] : [1, 10]) {
  test(`an answer is the same after ${seconds} s without a network and a reload`, async ({ demo }) => {
    test.setTimeout(180_000);
    await using server = await Server.start(slow);
    using proxy = await Proxy.before(server.url);
    const whole = await wholeAnswer(demo, proxy);
    await sendAndCut(demo, proxy, 1000 * seconds);
    await demo.page.reload();
    await expect(demo.main).toHaveAttribute('data-state', /generating|finished/, { timeout: 30_000 });
    await idle(demo, 100_000);
    expect(await answer(demo).innerText()).toBe(whole);
  });
}

test('a link that is cut on the page leaves the draft model writing, and the text is the server’s in the end', async ({
  demo,
}) => {
  await using server = await Server.start(slow);
  const whole = await wholeAnswer(demo, server);
  await demo.page.getByRole('button', { name: 'Satellite' }).click();
  // A machine writes the whole answer faster than a test clicks: the page itself does, at the first word.
  await demo.page.getByRole('button', { name: 'Cut the link' }).evaluate((cut) => {
    const observer = new MutationObserver(() => {
      if (!/\S/.test(document.querySelector('.answer .bubble')?.textContent ?? '')) return;
      observer.disconnect();
      (cut as HTMLElement).click();
    });
    observer.observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  await send(demo);
  await expect(guess(demo)).toHaveText(/\S+ \S+ \S+/);
  await demo.page.getByRole('button', { name: 'Connect again' }).click();
  await idle(demo);
  expect(await answer(demo).innerText()).toBe(whole);
});
