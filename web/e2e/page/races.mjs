// node e2e/page/races.mjs FILE NAME=URL… [quick]
//
// The page's race, ten times with each server: the server alone, rounds and the default write the same text in turn, three
// times over. Server and browser share the machine, without an emulated link. Writes the lanes' medians to FILE.

import { writeFileSync } from 'node:fs';
import { chromiumArgs, inChromium } from '../chromium.mjs';

const [file, ...rest] = process.argv.slice(2);
const isQuick = rest.at(-1) === 'quick';
const servers = rest.filter((argument) => argument !== 'quick').map((argument) => argument.split('='));
const races = isQuick ? 2 : 10;
const TOKENS = 128;

/** One race with a seed; tokens a second of each lane. */
async function race(browser, url, seed) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  const query = new URLSearchParams({ seed: String(seed), maxNewTokens: String(TOKENS), roundTrip: '0' });
  await page.goto(`${url}/?${query}#race`);
  await page.locator('main[data-state="ready"]').waitFor({ timeout: 120_000 });
  await page.getByRole('button', { name: 'Race' }).click();
  await page.waitForFunction(() => document.querySelector('#race-sentence')?.textContent, null, { timeout: 300_000 });
  const lanes = await page
    .locator('#lanes > li')
    .evaluateAll((items) =>
      items.map((item) => [
        item.getAttribute('data-lane'),
        Number(item.querySelector('[data-race="tokensPerSecond"]')?.getAttribute('data-value')),
      ]),
    );
  await context.close();
  return Object.fromEntries(lanes);
}

await inChromium(chromiumArgs, async (browser) => {
  const measured = servers.map(([name, url]) => ({ name, url, races: [] }));
  for (let seed = 1; seed <= races; seed++) {
    for (const { name, url, races } of measured) {
      const lanes = await race(browser, url, seed);
      races.push(lanes);
      console.error(`${name}: ${JSON.stringify(lanes)}`);
    }
  }
  const targets = measured.map(({ name, races }) => ({ name, races }));
  writeFileSync(file, `${JSON.stringify({ browser: browser.version(), targets }, null, 1)}\n`);
});
