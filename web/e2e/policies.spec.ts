// Acceptance rules, gates, stop rules and AS², as chosen on the page.

import type { Page } from '@playwright/test';
import { names } from '../src/outrider/choices.js';
import { expect, test } from './fixtures.js';
import type { Demo } from './fixtures.js';
import { gateFile } from './heads.js';

/** Slider position of 5 kbit/s; see the page's scale. */
const FIVE_KBIT = 7;

/** Has the server answer for the trained heads as if it had these; null is none. */
async function serveHeads(page: Page, body: Buffer | null): Promise<void> {
  await page.route('**/pair/heads.safetensors', (route) => route.fulfill(body === null ? { status: 404 } : { body }));
}

async function origins(demo: Demo): Promise<Set<string>> {
  return new Set((await demo.tokens()).map(({ origin }) => origin));
}

/** The names that a selector offers, and those of them that cannot be chosen. */
async function offered(page: Page, select: string): Promise<{ all: string[]; disabled: string[] }> {
  const options = await page
    .locator(`#${select} option`)
    .evaluateAll((elements) =>
      elements.map((element) => ({ name: element.textContent ?? '', disabled: element.matches(':disabled') })),
    );
  return {
    all: options.map(({ name }) => name),
    disabled: options.filter(({ disabled }) => disabled).map(({ name }) => name),
  };
}

const badge = (page: Page) => page.locator('#guarantee .badge');

test('every rule says what it is, all but exact are marked as lossy, and one of each kind writes a text', async ({
  demo,
  server,
}) => {
  test.setTimeout(5 * 60_000);
  const { page } = demo;
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 12 });
  const { all, disabled } = await offered(page, 'rule');
  expect(all).toHaveLength(names.rule.entries.length);
  expect(disabled).toEqual([]);
  const sentences = new Set<string | null>();
  // One of each kind writes a text; what the others write is tested natively.
  const writing = ['exact', 'lossy', 'token-v1', 'oracle-diff', 'mentored'];
  for (const rule of all) {
    await demo.choose('rule', rule);
    const guarantee = rule === 'exact' ? 'exact' : 'lossy';
    await expect(page.locator('#verification .badge'), rule).toHaveText(guarantee);
    const explanation = await page.locator('#rule-explanation').textContent();
    expect(explanation, rule).toMatch(/^[A-Z].*\.$/);
    sentences.add(explanation);
    if (!writing.includes(rule)) continue;
    await demo.run();
    expect((await demo.tokens()).length, rule).toBeGreaterThan(0);
    for (const [counter, value] of Object.entries(await demo.counters())) {
      expect(value, `${rule}: ${counter}`).not.toBeNaN();
    }
    await expect(badge(page), rule).toHaveText(guarantee);
    await expect(page.locator('#guarantee')).toContainText(
      rule === 'exact' ? 'is distributed as the server’s own model' : `Under ${rule}, `,
    );
  }
  expect(sentences.size, 'every rule has its own sentence').toBe(all.length);
});

test('the badge belongs to the text: it stays when another rule is chosen, until the next run', async ({
  demo,
  server,
}) => {
  const { page } = demo;
  await demo.open(server, { maxNewTokens: 8, rule: 'opt', ruleParameter: 0.7 });
  await expect(badge(page), 'before the first text, that of what is chosen').toHaveText('lossy');
  await demo.run();
  await demo.choose('rule', 'exact');
  await expect(page.locator('#verification .badge')).toHaveText('exact');
  await expect(page.locator('#guarantee')).toContainText('Under opt, α = 0.7: the text is not distributed as');
  await demo.run('Cloud only');
  await expect(badge(page)).toHaveText('exact');
});

test('a rule brings its own number, and the address keeps both', async ({ demo, server }) => {
  const { page } = demo;
  await demo.open(server, { maxNewTokens: 8 });
  await expect(page.locator('#ruleParameter')).toBeHidden();
  await demo.choose('rule', 'mentored');
  await expect(page.getByLabel('Parameter D')).toHaveValue('0.1');
  await demo.choose('rule', 'lossy');
  await expect(page.getByLabel('Parameter α')).toHaveValue('0.3');
  await demo.set('ruleParameter', 1);
  await expect(page.locator('#ruleParameter-reason')).toHaveText('Acceptance rule: α must be below 1.');
  await page.getByRole('button', { name: 'Generate' }).click();
  await expect(demo.alert).toHaveText('Acceptance rule: α must be below 1.');
  await expect(page.locator('#ruleParameter')).toBeFocused();

  await demo.set('ruleParameter', 0.25);
  await page.locator('#ruleParameter').press('ArrowUp');
  await expect(page).toHaveURL(/rule=lossy&ruleParameter=0\.3#|rule=lossy#/);
  await demo.set('ruleParameter', 0.25);
  await page.getByLabel('Cloud alone where faster').check();
  await expect(page).toHaveURL(/rule=lossy&ruleParameter=0.25&adaptiveMode=true/);
  await page.reload();
  await expect(page.locator('#rule')).toBeEnabled({ timeout: 60_000 });
  await expect(page.locator('#rule')).toHaveValue('lossy');
  await expect(page.locator('#ruleParameter')).toHaveValue('0.25');
  await expect(page.getByLabel('Cloud alone where faster')).toBeChecked();
});

test('a rule that nobody knows is the exact one', async ({ demo, server }) => {
  await demo.open(server, { rule: 'generous', ruleParameter: 0.9 });
  await expect(demo.page.locator('#rule')).toHaveValue('exact');
});

test('lossy rules cannot be had where the probabilities are not sent', async ({ demo, server }) => {
  const { page } = demo;
  await demo.open(server, { maxNewTokens: 8, rule: 'opt' });
  await demo.choose('scheme', 'dssd');
  const sentence = 'opt needs the draft’s probabilities, which the scheme dssd does not send.';
  await expect(page.locator('#rule-reason')).toHaveText(sentence);
  expect((await offered(page, 'rule')).disabled).toHaveLength(15);
  await page.getByRole('button', { name: 'Generate' }).click();
  await expect(demo.alert).toHaveText(sentence);
  await expect(page.locator('#rule')).toBeFocused();
  // The server alone sends no drafts.
  await demo.run('Cloud only');
  await demo.choose('scheme', 'k-sqs');
  await expect(page.locator('#rule-reason')).toHaveText('');
  await demo.run();
});

test('a token cascade that trusts everything asks nobody, in a colour and underline of its own', async ({
  demo,
  server,
}) => {
  const { page } = demo;
  // The server is asked after ten passed tokens.
  await demo.open(server, { maxNewTokens: 10, gate: 'token-cascade', gateThreshold: 1 });
  await demo.run();
  expect(await origins(demo)).toEqual(new Set(['passed']));
  const count = (await demo.tokens()).length;
  expect(await demo.counters()).toMatchObject({ passed: count, tokens: count, serverPassesPerToken: 0 });
  await expect(badge(page)).toHaveText('lossy');
  await expect(page.locator('#legend li').filter({ hasText: 'Passed' }).locator('.count')).toHaveText(String(count));
  const looks = await page.locator('#legend .token').evaluateAll((samples) =>
    samples.map((sample) => {
      const underline = sample.querySelector('span') ?? sample;
      const { textDecorationStyle, textDecorationThickness } = getComputedStyle(underline);
      return { colour: getComputedStyle(sample).color, underline: `${textDecorationStyle} ${textDecorationThickness}` };
    }),
  );
  expect(new Set(looks.map(({ colour }) => colour)).size).toBe(6);
  expect(new Set(looks.map(({ underline }) => underline)).size).toBe(6);
});

test('a token cascade that trusts a little leaves the rest to the server', async ({ demo, server }) => {
  await demo.open(server, { maxNewTokens: 48, gate: 'token-cascade', gateThreshold: 0.8 });
  await demo.run();
  const found = await origins(demo);
  expect(found).toContain('passed');
  expect(found.size).toBeGreaterThan(1);
  const { passed, tokens } = await demo.counters();
  expect(passed).toBeGreaterThan(0);
  expect(passed).toBeLessThan(tokens ?? 0);
});

test('a sequence cascade keeps a text that it trusts and has the server write one that it does not', async ({
  demo,
  server,
}) => {
  await demo.open(server, { maxNewTokens: 24, gate: 'sequence-cascade', gateThreshold: 1 });
  await demo.run();
  expect(await origins(demo)).toEqual(new Set(['passed']));
  await demo.set('gateThreshold', 0);
  await demo.run();
  expect(await origins(demo)).toEqual(new Set(['cloud']));
});

test('without trained heads SPRINTER and SpecDec++ cannot be chosen, and the page says why', async ({
  demo,
  server,
}) => {
  const { page } = demo;
  await serveHeads(page, null);
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 8 });
  expect(await offered(page, 'gate')).toEqual({
    all: ['none', 'sprinter', 'token-cascade', 'sequence-cascade', 'sequence-product'],
    disabled: ['sprinter'],
  });
  expect((await offered(page, 'stopRule')).disabled).toEqual(['specdec']);
  await expect(page.locator('#gate-missing')).toHaveText(
    'sprinter needs a trained gate, which this draft model does not have.',
  );
  await expect(page.locator('#stopRule-missing')).toHaveText(
    'specdec needs a trained stop head, which this draft model does not have.',
  );

  // Somebody else's address may ask for it all the same.
  await demo.open(server, { maxNewTokens: 8, gate: 'sprinter' });
  await page.getByRole('button', { name: 'Generate' }).click();
  await expect(demo.alert).toHaveText('sprinter needs a trained gate, which this draft model does not have.');
  await expect(demo.main).toHaveAttribute('data-state', 'ready');
  await demo.choose('gate', 'none');
  await demo.run();
});

test('with a trained gate SPRINTER passes what it trusts and drafts the rest', async ({ demo, server }) => {
  const { page } = demo;
  await serveHeads(page, await gateFile(server, 1));
  await demo.open(server, { maxNewTokens: 16, gate: 'sprinter' });
  expect((await offered(page, 'gate')).disabled).toEqual([]);
  // σ(1) = 0.73: above the half that is the default.
  await demo.run();
  expect(await demo.counter('passed')).toBeGreaterThanOrEqual(15);
  expect(await origins(demo)).toContain('passed');
  await demo.set('gateThreshold', 0.75);
  await demo.run();
  expect(await demo.counter('passed')).toBe(0);
  expect(await origins(demo)).not.toContain('passed');
});

test('the served draft comes with heads, for SPRINTER and for SpecDec++', async ({ demo, server }) => {
  const { page } = demo;
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 32, gate: 'sprinter', stopRule: 'specdec' });
  expect((await offered(page, 'gate')).disabled).toEqual([]);
  expect((await offered(page, 'stopRule')).disabled).toEqual([]);
  await expect(page.locator('#gate-missing')).toHaveText('');
  // A gate that asks for nothing lets everything pass, whatever it was trained for.
  await demo.set('gateThreshold', 0);
  await demo.run();
  expect(await origins(demo)).toEqual(new Set(['passed']));
  await demo.choose('gate', 'none');
  await demo.run();
  await expect(badge(page)).toHaveText('exact');
  expect(await demo.counter('acceptanceRate')).toBeGreaterThan(0);
});

test('heads of another draft, and a file that is none, are sentences', async ({ demo, server }) => {
  const { page } = demo;
  await serveHeads(page, await gateFile(server, 0, { vocabSize: 7 }));
  await page.goto(server.url);
  await expect(demo.alert).toHaveText(/The trained heads belong to another draft model .*vocabulary/, {
    timeout: 30_000,
  });
  await page.unroute('**/pair/heads.safetensors');
  await serveHeads(page, Buffer.from('<!doctype html>'));
  await page.getByRole('button', { name: 'Try again' }).click();
  await expect(demo.alert).toHaveText(/The file of trained heads is damaged\./, { timeout: 30_000 });
});

test('ODLD tells the best draft length', async ({ demo, server }) => {
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 128, stopRule: 'odld' });
  await demo.runFor(96);
  const { optimalDraftLength, costRatio } = await demo.counters();
  expect(optimalDraftLength).toBeGreaterThanOrEqual(1);
  expect(costRatio).toBeGreaterThan(0);
  await demo.choose('stopRule', 'fixed');
  await demo.run();
  await expect(demo.page.locator('[data-counter="optimalDraftLength"]')).toHaveCount(0);
});

for (const stopRule of ['adaedl', 'bild']) {
  test(`${stopRule} writes the target's text and hides γ`, async ({ demo, server }) => {
    const { page } = demo;
    await demo.open(server, { scheme: 'k-sqs', temperature: 0, maxNewTokens: 24, draftLength: 2 });
    await demo.run();
    const ids = await demo.ids();
    await demo.choose('stopRule', stopRule);
    await expect(page.locator('#draftLength')).toBeHidden();
    await expect(page.locator('#stopThreshold')).toBeVisible();
    await demo.run();
    expect(await demo.ids()).toEqual(ids);
    await expect(badge(page)).toHaveText('exact');
  });
}

test(
  'AS² has the server write alone where the link is too slow for drafts',
  { tag: '@timing' },
  async ({ demo, server }) => {
    test.setTimeout(4 * 60_000);
    const { page } = demo;
    await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 64, adaptiveMode: 'true' });
    await demo.slide('uplink', FIVE_KBIT);
    await demo.slide('round-trip', 300);
    await demo.runFor(32);
    expect(await origins(demo)).toContain('cloud');
    const { streamed, tokens } = await demo.counters();
    expect(streamed).toBeGreaterThan(0);
    expect(streamed).toBeLessThan(tokens ?? 0);
    await expect(badge(page)).toHaveText('exact');

    await page.getByLabel('Cloud alone where faster').uncheck();
    await demo.set('maxNewTokens', 12);
    await demo.run();
    expect(await origins(demo)).not.toContain('cloud');
  },
);

test('what is predicted stands beside what is measured, on one link', { tag: '@timing' }, async ({ demo, server }) => {
  const { page } = demo;
  const value = async (name: string, kind: string): Promise<number> => {
    const cell = page.locator(`[data-prediction="${name}"][data-kind="${kind}"]`);
    return Number((await cell.getAttribute('data-value')) || Number.NaN);
  };
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 64 });
  await demo.runFor(32);
  await expect(page.locator('#prediction-note')).toHaveText(/^Run Cloud only once on this link/);
  expect(await value('speedup', 'predicted')).toBeNaN();
  expect(await value('speedup', 'measured')).toBeNaN();
  const predicted = await value('tokensPerRound', 'predicted');
  const measured = await value('tokensPerRound', 'measured');
  expect(predicted).toBeGreaterThan(1);
  expect(measured).toBeGreaterThan(0.5 * predicted);
  expect(measured).toBeLessThan(2 * predicted);

  await demo.run('Cloud only');
  const [speedup, ratio] = [await value('speedup', 'predicted'), await value('speedup', 'measured')];
  expect(speedup).toBeGreaterThan(0);
  expect(ratio).toBeGreaterThan(speedup / 3);
  expect(ratio).toBeLessThan(3 * speedup);

  // Another link: the server's own speed on it is not known.
  await demo.slide('round-trip', 200);
  await expect(page.locator('#prediction-note')).toHaveText(/^Run Cloud only once on this link/);
  expect(await value('speedup', 'measured')).toBeNaN();
  await demo.slide('round-trip', 0);
  expect(await value('speedup', 'measured')).toBeCloseTo(ratio, 12);
});
