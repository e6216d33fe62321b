// node e2e/link/bench.mjs URL FILE [quick]
//
// The browser's part of `cargo xtask bench link`: the npm package in Chromium, with the pair and the server at URL, over
// emulated links. Each scheme and the server alone write the same number of tokens for the same prompts, taking turns.
// Writes FILE.

import { writeFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { chromiumArgs, chromiumPath } from '../chromium.mjs';

const [url, file, quick] = process.argv.slice(2);
const prompts = [
  'Once upon a time there was a little',
  'The old man went to the river and',
  'A girl and her dog found',
];
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
];

/** In the page: one generation over one link. */
async function generate([prompt, options, link]) {
  globalThis.outrider.setLink(link);
  const { summary } = globalThis.outrider.generate(prompt, options);
  const {
    tokens,
    elapsedMs,
    rounds,
    draftMs,
    roundTripMs,
    serverPasses,
    drafted,
    judged,
    accepted,
    uplinkBits,
    downlinkBits,
  } = await summary;
  return {
    tokens,
    elapsedMs,
    rounds,
    draftMs,
    roundTripMs,
    serverPasses,
    drafted,
    judged,
    accepted,
    uplinkBits,
    downlinkBits,
  };
}

const browser = await chromium.launch({ executablePath: chromiumPath, args: chromiumArgs });
try {
  const page = await browser.newPage();
  // Any page of the server's origin will do.
  await page.goto(`${url}/healthz`);
  await page.evaluate(async () => {
    const { Outrider } = await import('/outrider.js');
    globalThis.outrider = await Outrider.load();
  });
  // The first generation compiles code and warms caches.
  const open = { uplinkBitsPerSecond: null, downlinkBitsPerSecond: null, roundTripMs: 0 };
  for (const { options } of schemes)
    await page.evaluate(generate, [prompts[0], { ...options, maxNewTokens: 16 }, open]);

  const measured = [];
  for (const roundTripMs of roundTrips) {
    for (const rate of megabits) {
      const link = { uplinkBitsPerSecond: rate * 1e6, downlinkBitsPerSecond: rate * 1e6, roundTripMs };
      const runs = schemes.map(({ name }) => ({ scheme: name, runs: [] }));
      for (const [seed, prompt] of prompts.entries()) {
        for (const [index, { options }] of schemes.entries()) {
          const settings = { ...options, maxNewTokens, seed: seed + 1 };
          runs[index].runs.push(await page.evaluate(generate, [prompt, settings, link]));
        }
      }
      measured.push({ megabits: rate, roundTripMs, schemes: runs });
      console.error(`${rate} Mbit/s, ${roundTripMs} ms`);
    }
  }
  writeFileSync(file, `${JSON.stringify({ browser: browser.version(), links: measured }, null, 1)}\n`);
} finally {
  await browser.close();
}
