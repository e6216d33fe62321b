import { expect, test } from './fixtures.js';
import { bare, buildRecipes } from './recipes.js';
import { Server } from './server.js';

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

test('what is on its way over a slow link is lost when that is cut', async ({ page }, info) => {
  await using server = await Server.start([], await buildRecipes([bare], info.outputPath('pages')));
  await page.goto(`${server.url}/bare.html`);
  await expect(page.locator('#ready')).toHaveText('ready');
  const { whole, text, late } = await page.evaluate(async () => {
    const { outrider } = window;
    const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    const write = () => outrider.generate('Once upon a time', { maxNewTokens: 200, seed: 4 });
    const whole = (await write().summary).text;
    outrider.setLink({ downlinkBitsPerSecond: 4000 });
    const generation = write();
    let tokens = 0;
    const reading = (async () => {
      for await (const _ of generation) tokens += 1;
    })();
    while (tokens < 10) await sleep(10);
    outrider.setLink({ isCut: true });
    await sleep(300);
    const before = tokens;
    await sleep(1500);
    const late = tokens - before;
    outrider.setLink(window.api.openLink);
    await reading;
    return { whole, late, text: (await generation.summary).text };
  });
  expect({ late, text }).toEqual({ late: 0, text: whole });
});
