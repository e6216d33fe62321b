import { expect, test } from './fixtures.js';

test('64 tokens are generated, each with its origin, and every counter is finite', async ({ demo, server }) => {
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 64 });
  await expect(demo.page).toHaveTitle('Outrider');
  await demo.runFor(64);

  const tokens = await demo.tokens();
  expect(tokens).toHaveLength(64);
  for (const { id, origin } of tokens) {
    expect(Number.isInteger(id)).toBe(true);
    expect(['accepted', 'resampled', 'bonus']).toContain(origin);
  }
  expect(
    tokens
      .map(({ text }) => text)
      .join('')
      .trim(),
  ).not.toBe('');

  const counters = await demo.counters();
  expect(Object.keys(counters)).toEqual(
    expect.arrayContaining([
      'tokensPerSecond',
      'acceptanceRate',
      'uplinkBitsPerDraftedToken',
      'downlinkBitsPerToken',
      'roundTripMs',
      'serverPassesPerToken',
      'tokens',
    ]),
  );
  for (const [name, value] of Object.entries(counters)) expect(value, name).not.toBeNaN();
  expect(counters).toMatchObject({ tokens: 64 });
  expect(counters['serverPassesPerToken']).toBeLessThanOrEqual(1);
});

test('cloud only streams tokens of the server, and both runs stand side by side', async ({ demo, server }) => {
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 32 });
  await demo.run();
  await demo.run('Cloud only');
  const tokens = await demo.tokens();
  expect(tokens.length).toBeGreaterThan(0);
  expect(new Set(tokens.map(({ origin }) => origin))).toEqual(new Set(['cloud']));
  expect(await demo.counter('acceptanceRate')).toBeNaN();

  for (const mode of ['speculative', 'cloud-only']) {
    const cell = demo.page.locator(`[data-compared="tokensPerSecond"][data-mode="${mode}"]`);
    expect(Number(await cell.getAttribute('data-value')), mode).toBeGreaterThan(0);
  }
  await expect(demo.page.locator('#verdict')).toContainText(/^Speculation was/);
});

test('Stop ends a generation, and the next one works', async ({ demo, server }) => {
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 256 });
  await demo.slide('round-trip', 300);
  await demo.start();
  await demo.waitForTokens(3);
  await demo.page.getByRole('button', { name: 'Stop' }).click();
  await expect(demo.main).toHaveAttribute('data-finish', 'cancelled', { timeout: 5_000 });
  const stopped = (await demo.tokens()).length;
  expect(stopped).toBeLessThan(256);

  await demo.slide('round-trip', 0);
  await demo.set('maxNewTokens', 16);
  await demo.run();
  expect((await demo.tokens()).length).toBeLessThanOrEqual(16);
  await expect(demo.main).not.toHaveAttribute('data-finish', 'cancelled');
});

test('a setting out of range says why and starts nothing', async ({ demo, server }) => {
  await demo.open(server);
  await demo.page.locator('#temperature').fill('hot');
  await demo.page.getByRole('button', { name: 'Generate' }).click();
  await expect(demo.alert).toHaveText('Temperature must be a number.');
  await expect(demo.page.locator('#temperature')).toBeFocused();
  await expect(demo.page.locator('#temperature')).toHaveAttribute('aria-invalid', 'true');
  await expect(demo.main).toHaveAttribute('data-state', 'ready');
});

test('the address of the page keeps the settings', async ({ demo, server }) => {
  await demo.open(server, { scheme: 'k-sqs' });
  await demo.set('supportSize', 8);
  await demo.slide('round-trip', 250);
  await demo.page.locator('#prompt').fill('The wolf & the lamb');
  await expect(demo.page).toHaveURL(/roundTrip=250/);
  await demo.page.reload();
  await expect(demo.page.locator('#supportSize')).toHaveValue('8');
  await expect(demo.page.locator('#round-trip-value')).toHaveText('250 ms');
  await expect(demo.page.locator('#prompt')).toHaveValue('The wolf & the lamb');
});
