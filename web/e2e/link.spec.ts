import { expect, test } from './fixtures.js';

/** Slider position of 5 kbit/s; see the page's scale. */
const FIVE_KBIT = 7;

test('an added round trip is measured, and slows the tokens', async ({ demo, server }) => {
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 24 });
  await demo.run();
  const open = await demo.counter('tokensPerSecond');

  await demo.slide('round-trip', 300);
  await expect(demo.page.locator('#round-trip-value')).toHaveText('300 ms');
  await demo.run();
  expect(await demo.counter('roundTripMs')).toBeGreaterThanOrEqual(300);
  expect(await demo.counter('tokensPerSecond')).toBeLessThan(0.7 * open);
});

test('a slow uplink slows the tokens', async ({ demo, server }) => {
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 24 });
  await demo.run();
  const open = await demo.counter('tokensPerSecond');

  await demo.slide('uplink', FIVE_KBIT);
  await expect(demo.page.locator('#uplink-value')).toHaveText('5 kbit/s');
  await demo.run();
  const { tokensPerSecond, uplinkBitsPerToken } = await demo.counters();
  expect(tokensPerSecond).toBeLessThan(0.7 * open);
  // Nothing gets through faster than the rate allows; the bucket may begin with one burst.
  expect(tokensPerSecond! * uplinkBitsPerToken!).toBeLessThan(1.5 * 5_000);
});

test('the link changes while a text is being generated', async ({ demo, server }) => {
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 256 });
  await demo.slide('round-trip', 600);
  await demo.start();
  await demo.waitForTokens(2);
  expect(await demo.counter('roundTripMs')).toBeGreaterThanOrEqual(600);
  await demo.slide('round-trip', 0);
  await expect.poll(() => demo.counter('roundTripMs'), { timeout: 20_000 }).toBeLessThan(500);
  await demo.page.keyboard.press('Escape');
  await demo.finish();
});

test('a preset sets the whole link', async ({ demo, server }) => {
  await demo.open(server);
  const preset = demo.page.getByRole('button', { name: '2G' });
  await preset.click();
  await expect(preset).toHaveAttribute('aria-pressed', 'true');
  await expect(demo.page.locator('#uplink-value')).toHaveText('20 kbit/s');
  await expect(demo.page.locator('#downlink-value')).toHaveText('40 kbit/s');
  await expect(demo.page.locator('#round-trip-value')).toHaveText('400 ms');
});
