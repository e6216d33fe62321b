// The draft on a GPU, which here is Chromium's software adapter: the text, whatever drafts, and a GPU that is taken away.

import { chromiumPath, gpuArgs as args } from './chromium.mjs';
import { expect, test } from './fixtures.js';
import { nativeTokenIds } from './server.js';

test.use({ launchOptions: { executablePath: chromiumPath, args } });

const prompt = 'Once upon a time';
const scheme = { supportSize: 32, latticeResolution: 100, draftLength: 4 };
const length = { maxNewTokens: 32, seed: 3 };

test.beforeEach(async ({ page, server }) => {
  await page.goto(`${server.url}/pair/tokenizer.json`);
  const hasAdapter = await page.evaluate(async () => {
    const { gpu } = navigator as { gpu?: { requestAdapter(): Promise<unknown> } };
    return gpu !== undefined && (await gpu.requestAdapter()) !== null;
  });
  test.skip(!hasAdapter, 'this Chromium has no WebGPU adapter');
});

test('greedy text is the server’s own where the GPU drafts', async ({ demo, server }) => {
  const greedy = { ...scheme, seed: length.seed, maxTokens: length.maxNewTokens };
  const expected = await nativeTokenIds(server, { prompt, ...greedy, cloudOnly: true });
  await demo.open(server, {
    prompt,
    ...scheme,
    ...length,
    scheme: 'k-sqs',
    temperature: 0,
    engine: 'webgpu',
  });
  await expect(demo.page.locator('#engine')).toHaveAttribute('data-engine', 'webgpu');
  await demo.run();
  const tokens = await demo.tokens();
  expect(tokens.map(({ id }) => id)).toEqual(expected);
  // It drafts what the processor would, but for rounding.
  expect(await demo.counter('acceptanceRate')).toBeGreaterThan(0.4);
});

test('the text of a seed is the server’s own, ahead and in rounds', async ({ demo, server }) => {
  const texts = new Map<string, number[]>();
  for (const chosen of ['ahead', 'coupled']) {
    // Groups that the GPU chooses by itself, and rows of logits.
    const group = chosen === 'ahead' ? { groupSize: 3 } : {};
    await demo.open(server, {
      prompt,
      ...length,
      ...group,
      scheme: chosen,
      temperature: 0.7,
      engine: 'webgpu',
    });
    await demo.run('Cloud only');
    texts.set(
      `${chosen}, alone`,
      (await demo.tokens()).map(({ id }) => id),
    );
    await demo.run();
    texts.set(
      chosen,
      (await demo.tokens()).map(({ id }) => id),
    );
    // It drafts what the processor would, but for rounding.
    expect(await demo.counter('acceptanceRate'), chosen).toBeGreaterThan(0.4);
  }
  const [first] = texts.values();
  for (const [what, ids] of texts) expect(ids, what).toEqual(first);
});

test('the processor drafts where that is faster, and small drafts do not wait for a GPU', async ({
  demo,
  server,
}) => {
  await demo.open(server, { prompt, ...length });
  await expect(demo.page.locator('#engine')).toHaveAttribute('data-engine', 'wasm');
  await demo.run();
});

// The last one: a browser whose GPU was taken away so often has none any more.
test('a GPU that is taken away in the middle of a text leaves it to the processor', async ({
  demo,
  server,
}) => {
  const { page } = demo;
  for (const settings of [
    { scheme: 'k-sqs', temperature: 0, ...scheme },
    { scheme: 'coupled', temperature: 0.7, draftLength: 4 },
    // In groups that it chooses by itself.
    { scheme: 'ahead', temperature: 0.7, groupSize: 4 },
  ]) {
    await demo.open(server, { prompt, ...settings, seed: 5, maxNewTokens: 200, engine: 'webgpu' });
    await demo.run('Cloud only');
    const expected = (await demo.tokens()).map(({ id }) => id);
    await demo.start();
    await demo.waitForTokens(8);
    const devtools = await page.context().browser()!.newBrowserCDPSession();
    await devtools.send('Browser.crashGpuProcess');
    await demo.finish();
    expect(
      (await demo.tokens()).map(({ id }) => id),
      settings.scheme,
    ).toEqual(expected);
    // Nobody waits for a guess: the text may have ended before another was asked for.
    if (settings.scheme === 'ahead') {
      await demo.run();
      expect((await demo.tokens()).map(({ id }) => id)).toEqual(expected);
    }
    const engine = page.locator('#engine');
    await expect(engine).toHaveAttribute('data-engine', 'wasm');
    await expect(engine).toHaveAttribute('title', /the GPU does not draft/);
  }
});
