// What a visit takes over the network: nothing of the draft twice, and nothing at all on the second visit.

import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from './fixtures.js';
import { Proxy } from './proxy.mjs';

const root = path.resolve(import.meta.dirname, '../..');
const draft = path.join(root, 'pair/draft/draft-q8_0.gguf');
const assets = path.join(root, 'web/dist/assets');

/** The compressed size of a file of the page, in bytes, by its address. */
async function compressedBytes(address: string): Promise<number> {
  return (await stat(path.join(root, 'web/dist', `${address}.br`))).size;
}

test('a draft that is cut continues where it broke; tokenizer and engine come again', async ({ demo, server }) => {
  // A server that has just started may still be compressing it.
  const coding = async (): Promise<string | null> =>
    (await fetch(`${server.url}/pair/tokenizer.json`)).headers.get('content-encoding');
  await expect.poll(coding).not.toBeNull();
  using proxy = await Proxy.before(server.url);
  // The build that this browser takes is one of these.
  const engines = (await readdir(assets)).filter((name) => name.endsWith('.wasm'));
  for (const name of engines) {
    const bytes = await compressedBytes(`assets/${name}`);
    proxy.cutAfter(`/assets/${name}`, Math.round(bytes * 0.6));
  }
  proxy.cutAfter('/pair/draft', 600_000);
  proxy.cutAfter('/pair/tokenizer.json', 20_000);
  await demo.open(proxy, { maxNewTokens: 8 });

  const { size } = await stat(draft);
  const received = (address: string): number => proxy.received.get(address) ?? 0;
  // Heads and what was under way when the connection broke are lost.
  expect(received('/pair/draft')).toBeGreaterThanOrEqual(size);
  expect(received('/pair/draft')).toBeLessThan(size + 4_000);
  const [all, ...rest] = proxy.requests.filter(({ path }) => path === '/pair/draft').map(({ range }) => range);
  expect(all).toBeNull();
  expect(rest.length).toBeGreaterThan(0);
  for (const range of rest) expect(range).toMatch(/^bytes=[56]\d{5}-/);
  // What is compressed comes again: its rest would come as it is, which is more. Chromium keeps no part of it, either.
  expect(received('/pair/tokenizer.json')).toBeGreaterThan(20_000);
  expect(received('/pair/tokenizer.json')).toBeLessThan(80_000);
  const [engine] = [...proxy.received.keys()].filter((address) => address.endsWith('.wasm'));
  expect(received(engine ?? '')).toBeLessThan(1.6 * (await compressedBytes(engine ?? '')) + 4_000);
  await demo.run();
});

test('a page that is loaded again in the middle of a download continues it', async ({ demo, server }) => {
  const { size } = await stat(draft);
  using proxy = await Proxy.before(server.url, { bitsPerSecond: 20e6 });
  await demo.page.goto(proxy.url);
  await expect.poll(() => proxy.received.get('/pair/draft') ?? 0, { intervals: [20] }).toBeGreaterThan(size / 2);
  await demo.page.reload();
  await demo.ready();
  // Sent a second time is what was on its way.
  expect(proxy.received.get('/pair/draft')).toBeLessThan(size * 1.2);
});

test('a second visit takes nothing of page, engine and model', async ({ demo, server }) => {
  using proxy = await Proxy.before(server.url);
  await demo.open(proxy, { maxNewTokens: 8 });
  const first = new Map(proxy.received);
  expect(first.get('/pair/draft')).toBeGreaterThan((await stat(draft)).size);

  proxy.received.clear();
  await demo.open(proxy, { maxNewTokens: 8 });
  const second = proxy.received;
  expect([...second].filter(([address]) => address.startsWith('/assets/'))).toEqual([]);
  // Heads alone: the page and the pair may have changed, so they are asked for.
  for (const address of ['/', '/pair/draft', '/pair/tokenizer.json']) {
    expect(second.get(address), address).toBeLessThan(700);
  }
  // The page asks for it, and the package.
  expect(second.get('/pair/chat.json')).toBeLessThan(1_000);
  expect(proxy.bytes(() => true)).toBeLessThan(6_000);
  await demo.run();
  expect((await demo.tokens()).length).toBeGreaterThan(0);
});
