// node e2e/link/texts.mjs URL FILE [quick]
//
// Several texts at a time on one page: `cargo xtask bench texts`. The npm package in Chromium, with the pair and the
// server at URL. One, two and four texts take turns; each text has a session of its own. Writes FILE and prints a table.

import { writeFileSync } from 'node:fs';
import { chromiumArgs, inChromium } from '../chromium.mjs';
import { prompts, symmetric } from './page.mjs';

const [url, file, quick] = process.argv.slice(2);
const repeats = quick ? 1 : 5;
const counts = [1, 2, 4];
const maxNewTokens = 96;

/** In the page: writes texts side by side, and gives their tokens together and the time of all. */
async function write({ texts, link, maxNewTokens }) {
  globalThis.outrider.setLink(link);
  const began = performance.now();
  const generations = texts.map(({ prompt, seed }) => globalThis.outrider.generate(prompt, { seed, maxNewTokens }));
  const summaries = await Promise.all(generations.map(({ summary }) => summary));
  const tokens = summaries.reduce((sum, summary) => sum + summary.tokens, 0);
  return { tokens, seconds: (performance.now() - began) / 1e3 };
}

/** In the page: the bytes of all memory of the page and its workers; measured by the browser. */
async function memory() {
  return (await performance.measureUserAgentSpecificMemory()).bytes;
}

const args = [...chromiumArgs, '--enable-blink-features=ForceEagerMeasureMemory'];
await inChromium(args, async (browser) => {
  const measured = [];
  for (const roundTripMs of [0, 50]) {
    const link = symmetric(null, roundTripMs);
    const rows = counts.map((count) => ({ roundTripMs, count, rates: [], bytes: 0 }));
    for (const row of rows) {
      const page = await browser.newPage();
      await page.goto(`${url}/healthz`);
      await page.evaluate(async () => {
        const { Outrider } = await import('/outrider.js');
        globalThis.outrider = await Outrider.load({ wait: 'draft' });
      });
      row.page = page;
    }
    for (let turn = -1; turn < repeats; turn++) {
      for (const { count, rates, page } of rows) {
        const texts = prompts.slice(0, count).map((prompt, seed) => ({ prompt, seed: seed + 10 * turn + 11 }));
        const { tokens, seconds } = await page.evaluate(write, { texts, link, maxNewTokens });
        // The first turn compiles code.
        if (turn >= 0) rates.push(tokens / seconds);
      }
    }
    for (const row of rows) {
      row.bytes = await row.page.evaluate(memory);
      await row.page.close();
      delete row.page;
    }
    measured.push(...rows);
  }
  const middle = (rates) => rates.toSorted((a, b) => a - b)[rates.length >> 1];
  const lines = measured.map(({ roundTripMs, count, rates, bytes }) => {
    const rate = middle(rates);
    const alone = middle(measured.find((row) => row.roundTripMs === roundTripMs && row.count === 1).rates);
    const cells = [roundTripMs, count, rate.toFixed(0), (rate / alone).toFixed(2), (bytes / 2 ** 20).toFixed(0)];
    return `| ${cells.join(' | ')} |`;
  });
  console.log(
    [
      '| round trip, ms | texts | tokens/s together | of one text | page, MiB |',
      '|--:|--:|--:|--:|--:|',
      ...lines,
    ].join('\n'),
  );
  writeFileSync(file, `${JSON.stringify({ browser: browser.version(), measured }, null, 1)}\n`);
});
