// node e2e/link/dssd.mjs FILE URL [quick]
//
// DSSD's Tables 2 and 3 with Chromium as the device at the edge: a part of `cargo xtask bench dssd`. The server alone,
// DSD (every distribution goes up) and DSSD (one comes down after a rejection) write texts at T = 1 with top-k 10 over
// the paper's links, taking turns. Writes FILE.

import { writeFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { chromiumArgs, chromiumPath } from '../chromium.mjs';
import { generate, openPage, pick, prompts, symmetric } from './page.mjs';

const [file, url, form] = process.argv.slice(2);
const quick = form === 'quick';
/** NTT in ms, Mbit/s and γ of the rows of both tables. */
const rows = [
  [0, 100, 8],
  [20, 100, 4],
  [20, 100, 6],
  [20, 100, 8],
  [20, 50, 8],
  [50, 50, 8],
  [50, 10, 6],
  [50, 10, 8],
].slice(0, quick ? 2 : undefined);
const sampling = { temperature: 1, topK: 10, topP: 1, maxNewTokens: quick ? 32 : 128 };
const kept = [
  ...['tokens', 'elapsedMs', 'draftMs', 'serverPasses', 'drafted', 'judged', 'accepted'],
  ...['uplinkBits', 'downlinkBits'],
];

const browser = await chromium.launch({ executablePath: chromiumPath, args: chromiumArgs });
try {
  const page = await openPage(browser, url);
  const ways = (draftLength) => [
    { name: 'alone', options: { mode: 'cloud-only' } },
    { name: 'DSD', options: { scheme: 'dense', draftLength } },
    { name: 'DSSD', options: { scheme: 'dssd', downlink: 'full', draftLength } },
  ];
  // The first generation compiles code and warms caches.
  for (const { options } of ways(4)) {
    await generate(page, prompts[0], { ...options, seed: 100, maxNewTokens: 16 }, symmetric(null, 0));
  }
  const links = [];
  for (const [ntt, megabits, draftLength] of rows) {
    const runs = ways(draftLength).map(({ name }) => ({ name, runs: [] }));
    for (const [index, prompt] of prompts.entries()) {
      for (const [way, { options }] of ways(draftLength).entries()) {
        const asked = { ...options, ...sampling, seed: index + 1 };
        const summary = await generate(page, prompt, asked, symmetric(megabits * 1e6, ntt));
        runs[way].runs.push(pick(summary, kept));
      }
    }
    links.push({ roundTripMs: ntt, megabits, draftLength, ways: runs });
    console.error(`${megabits} Mbit/s, ${ntt} ms, γ = ${draftLength}`);
  }
  writeFileSync(file, `${JSON.stringify({ browser: browser.version(), links }, null, 1)}\n`);
} finally {
  await browser.close();
}
