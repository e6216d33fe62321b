// Every uplink scheme, as chosen on the page.

import type { Page } from '@playwright/test';
import { names } from '../src/outrider/choices.js';
import { expect, test } from './fixtures.js';
import type { Choice, Demo } from './fixtures.js';

/** A configuration: the choices, the row that is marked as sent, and the counters that only it has. */
const configurations: { name: string; choices: Partial<Record<Choice, string>>; sent: string; counters?: string[] }[] =
  [
    { name: 'dense', choices: { scheme: 'dense' }, sent: 'dense' },
    { name: 'qs', choices: { scheme: 'qs', code: 'enumerative' }, sent: 'qs' },
    { name: 'qs, adaptive', choices: { scheme: 'qs', code: 'adaptive' }, sent: 'qs' },
    { name: 'k-sqs', choices: { scheme: 'k-sqs', code: 'enumerative' }, sent: 'k-sqs' },
    { name: 'k-sqs, adaptive', choices: { scheme: 'k-sqs', code: 'adaptive' }, sent: 'k-sqs/adaptive' },
    { name: 'c-sqs', choices: { scheme: 'c-sqs', code: 'enumerative' }, sent: 'c-sqs', counters: ['meanDroppedMass'] },
    {
      name: 'c-sqs, adaptive',
      choices: { scheme: 'c-sqs', code: 'adaptive' },
      sent: 'c-sqs',
      counters: ['meanDroppedMass'],
    },
    { name: 'tk-slt', choices: { scheme: 'tk-slt' }, sent: 'tk-slt' },
    {
      name: 'dssd, sampled',
      choices: { scheme: 'dssd', afterRejection: 'sampled' },
      sent: 'dssd',
      counters: ['followUps'],
    },
    { name: 'dssd, full', choices: { scheme: 'dssd', afterRejection: 'full' }, sent: 'dssd' },
    { name: 'coupled', choices: { scheme: 'coupled' }, sent: 'coupled' },
  ];
/** Those whose drafts are sent in rounds. */
const roundSchemes = names.scheme.entries.filter(({ name }) => name !== 'auto' && name !== 'ahead');
for (const { name } of roundSchemes) {
  if (configurations.every(({ sent }) => sent !== name)) {
    configurations.push({ name, choices: { scheme: name }, sent: name });
  }
}
const compared = roundSchemes.flatMap(({ name }) => (name === 'k-sqs' ? [name, 'k-sqs/adaptive'] : [name]));

/** No budget: a dense draft alone exceeds the usual one. */
const greedy = { temperature: 0, maxNewTokens: 24, bitBudget: 0 };

/** The rows of the comparison. */
function bars(page: Page) {
  return page.locator('#scheme-bits [data-scheme]').evaluateAll((rows) =>
    rows.map((row) => {
      const number = (name: string): number => Number(row.getAttribute(name) || Number.NaN);
      return {
        scheme: row.getAttribute('data-scheme') ?? '',
        sent: row.getAttribute('data-sent') === 'true',
        bits: number('data-bits'),
        roundMs: number('data-round-ms'),
      };
    }),
  );
}

/** Collects errors and warnings of a page's console. */
function complaints(page: Page): string[] {
  const said: string[] = [];
  page.on('console', (message) => {
    // The tests keep service workers out.
    const isTheTests = message.text().startsWith('Service Worker registration blocked');
    if (['error', 'warning'].includes(message.type()) && !isTheTests) said.push(message.text());
  });
  return said;
}

async function chooseAll(demo: Demo, choices: Partial<Record<Choice, string>>): Promise<void> {
  // In this order: the scheme brings the others.
  for (const choice of ['scheme', 'code', 'afterRejection'] as const) {
    const value = choices[choice];
    if (value !== undefined) await demo.choose(choice, value);
  }
}

test('every scheme writes the tokens of the server alone, with finite counters and a bar for every scheme', async ({
  demo,
  server,
}) => {
  test.setTimeout(5 * 60_000);
  const said = complaints(demo.page);
  await demo.open(server, greedy);
  await demo.run('Cloud only');
  const alone = await demo.ids();
  expect(alone.length).toBeGreaterThan(0);
  for (const { name, choices, sent, counters = [] } of configurations) {
    await chooseAll(demo, choices);
    await demo.run();
    expect(await demo.ids(), name).toEqual(alone);
    const shown = await demo.counters();
    for (const [counter, value] of Object.entries(shown)) expect(value, `${name}: ${counter}`).not.toBeNaN();
    expect(Object.keys(shown), name).toEqual(expect.arrayContaining(counters));

    const rows = await bars(demo.page);
    expect(rows.map(({ scheme }) => scheme)).toEqual(compared);
    for (const { scheme, bits } of rows) expect(bits, `${name}: ${scheme}`).toBeGreaterThan(0);
    expect(rows.filter((row) => row.sent).map(({ scheme }) => scheme)).toEqual([sent]);
    await expect(demo.page.locator('#bits-chart [role="img"]')).toHaveAttribute(
      'aria-label',
      /^Uplink bits per drafted token over \d+ rounds?: from \d+ to \d+, last \d+\.$/,
    );
    await expect(demo.page.locator('#threshold-chart')).toBeVisible({ visible: choices.scheme === 'c-sqs' });
  }
  for (const scheme of ['auto', 'ahead']) {
    await chooseAll(demo, { scheme });
    await demo.run();
    expect(await demo.ids(), scheme).toEqual(alone);
  }
  expect(said).toEqual([]);
});

test('dense sends 16 bits for every token of the vocabulary, coupled an id', async ({ demo, server }) => {
  await demo.open(server, { ...greedy, scheme: 'coupled' });
  await demo.run();
  const rows = await bars(demo.page);
  const bits = (scheme: string): number => rows.find((row) => row.scheme === scheme)?.bits ?? Number.NaN;
  const vocabSize = Number(/(\d+) tokens/.exec((await demo.page.locator('#load-text').textContent()) ?? '')?.[1]);
  expect(bits('dense')).toBeGreaterThanOrEqual(16 * vocabSize);
  expect(bits('dense')).toBeLessThan(17 * vocabSize);
  expect(bits('coupled')).toBeGreaterThanOrEqual(Math.log2(vocabSize) - 1);
  expect(bits('coupled')).toBeLessThan(32);
});

test('the uplink slider changes the times at once, without a run', async ({ demo, server }) => {
  await demo.open(server, { ...greedy, scheme: 'k-sqs' });
  await demo.run();
  expect((await bars(demo.page)).map(({ roundMs }) => roundMs)).toEqual(Array(8).fill(Number.NaN));
  await demo.slide('uplink', 7);
  await expect(demo.page.locator('#scheme-bits-rate')).toHaveText('at 5 kbit/s');
  const slow = await bars(demo.page);
  await demo.slide('uplink', 17);
  await expect(demo.page.locator('#scheme-bits-rate')).toHaveText('at 50 kbit/s');
  const fast = await bars(demo.page);
  for (const [index, { scheme, bits, roundMs }] of slow.entries()) {
    expect(roundMs, scheme).toBeGreaterThan((1000 * bits) / 5_000);
    expect(fast[index]?.roundMs, scheme).toBeCloseTo(roundMs / 10);
  }
});

test('a cloud-only run leaves what is compared as it was', async ({ demo, server }) => {
  await demo.open(server, { ...greedy, scheme: 'k-sqs' });
  await demo.run();
  const before = await bars(demo.page);
  await demo.run('Cloud only');
  expect(await bars(demo.page)).toEqual(before);
});

test('a budget below one draft says so, and the text still comes', async ({ demo, server }) => {
  await demo.open(server, { ...greedy, scheme: 'k-sqs', bitBudget: 100 });
  await demo.run();
  expect((await demo.tokens()).length).toBeGreaterThan(0);
  await expect(demo.page.locator('#uplink-note')).toHaveText(/more than the bit budget/);
  await expect(demo.page.locator('#scheme-bits')).toBeHidden();
});

test('a scheme brings its own settings, and the address keeps them', async ({ demo, server }) => {
  const { page } = demo;
  await demo.open(server);
  await expect(page.getByLabel('Scheme', { exact: true })).toHaveValue('auto');
  await expect(page.locator('#supportSize')).toBeHidden();
  await page.getByLabel('Scheme', { exact: true }).selectOption('K-SQS');
  await expect(page.locator('#scheme-travels')).toHaveText(/^Per token: .*K most probable tokens/);
  await expect(page.locator('#stepSize')).toBeHidden();

  await page.getByLabel('Scheme', { exact: true }).selectOption('C-SQS');
  await page.getByLabel('Code', { exact: true }).selectOption('Adaptive');
  await expect(page.locator('#supportSize')).toBeHidden();
  await demo.set('stepSize', 0.01);
  await expect(page).toHaveURL(/stepSize=0\.01&scheme=c-sqs&code=adaptive/);
  await page.reload();
  await expect(page.getByLabel('Scheme', { exact: true })).toHaveValue('c-sqs');
  await expect(page.getByLabel('Code', { exact: true })).toHaveValue('adaptive');
  await expect(page.locator('#stepSize')).toHaveValue('0.01');

  await demo.choose('scheme', 'dssd');
  await expect(page.getByLabel('Code', { exact: true })).toBeHidden();
  await expect(page.locator('#downlinkSamples')).toBeVisible();
  await page.getByLabel('After a rejection').selectOption('full');
  await expect(page.locator('#downlinkSamples')).toBeHidden();
});

test('what is wrong in a hidden field does not matter', async ({ demo, server }) => {
  await demo.open(server, { ...greedy, scheme: 'c-sqs', stepSize: -1 });
  await demo.page.getByRole('button', { name: 'Generate' }).click();
  await expect(demo.alert).toHaveText('Step size must be at least 0.');
  await demo.choose('scheme', 'coupled');
  await demo.run();
});

test('charts and bars fit a phone', async ({ demo, server }, info) => {
  await demo.page.setViewportSize({ width: 360, height: 740 });
  await demo.page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
  await demo.open(server, { ...greedy, scheme: 'c-sqs' });
  await demo.run();
  expect(await demo.page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  const transition = await demo.page
    .locator('#scheme-bits .bar')
    .first()
    .evaluate((bar) => getComputedStyle(bar).transitionDuration);
  expect(transition).toBe('0s');
  await demo.page.screenshot({ path: info.outputPath('phone-schemes.png'), fullPage: true });
});
