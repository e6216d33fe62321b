import { expect, test } from './fixtures.js';
import { startSlowServer } from './grown.js';
import { Proxy } from './proxy.mjs';
import type { Server } from './server.js';

/** At a seed the server's noise belongs to the positions of the text, whichever client asks for them. */
const query = { prompt: 'Once upon a time', temperature: 0.8, seed: 5, maxNewTokens: 192, scheme: 'ahead' };

/** A server that is not done before the cut. */
let slow: Server;

test.beforeAll(async ({}, info) => {
  slow = await startSlowServer(info.outputPath('grown.gguf'), 64);
});

test.afterAll(async () => {
  await slow?.kill();
});

test('a connection that goes silent is replaced, and the text is whole within ten seconds', async ({ demo }) => {
  await demo.open(slow, query);
  await demo.run();
  const whole = await demo.ids();

  using proxy = await Proxy.before(slow.url);
  await demo.open(proxy, query);
  await demo.slide('round-trip', 100);
  await demo.start();
  await demo.waitForTokens(4);
  const began = Date.now();
  proxy.swallow();
  await demo.slide('round-trip', 0);
  await expect(demo.main).toHaveAttribute('data-connection', 'resumed', { timeout: 10_000 });
  await demo.finish();
  expect(await demo.ids()).toEqual(whole);
  expect(Date.now() - began).toBeLessThan(10_000);
});

test('a text on a connection that has died while idle starts after about a second', async ({ demo }) => {
  using proxy = await Proxy.before(slow.url);
  await demo.open(proxy, { ...query, maxNewTokens: 8 });
  await demo.run();
  await demo.page.waitForTimeout(16_000);
  proxy.swallow();
  const began = Date.now();
  await demo.start();
  await demo.waitForTokens(1);
  expect(Date.now() - began).toBeLessThan(3_000);
  await demo.finish();
});

test('a cut connection and a reload change nothing of the text', async ({ demo }) => {
  await demo.open(slow, query);
  await demo.run();
  const whole = await demo.ids();
  expect(whole.length).toBeGreaterThan(20);

  using proxy = await Proxy.before(slow.url);
  await demo.open(proxy, query);
  await demo.slide('round-trip', 200);
  await demo.start();
  await demo.waitForTokens(4);
  proxy.cut();
  await expect(demo.main).toHaveAttribute('data-connection', 'resumed', { timeout: 20_000 });
  await demo.slide('round-trip', 0);
  await demo.finish();
  expect(await demo.ids()).toEqual(whole);

  // A text that takes seconds, so that the reload comes in the middle of it.
  await demo.open(proxy, { ...query, downlink: 4_000 });
  await demo.start();
  await demo.waitForTokens(4);
  await demo.page.reload();
  await demo.finish();
  expect(await demo.ids()).toEqual(whole);
  // The counters are those of the whole text, not of what came after the reload.
  expect(await demo.counter('tokens')).toBe(whole.length);
});

test('without a connection unverified text goes on, and the confirmed text stays the same', async ({ demo }) => {
  await demo.open(slow, query);
  await demo.run();
  const whole = await demo.ids();

  using proxy = await Proxy.before(slow.url);
  await demo.open(proxy, query);
  // In the middle of the text, however fast it is written.
  proxy.cutAfter('/session', 250, 3_000);
  await demo.start();
  const guesses = demo.page.locator('#output .guess');
  await expect(guesses).toHaveAttribute('data-offline', '');
  await expect(guesses).toHaveAttribute('aria-hidden', 'true');
  await expect(guesses).not.toHaveText('');
  await expect(demo.main).toHaveAttribute('data-connection', 'resumed', { timeout: 20_000 });
  await demo.finish();
  expect(await demo.ids()).toEqual(whole);
  // The outage is not the draft's slowness.
  await expect(demo.page.locator('#runs-table tbody tr')).toContainText('then changed');
  await expect(guesses).toHaveText('');
});
