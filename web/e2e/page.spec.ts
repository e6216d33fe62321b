// What the page does beside generating: views, examples, the card of a token, runs that are kept, and what it says.

import { readFile } from 'node:fs/promises';
import { expect, test } from './fixtures.js';

test('each view has an address, and one without a view is the chat or, with settings, the laboratory', async ({
  demo,
  server,
}) => {
  const { page, main } = demo;
  await page.goto(server.url);
  await expect(main).toHaveAttribute('data-view', 'chat');
  await expect(page.locator('#message')).toBeVisible();
  await expect(page.locator('#temperature')).toBeHidden();
  await page.getByRole('link', { name: 'Race' }).click();
  await expect(page).toHaveURL(/#race$/);
  await expect(page.locator('#race')).toBeVisible();
  await page.getByRole('link', { name: 'Laboratory' }).click();
  await expect(page.locator('#temperature')).toBeVisible();
  await page.goBack();
  await expect(main).toHaveAttribute('data-view', 'race');
  await page.goto(`${server.url}/?scheme=k-sqs`);
  await expect(main).toHaveAttribute('data-view', 'laboratory');
  await expect(page.locator('#models')).toContainText('are toys');
});

test('a token tells what is known of it: under the pointer, at a touch, by the keyboard', async ({ demo, server }) => {
  const { page } = demo;
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 24 });
  await demo.run();
  const card = page.getByRole('tooltip');
  await expect(card).toBeHidden();
  await page.locator('#output [data-token-id]').nth(2).hover();
  await expect(card).toContainText(/(Accepted|Resampled|Bonus): .*Round \d+: \d of \d drafts accepted\..*bits/s);
  await page.keyboard.press('Escape');
  await expect(card).toBeHidden();
  await page.locator('#output').focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  const second = page.locator('#output [data-token-id]').nth(1);
  await expect(second).toBeFocused();
  await expect(second).toHaveAttribute('aria-describedby', 'token-card');
  await expect(card).toBeVisible();
});

test('a run is kept as JSON and charts as a picture, and its link restores all settings', async ({
  demo,
  server,
  context,
}) => {
  const { page } = demo;
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 16, temperature: 0.3 });
  await page.getByRole('button', { name: 'A girl and her dog found' }).click();
  await demo.slide('round-trip', 20);
  await expect(page).toHaveURL(/roundTrip=20/);
  await demo.run();
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save the last as JSON' }).click();
  const run = JSON.parse(await readFile(await (await saved).path(), 'utf8'));
  const shown = await demo.ids();
  expect(run).toMatchObject({
    format: 'outrider run 1',
    prompt: 'A girl and her dog found',
    link: { roundTripMs: 20 },
    summary: { tokenIds: shown },
  });
  expect(run.rounds.flatMap(({ tokens }: { tokens: { id: number }[] }) => tokens.map(({ id }) => id))).toEqual(shown);
  const picture = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save charts as PNG' }).click();
  const png = await readFile(await (await picture).path());
  expect(png.subarray(1, 4).toString()).toBe('PNG');
  expect(png.length).toBeGreaterThan(5_000);

  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Copy a link to these settings' }).click();
  await expect(page.locator('#shared')).toHaveText(/^Copied/);
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  await page.goto('about:blank');
  await page.goto(copied);
  await expect(page.locator('#prompt')).toHaveValue('A girl and her dog found');
  await expect(page.locator('#temperature')).toHaveValue('0.3');
  await expect(page.locator('#scheme')).toHaveValue('k-sqs');
  await expect(page.locator('#round-trip-value')).toHaveText('20 ms');
});

test('Continue goes on from the text that is there', async ({ demo, server }) => {
  const { page } = demo;
  await demo.open(server, { maxNewTokens: 8, prompt: 'Once upon a time' });
  await expect(page.getByRole('button', { name: 'Continue' })).toBeHidden();
  await demo.run();
  const first = await demo.text();
  await demo.run('Continue');
  await expect(page.locator('#output .given')).toHaveText(`Once upon a time${first}`, { useInnerText: false });
});

test('runs on different links are not compared', async ({ demo, server }) => {
  const { page } = demo;
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 8 });
  await demo.run('Cloud only');
  await demo.slide('round-trip', 100);
  await demo.run();
  await expect(page.locator('#verdict')).toHaveText(/on different links/);
  await expect(page.locator('[data-compared="tokensPerSecond"][data-mode="cloud-only"]')).toHaveText('–');
  await demo.run('Cloud only');
  await expect(page.locator('#verdict')).toHaveText(/^Speculation was/);
});

test('while the engine loads the page says so, and how long already', async ({ demo, server }) => {
  const { page } = demo;
  let release = (): void => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await page.route('**/*.wasm', async (route) => {
    await held;
    await route.continue();
  });
  await page.goto(server.url);
  await expect(page.locator('#load-text')).toHaveText(/^Loading the draft engine, \d+ s so far$/, { timeout: 5_000 });
  await expect(page.getByRole('progressbar')).toBeVisible();
  release();
  await demo.ready();
});

test('drafts that nothing is left of are explained beside the button', async ({ demo, server }) => {
  await demo.open(server, { scheme: 'k-sqs', bitBudget: 100, maxNewTokens: 24 });
  await demo.run();
  await expect(demo.page.locator('#notice')).toHaveText(/nothing is drafted, because one draft costs more/);
  await expect(demo.page.locator('#notice')).toBeInViewport();
  await demo.set('bitBudget', 0);
  await demo.run();
  await expect(demo.page.locator('#notice')).toHaveText('');
});

test('where the system chooses the colours, what is disabled and what is pressed can be told', async ({
  demo,
  server,
}) => {
  const { page } = demo;
  await page.emulateMedia({ forcedColors: 'active' });
  await demo.open(server);
  const look = (name: string): Promise<string> =>
    page.getByRole('button', { name, exact: true }).evaluate((button) => {
      const { color, backgroundColor, borderTopStyle } = getComputedStyle(button);
      return [color, backgroundColor, borderTopStyle].join();
    });
  expect(await look('Stop')).not.toBe(await look('Cloud only'));
  expect(await look('As it is')).not.toBe(await look('4G'));
});
