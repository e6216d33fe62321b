// The draft on a GPU, which here is Chromium's software adapter: the text, whatever drafts, and a GPU that is taken away.

import { chromiumPath, gpuArgs as args } from './chromium.mjs';
import { expect, rounds, test } from './fixtures.js';

test.use({ launchOptions: { executablePath: chromiumPath, args } });

const prompt = 'Once upon a time';
const length = { maxNewTokens: 32, seed: 3 };

test.beforeEach(async ({ page, server }) => {
  await page.goto(`${server.url}/pair/tokenizer.json`);
  const hasAdapter = await page.evaluate(async () => {
    const { gpu } = navigator as { gpu?: { requestAdapter(): Promise<unknown> } };
    return gpu !== undefined && (await gpu.requestAdapter()) !== null;
  });
  test.skip(!hasAdapter, 'this Chromium has no WebGPU adapter');
});

test('where the GPU drafts the text is the server’s own, ahead and in rounds', async ({ demo, server }) => {
  // Groups that the GPU chooses by itself, rows of logits, and rows of which the largest come back.
  await demo.open(server, { prompt, ...length, ...rounds, groupSize: 3, scheme: 'ahead', engine: 'webgpu' });
  await expect(demo.page.locator('#engine')).toHaveAttribute('data-engine', 'webgpu');
  for (const [chosen, temperature] of [
    ['ahead', 0.7],
    ['coupled', 0.7],
    ['k-sqs', 0],
  ] as const) {
    await demo.choose('scheme', chosen);
    await demo.set('temperature', temperature);
    await demo.run('Cloud only');
    const alone = await demo.ids();
    await demo.run();
    expect(await demo.ids(), chosen).toEqual(alone);
    // It drafts what the processor would, but for rounding. Ahead of a fast server no guess may have been in time.
    const rate = await demo.counter('acceptanceRate');
    if (chosen !== 'ahead') expect(rate, chosen).toBeGreaterThan(0.4);
  }
});

test('the processor drafts where that is faster, and small drafts do not wait for a GPU', async ({ demo, server }) => {
  await demo.open(server, { prompt, ...length });
  await expect(demo.page.locator('#engine')).toHaveAttribute('data-engine', 'wasm');
  await demo.run();
});

// The last one: a browser whose GPU was taken away so often has none any more.
test('a GPU that is taken away in the middle of a text leaves it to the processor', async ({ demo, server }) => {
  const { page } = demo;
  for (const settings of [
    { scheme: 'k-sqs', temperature: 0, ...rounds },
    // In groups that it chooses by itself.
    { scheme: 'ahead', temperature: 0.7, groupSize: 4 },
  ]) {
    await demo.open(server, { prompt, ...settings, seed: 5, maxNewTokens: 200, engine: 'webgpu' });
    await demo.run('Cloud only');
    const expected = await demo.ids();
    await demo.start();
    await demo.waitForTokens(8);
    const devtools = await page.context().browser()!.newBrowserCDPSession();
    await devtools.send('Browser.crashGpuProcess');
    await demo.finish();
    expect(await demo.ids(), settings.scheme).toEqual(expected);
    // Nobody waits for a guess: the text may have ended before another was asked for.
    if (settings.scheme === 'ahead') {
      await demo.run();
      expect(await demo.ids()).toEqual(expected);
    }
    const engine = page.locator('#engine');
    await expect(engine).toHaveAttribute('data-engine', 'wasm');
    await expect(engine).toHaveAttribute('title', /the GPU does not draft/);
  }
});
