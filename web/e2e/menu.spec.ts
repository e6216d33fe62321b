// The menu of the page's head, the progress of loading, and the page without a network.

import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { expect, test } from './fixtures.js';

test('the theme is chosen, and kept over a reload', async ({ demo, server }) => {
  const { page } = demo;
  await page.emulateMedia({ colorScheme: 'light' });
  await demo.open(server, {}, 'chat');
  const ground = (): Promise<string> => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByLabel('Settings of this browser').click();
  await page.getByLabel('Dark').check();
  const dark = await ground();
  expect(dark).not.toBe(light);
  await page.reload();
  expect(await ground()).toBe(dark);
  await page.getByLabel('Settings of this browser').click();
  await expect(page.getByLabel('Dark')).toBeChecked();
  await page.getByLabel('System').check();
  expect(await ground()).toBe(light);
  await page.keyboard.press('Escape');
  await expect(page.getByLabel('Dark')).toBeHidden();
  await expect(page.getByLabel('Settings of this browser')).toBeFocused();
});

test('kept models are listed with their sizes, and deleted', async ({ demo, server }) => {
  const { page } = demo;
  await demo.open(server, {}, 'chat');
  await page.getByLabel('Settings of this browser').click();
  const kept = page.locator('#kept-models > li');
  await expect(kept).toHaveText(/^draft\s*[\d.]+ [kM]B\s*Delete$/);
  await kept.getByRole('button', { name: /^Delete / }).click();
  await expect(kept).toHaveCount(0);
  await expect(page.locator('#kept-note')).toHaveText(/^Deleted\./);
});

test('loading shows bytes and per cent of the engine and of the draft', async ({ demo, server }) => {
  const { page } = demo;
  await page.addInitScript(() => {
    const seen: string[] = [];
    Object.assign(globalThis, { seen });
    addEventListener('DOMContentLoaded', () => {
      const shown = document.querySelector('#load-text');
      if (!shown) return;
      const note = (): unknown => seen.push(shown.textContent ?? '');
      new MutationObserver(note).observe(shown, { childList: true, characterData: true, subtree: true });
    });
  });
  await demo.open(server, {}, 'chat');
  const seen = await page.evaluate(() => (globalThis as unknown as { seen: string[] }).seen);
  const counted = /: [\d.]+ [kM]B of [\d.]+ [kM]B, \d+ %$/;
  for (const what of ['Draft engine', 'Draft model']) {
    expect(seen.filter((text) => text.startsWith(what) && counted.test(text)).length, what).toBeGreaterThan(0);
  }
});

test.describe('without a network', () => {
  test.use({ serviceWorkers: 'allow' });

  test('the page can be installed, and opens with a sentence and its chat', async ({ demo, server, context }) => {
    const { page } = demo;
    await page.addInitScript(() => {
      // Empty documents before the page have no storage.
      if (location.protocol === 'about:') return;
      localStorage.setItem('outrider.chat', JSON.stringify([{ said: 'Hello', answer: 'Good morning.' }]));
    });
    await demo.open(server, {}, 'chat');
    const manifest = await page.request.get(`${server.url}/manifest.webmanifest`);
    expect(await manifest.json()).toMatchObject({ display: 'standalone', start_url: './#chat' });
    await page.evaluate(async () => void (await navigator.serviceWorker.ready));
    // The second visit is the service worker's.
    await page.reload();
    await demo.ready();
    await context.setOffline(true);
    await page.reload();
    await expect(demo.alert).toHaveText(/^You are offline, or the server is\. Your chat is still here/, {
      timeout: 60_000,
    });
    await expect(page.locator('.answer .bubble')).toHaveText('Good morning.');
    await context.setOffline(false);
    // Browsers say so; under automation not all do.
    await page.evaluate(() => window.dispatchEvent(new Event('online')));
    await demo.ready();
    await expect(demo.alert).toHaveText('');
    await expect(demo.main).not.toHaveAttribute('data-connection');
  });

  test('a server that hangs does not keep the page from opening', async ({ demo, server }) => {
    const { page } = demo;
    const open = new Set<Socket>();
    let hangs = false;
    const relay = createServer((near) => {
      open.add(near);
      if (hangs) return;
      const far = connect(Number(new URL(server.url).port), '127.0.0.1');
      for (const socket of [near, far]) socket.on('error', () => {});
      near.pipe(far).pipe(near);
    });
    await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve));
    await demo.open({ url: `http://127.0.0.1:${(relay.address() as AddressInfo).port}` }, {}, 'chat');
    await page.evaluate(async () => void (await navigator.serviceWorker.ready));
    await page.reload();
    await demo.ready();
    hangs = true;
    for (const socket of open) socket.destroy();
    await page.reload({ timeout: 15_000, waitUntil: 'commit' });
    await expect(page.getByLabel('Your message')).toBeVisible();
    for (const socket of open) socket.destroy();
    relay.close();
  });
});
