// Every build of the engine, in a real browser: which one runs, and that all of them give the same text.

import path from 'node:path';
import { builds, chosenBuild } from './built.js';
import { expect, rounds, test } from './fixtures.js';
import { nativeTokenIds } from './server.js';

const target = path.resolve(import.meta.dirname, '../../pair/target/target-f16.gguf');

const seed = 1;
const maxTokens = 24;
const query = { scheme: 'k-sqs', temperature: 0, maxNewTokens: maxTokens, seed, ...rounds };

test('greedy text is the same in every build and with every number of threads', async ({ demo, server }) => {
  test.setTimeout(10 * 60_000);
  const prompt = 'Once upon a time';
  const expected = await nativeTokenIds(server, { prompt, maxTokens, seed, ...rounds, cloudOnly: true });
  /** Acceptance rates by build: equal drafts are a sharper test of the engine than equal text. */
  const drafts = new Map<string, number>();
  for (const build of builds) {
    for (const threads of build.endsWith('-threads') ? [1, 2] : [1]) {
      await demo.open(server, { ...query, prompt, build, threads });
      const engine = demo.page.locator('#engine');
      await expect(engine).toHaveAttribute('data-build', build);
      await expect(engine).toHaveAttribute('data-threads', String(threads));
      await demo.run();
      expect(await demo.ids(), `${build}, ${threads} threads`).toEqual(expected);
      drafts.set(`${build}, ${threads} threads`, await demo.counter('acceptanceRate'));
    }
  }
  expect(new Set(drafts.values()).size, JSON.stringify([...drafts])).toBe(1);
});

const threaded = builds.filter((build) => build.endsWith('-threads'));

test('a draft model large enough to be split over threads drafts the same with one and with two', async ({
  demo,
  server,
}) => {
  test.skip(threaded.length === 0, 'no build with threads was made');
  // The server's own model as the draft: its greedy drafts are the server's greedy tokens, so that all are accepted.
  const { page } = demo;
  await page.route('**/pair/draft', (route) => route.fulfill({ path: target }));
  await page.route('**/pair/heads.safetensors', (route) => route.fulfill({ status: 404 }));
  for (const build of threaded) {
    for (const threads of [1, 2]) {
      await demo.open(server, { ...query, build, threads });
      await demo.run();
      expect((await demo.tokens()).length).toBeGreaterThan(0);
      expect(await demo.counter('acceptanceRate'), `${build}, ${threads} threads`).toBe(1);
    }
  }
});

test('the fastest build is the default on the server’s own page', async ({ demo, server }) => {
  await demo.open(server, { maxNewTokens: 8 });
  expect(await demo.page.evaluate(() => crossOriginIsolated)).toBe(true);
  const processors = await demo.page.evaluate(() => navigator.hardwareConcurrency);
  const engine = demo.page.locator('#engine');
  const build = chosenBuild(true, processors);
  await expect(engine).toHaveAttribute('data-build', build);
  const threads = build.endsWith('-threads') ? Math.min(processors, 4) : 1;
  await expect(engine).toHaveAttribute('data-threads', String(threads));
  await demo.run();
});

test('a page that is not isolated drafts without threads, and says what a build with them lacks', async ({
  demo,
  server,
}) => {
  // A page that a test answers for counts as one of another network, and so does what its worker fetches.
  await demo.page.context().grantPermissions(['local-network-access']);
  await demo.page.route(
    (url) => url.pathname === '/',
    async (route) => {
      const response = await route.fetch();
      const headers = { ...response.headers() };
      delete headers['cross-origin-opener-policy'];
      delete headers['cross-origin-embedder-policy'];
      await route.fulfill({ response, headers });
    },
  );
  await demo.open(server, { ...query, maxNewTokens: 8 });
  expect(await demo.page.evaluate(() => crossOriginIsolated)).toBe(false);
  await expect(demo.page.locator('#engine')).toHaveAttribute('data-build', chosenBuild(false, 1));
  await expect(demo.page.locator('#engine')).toHaveAttribute('data-threads', '1');
  await demo.run();

  if (threaded.length === 0) return;
  await demo.page.goto(`${server.url}/?build=relaxed-threads`);
  await expect(demo.alert).toHaveText(/COOP and COEP/);
  await expect(demo.main).toHaveAttribute('data-state', 'failed');
});

test('an engine that is closed takes its threads with it', async ({ demo, server }) => {
  test.skip(threaded.length === 0, 'no build with threads was made');
  const { page } = demo;
  await demo.open(server, { ...query, build: 'simd128-threads', threads: 2 });
  await expect.poll(() => page.workers().length).toBeGreaterThanOrEqual(1);
  await page.goto('about:blank');
  await expect.poll(() => page.workers().length).toBe(0);
});
