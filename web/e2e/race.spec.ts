// The race: three ways to a text in turn, three times over.

import { expect, test } from './fixtures.js';
import type { Demo } from './fixtures.js';

/** The lanes' states, and their numbers by name; NaN where there are none. */
function lanesOf(demo: Demo) {
  return demo.page
    .locator('#lanes > li')
    .evaluateAll((items) =>
      items.map((item) => ({
        lane: item.getAttribute('data-lane'),
        state: item.getAttribute('data-state'),
        picture: item.querySelector('svg')?.getAttribute('aria-label') ?? '',
        ...Object.fromEntries(
          [...item.querySelectorAll('[data-race]')].map((cell): [string, number] => [
            cell.getAttribute('data-race') ?? '',
            Number(cell.getAttribute('data-value') || Number.NaN),
          ]),
        ),
      })),
    ) as Promise<({ lane: string; state: string; picture: string } & Record<string, number | string>)[]>;
}

const sentence = (demo: Demo) => demo.page.locator('#race-sentence');

test('three lanes run, and at temperature 0 all write the same text', async ({ demo, server }, info) => {
  await demo.open(server, { temperature: 0, maxNewTokens: 64, seed: 3 }, 'race');
  await demo.slide('round-trip', 50);
  await demo.page.getByRole('button', { name: 'Race' }).click();
  await expect(sentence(demo)).toHaveText(
    /^(No difference: no guess .*\.|Draft ahead (was|made no difference) .* link: .*\.) Both wrote the same \d+ tokens\. The rounds wrote it, too, and (were .* the server alone.*|made no difference to the speed)\.$/,
    { timeout: 100_000 },
  );
  for (const spread of await demo.page.locator('.spread').all()) {
    await expect(spread).toHaveText(/^· median of 3: [\d.]+ to [\d.]+ tokens\/s$/);
  }
  const lanes = await lanesOf(demo);
  expect(lanes.map(({ lane, state }) => [lane, state])).toEqual([
    ['alone', 'done'],
    ['rounds', 'done'],
    ['ahead', 'done'],
  ]);
  for (const lane of lanes) {
    expect(lane.picture).toMatch(/: \d+ tokens in [\d.]+ s; \d+ drafted here and in time, /);
    for (const name of ['tokensPerSecond', 'elapsedMs', 'uplinkBytes', 'downlinkBytes', 'serverPasses']) {
      expect(lane[name], `${lane.lane}: ${name}`).toBeGreaterThan(0);
    }
  }
  const charts = demo.page.locator('#race-charts [role="img"]');
  await expect(charts).toHaveCount(3);
  for (const chart of await charts.all()) {
    await expect(chart).toHaveAttribute('aria-label', /: Draft ahead [\d.]+ after .*; Rounds .*; The server alone/);
  }
  await demo.page.screenshot({ path: info.outputPath('race.png'), fullPage: true });
});

test('a race that is stopped claims nothing, and the page goes on', async ({ demo, server }) => {
  await demo.open(server, { maxNewTokens: 256 }, 'race');
  await demo.slide('round-trip', 300);
  await demo.page.getByRole('button', { name: 'Race' }).click();
  await expect(demo.page.locator('[data-lane="rounds"]')).toHaveAttribute('data-state', 'running');
  await demo.page.getByRole('button', { name: 'Stop' }).click();
  await expect(demo.main).toHaveAttribute('data-finish', 'cancelled', { timeout: 5_000 });
  await expect(sentence(demo)).toHaveText('');
  expect((await lanesOf(demo)).map(({ state }) => state)).toEqual(['done', 'running', 'waiting']);
  await demo.slide('round-trip', 0);
  await demo.page.getByRole('link', { name: 'Laboratory' }).click();
  await demo.set('maxNewTokens', 8);
  await demo.run();
});
