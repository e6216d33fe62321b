// node e2e/link/bench.mjs URL FILE [quick]
//
// The browser's part of `cargo xtask bench link`: the npm package in Chromium, with the pair and the server at URL, over
// emulated links, and first over none. Each scheme and the server alone write the same number of tokens for the same
// prompts, taking turns. Writes FILE.

import { writeFileSync } from 'node:fs';
import { chromiumArgs, inChromium } from '../chromium.mjs';
import { generate, openPage, prompts, symmetric } from './page.mjs';

const [url, file, quick] = process.argv.slice(2);
const megabits = quick ? [0.1, 100] : [0.1, 1, 10, 100];
const roundTrips = quick ? [0, 100] : [0, 20, 50, 100];
const maxNewTokens = 48;

const schemes = [
  { name: 'cloud only', options: { mode: 'cloud-only' } },
  { name: 'k-sqs, adaptive code', options: { scheme: 'k-sqs', code: 'adaptive' } },
  { name: 'k-sqs', options: { scheme: 'k-sqs' } },
  { name: 'dssd', options: { scheme: 'dssd' } },
  { name: 'coupled', options: { scheme: 'coupled' } },
  { name: 'tk-slt', options: { scheme: 'tk-slt' } },
  // How many rounds are in flight. Drafts of two, as most of four do not stand whole.
  ...[1, 2, 4, 8].map((maxInFlight) => ({
    name: `k-sqs, γ = 2, ${maxInFlight} in flight`,
    inFlight: maxInFlight,
    options: { scheme: 'k-sqs', draftLength: 2, maxInFlight },
  })),
];

await inChromium(chromiumArgs, async (browser) => {
  const page = await openPage(browser, url);
  // The first generation compiles code and warms caches.
  for (const { options } of schemes)
    await generate(page, prompts[0], { ...options, maxNewTokens: 16 }, symmetric(null, 0));

  /** Milliseconds that the server's runs of the target have taken so far. */
  const verifying = async () => {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    return 1e3 * Number(/^outrider_run_seconds_sum (\S+)/m.exec(metrics)[1]);
  };

  const measured = [];
  for (const roundTripMs of roundTrips) {
    for (const rate of roundTripMs === 0 ? [null, ...megabits] : megabits) {
      const link = symmetric(rate === null ? null : rate * 1e6, roundTripMs);
      const runs = schemes.map(({ name, inFlight }) => ({ scheme: name, inFlight: inFlight ?? null, runs: [] }));
      // Without a link a run is short, and what it is made of is wanted to a tenth of a millisecond.
      for (let turn = 0; turn < (rate === null ? 10 : 1); turn++) {
        for (const [seed, prompt] of prompts.entries()) {
          for (const [index, { options }] of schemes.entries()) {
            const settings = { ...options, maxNewTokens, seed: seed + 1 + turn * prompts.length };
            const before = await verifying();
            const summary = await generate(page, prompt, settings, link);
            runs[index].runs.push({ ...summary, verifyMs: (await verifying()) - before });
          }
        }
      }
      measured.push({ megabits: rate, roundTripMs, schemes: runs });
      console.error(rate === null ? 'no link' : `${rate} Mbit/s, ${roundTripMs} ms`);
    }
  }
  writeFileSync(file, `${JSON.stringify({ browser: browser.version(), links: measured }, null, 1)}\n`);
});
