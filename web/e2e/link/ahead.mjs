// node e2e/link/ahead.mjs FILE NAME=ALONE,HELPED... [quick|near|trips|chat [quick]]
//
// Never waiting against the server alone, in Chromium, over emulated links: a part of `cargo xtask bench link`. For each
// target there are two servers, one that drafts nothing itself (ALONE) and one that does (HELPED). Every way writes the
// same tokens for the same prompts, taking turns. `near` measures the nearest link only, over half as many texts; `trips`
// compares `ahead` with the server's own drafts over three links; `chat` asks a chat model questions over four links.
// Writes FILE.

import { writeFileSync } from 'node:fs';
import { chromiumArgs, inChromium } from '../chromium.mjs';
import { generate, openPage, pick, prompts as beginnings, questions, symmetric } from './page.mjs';

const [file, ...rest] = process.argv.slice(2);
const quick = rest.includes('quick');
const near = rest.includes('near');
const trips = rest.includes('trips');
const chat = rest.includes('chat');
const targets = rest.filter((argument) => argument.includes('='));
const prompts = chat ? questions : beginnings;
// The fastest link comes first: who waits for it loses more over each that follows.
const megabits = quick || near || trips || chat ? [10] : [100, 10, 1, 0.1];
const chatTrips = quick ? [0, 50] : [0, 20, 50, 200];
const otherTrips = quick ? [2, 20, 50, 100] : [0, 2, 5, 20, 50, 100, 200, 400];
const roundTrips = near ? [2] : trips ? [20, 50, 100] : chat ? chatTrips : otherTrips;
const maxNewTokens = 64;
/** So many texts over each link at least, and until it took so long, and so many at most. */
const fewestTexts = chat ? (quick ? 2 : prompts.length) : (near ? 1 : trips ? 4 : 2) * prompts.length;
const enoughMs = 8000;
const mostTexts = chat ? fewestTexts : 4 * prompts.length;
/** The rate at which every way is tried over every round trip, be it ever so slow, and 2 ms are. */
const alwaysMegabits = 10;
/** A way that waits is given up once a text took so many times as long as by the server alone. */
const hopelessly = 1.5;

/** One that learns of the link on its own has a page of its own. */
const chains = { name: 'ahead, chains', apart: true, options: { scheme: 'ahead', candidates: 1 }, beside: true };

/** `beside`: told for comparison, each prompt once, at one rate. The server alone and plans are what `ahead` is held to. */
const all = [
  { name: 'alone', helped: false, options: { mode: 'cloud-only' } },
  { name: 'ahead', helped: false, options: { scheme: 'ahead' } },
  ...(quick ? [chains] : []),
  { name: 'rounds of 4', helped: false, options: { scheme: 'coupled', draftLength: 4 }, waits: true, beside: true },
  {
    name: 'rounds of 2, 4 in flight',
    helped: false,
    options: { scheme: 'coupled', draftLength: 2, maxInFlight: 4 },
    waits: true,
    beside: true,
  },
  { name: 'own drafts', helped: true, options: { mode: 'cloud-only' }, beside: true },
  { name: 'ahead and own drafts', helped: true, options: { scheme: 'ahead' }, beside: true },
  // What `ahead` chooses among, each for the whole text; how long is waited depends on the link.
  { name: 'plan: at once', helped: false, options: { scheme: 'ahead', groupSize: 1 } },
  { name: 'plan: at once, groups of 4', helped: false, options: { scheme: 'ahead', groupSize: 4 } },
  {
    name: 'plan: patient, groups of 4',
    helped: false,
    options: { scheme: 'ahead', groupSize: 4 },
    waits: true,
    patient: true,
  },
  {
    name: 'plan: in turn, groups of 4',
    helped: false,
    options: { scheme: 'ahead', groupSize: 4, lead: 4 },
    waits: true,
    patient: true,
  },
];
const isWithoutPlan = ({ waits, name }) => !waits && !name.startsWith('plan');
const chatWays = ['alone', 'ahead', 'rounds of 4', 'own drafts', 'ahead and own drafts'];
const isCompared = chat ? ({ name }) => chatWays.includes(name) : isWithoutPlan;
const ways = trips || chat ? all.filter(isCompared).map((way) => ({ ...way, beside: false })) : all;

/** What is written down of a generation. */
const kept = [
  ...['tokens', 'elapsedMs', 'draftMs', 'serverPasses', 'inTime', 'branched'],
  ...['drafted', 'judged', 'accepted', 'uplinkBits', 'downlinkBits'],
];

await inChromium(chromiumArgs, async (browser) => {
  const measured = [];
  for (const target of targets) {
    const [name, urls] = target.split('=');
    const [alone, helpedBy] = urls.split(',');
    const apart = ways.some((way) => way.apart) ? [alone] : [];
    const pages = await Promise.all([alone, helpedBy, ...apart].map((url) => openPage(browser, url)));
    const open = symmetric(null, 0);
    const run = ({ helped, apart, options, patient }, prompt, seed, link) => {
      const patience = patient ? { patience: 1.25 * link.roundTripMs + 60 } : {};
      const asked = { ...options, ...patience, seed, maxNewTokens };
      return generate(pages[apart ? 2 : helped ? 1 : 0], prompt, asked, link);
    };
    // The first generation compiles code, warms caches and measures.
    for (const way of ways) await run(way, prompts[0], 100, open);

    const links = [];
    measured.push({ name, links });
    // The fastest rate at which a way was hopeless: it is tried once over longer round trips, and not at slower rates.
    const hopeless = new Map();
    for (const roundTripMs of roundTrips) {
      for (const rate of roundTripMs === 2 ? [alwaysMegabits] : megabits) {
        const link = symmetric(rate * 1e6, roundTripMs);
        const runs = ways.map(() => []);
        const began = performance.now();
        for (let round = 0; round < mostTexts; round++) {
          if (round >= fewestTexts && performance.now() - began > enoughMs) break;
          let first;
          for (const [index, way] of ways.entries()) {
            const isHopeless = rate <= hopeless.get(way);
            const once = isHopeless ? 1 : way.beside ? prompts.length : mostTexts;
            if (round >= once || ((isHopeless || way.beside) && rate !== alwaysMegabits)) continue;
            const summary = await run(way, prompts[round % prompts.length], round + 1, link);
            first ??= summary;
            if (summary.text !== first.text) {
              throw new Error(`${way.name} wrote another text at ${roundTripMs} ms`);
            }
            runs[index].push(pick(summary, kept));
            const isFar = summary.elapsedMs > hopelessly * first.elapsedMs;
            if (way.waits && !isHopeless && isFar) hopeless.set(way, rate);
          }
        }
        links.push({ megabits: rate, roundTripMs, ways: ways.map(({ name }, i) => ({ name, runs: runs[i] })) });
        // All that there is so far: who ends it early has that.
        writeFileSync(file, `${JSON.stringify({ browser: browser.version(), targets: measured }, null, 1)}\n`);
        console.error(`${name}: ${rate} Mbit/s, ${roundTripMs} ms`);
      }
    }
    await Promise.all(pages.map((page) => page.close()));
  }
});
