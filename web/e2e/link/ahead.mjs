// node e2e/link/ahead.mjs FILE NAME=ALONE,HELPED... [quick] [near]
//
// Never waiting against the server alone, in Chromium, over emulated links: a part of `cargo xtask bench link`. For each
// target there are two servers, one that drafts nothing itself (ALONE) and one that does (HELPED). Every way writes the
// same tokens for the same prompts, taking turns. `near` measures the nearest link only. Writes FILE.

import { writeFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { chromiumArgs, chromiumPath } from '../chromium.mjs';

const [file, ...rest] = process.argv.slice(2);
const quick = rest.includes('quick');
const near = rest.includes('near');
const targets = rest.filter((argument) => argument.includes('='));
const prompts = [
  'Once upon a time there was a little',
  'The old man went to the river and',
  'A girl and her dog found',
];
const megabits = quick || near ? [10] : [0.1, 1, 10, 100];
const roundTrips = near ? [2] : quick ? [2, 20, 50, 100] : [0, 2, 5, 20, 50, 100, 200, 400];
const maxNewTokens = 64;

const ways = [
  { name: 'alone', helped: false, options: { mode: 'cloud-only' } },
  { name: 'ahead', helped: false, options: { scheme: 'ahead' } },
  { name: 'rounds of 4', helped: false, options: { scheme: 'coupled', draftLength: 4 } },
  {
    name: 'rounds of 2, 4 in flight',
    helped: false,
    options: { scheme: 'coupled', draftLength: 2, maxInFlight: 4 },
  },
  { name: 'own drafts', helped: true, options: { mode: 'cloud-only' } },
  { name: 'ahead and own drafts', helped: true, options: { scheme: 'ahead' } },
  // What `ahead` chooses among, each for the whole text; how long is waited depends on the link.
  { name: 'plan: at once', helped: false, options: { scheme: 'ahead', groupSize: 1 } },
  {
    name: 'plan: patient, groups of 4',
    helped: false,
    options: { scheme: 'ahead', groupSize: 4 },
    waits: true,
  },
  {
    name: 'plan: in turn, groups of 4',
    helped: false,
    options: { scheme: 'ahead', groupSize: 4, lead: 4 },
    waits: true,
  },
];

/** What is written down of a generation. */
const kept = [
  ...['tokens', 'elapsedMs', 'draftMs', 'serverPasses', 'inTime'],
  ...['drafted', 'judged', 'accepted', 'uplinkBits', 'downlinkBits'],
];

/** In the page: one generation over one link. */
async function generate([prompt, options, link]) {
  globalThis.outrider.setLink(link);
  return globalThis.outrider.generate(prompt, options).summary;
}

const browser = await chromium.launch({ executablePath: chromiumPath, args: chromiumArgs });
try {
  const measured = [];
  for (const target of targets) {
    const [name, urls] = target.split('=');
    const pages = await Promise.all(
      urls.split(',').map(async (url) => {
        const page = await browser.newPage();
        // Any page of the server's origin will do.
        await page.goto(`${url}/healthz`);
        await page.evaluate(async () => {
          const { Outrider } = await import('/outrider.js');
          globalThis.outrider = await Outrider.load();
        });
        return page;
      }),
    );
    const open = { uplinkBitsPerSecond: null, downlinkBitsPerSecond: null, roundTripMs: 0 };
    const run = ({ helped, options, waits }, prompt, seed, link) => {
      const patience = waits ? { patience: 1.25 * link.roundTripMs + 60 } : {};
      const asked = { ...options, ...patience, seed, maxNewTokens };
      return pages[helped ? 1 : 0].evaluate(generate, [prompt, asked, link]);
    };
    // The first generation compiles code, warms caches and measures.
    for (const way of ways) await run(way, prompts[0], 100, open);

    const links = [];
    for (const roundTripMs of roundTrips) {
      for (const rate of megabits) {
        const bits = rate * 1e6;
        const link = { uplinkBitsPerSecond: bits, downlinkBitsPerSecond: bits, roundTripMs };
        const runs = ways.map(() => []);
        for (const [seed, prompt] of prompts.entries()) {
          let text;
          for (const [index, way] of ways.entries()) {
            const summary = await run(way, prompt, seed + 1, link);
            text ??= summary.text;
            if (summary.text !== text) throw new Error(`${way.name} wrote another text at ${roundTripMs} ms`);
            runs[index].push(Object.fromEntries(kept.map((key) => [key, summary[key]])));
          }
        }
        links.push({
          megabits: rate,
          roundTripMs,
          ways: ways.map(({ name }, i) => ({ name, runs: runs[i] })),
        });
        console.error(`${name}: ${rate} Mbit/s, ${roundTripMs} ms`);
      }
    }
    measured.push({ name, links });
    await Promise.all(pages.map((page) => page.close()));
  }
  writeFileSync(file, `${JSON.stringify({ browser: browser.version(), targets: measured }, null, 1)}\n`);
} finally {
  await browser.close();
}
