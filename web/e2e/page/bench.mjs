// node e2e/page/bench.mjs URL FILE [quick]
//
// The browser's part of `cargo xtask bench page`: visits to the demo page of the server at URL in Chromium, behind a proxy
// that is as slow as a link and counts bytes. A cold visit is the first of a profile, a warm one the second. Links take
// turns. Writes FILE.

import { writeFileSync } from 'node:fs';
import { chromiumArgs, inChromium } from '../chromium.mjs';
import { Proxy } from '../proxy.mjs';

const [url, file, quick] = process.argv.slice(2);
const repeats = quick ? 1 : 5;

/** Lighthouse's slow 4G, and WebPageTest's 4G. */
const links = [
  { name: 'none', bitsPerSecond: null, roundTripMs: 0 },
  { name: '4G', bitsPerSecond: 9e6, roundTripMs: 170 },
  { name: 'slow 4G', bitsPerSecond: 1.6e6, roundTripMs: 150 },
];

/** What an address belongs to. */
function partOf(path) {
  if (path.startsWith('/pair/')) return 'model';
  if (path === '/session') return 'session';
  return /\.wasm$|\/(worker|outrider)[^/]*\.js$/.test(path) ? 'engine' : 'page';
}

/**
 * In the page, before anything else: asks in the chat as soon as that is there, and notes the answer's first token and
 * when the draft model is ready.
 */
function watch() {
  globalThis.times = {};
  let asked = false;
  const look = () => {
    const { times } = globalThis;
    if (!asked) {
      const starter = document.querySelector('#chat[data-phase] #starters button');
      asked = starter !== null;
      starter?.click();
    }
    if (times.tokenMs === undefined && document.querySelector('.answer .bubble')?.textContent.trim()) {
      times.tokenMs = performance.now();
    }
    if (times.readyMs === undefined && document.getElementById('load-text')?.textContent.startsWith('Draft ready')) {
      times.readyMs = performance.now();
    }
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true });
}

/** One visit; `bytes` is what has come until the page was ready. */
async function visit(context, proxy) {
  const page = await context.newPage();
  await page.addInitScript(watch);
  proxy.received.clear();
  await page.goto(`${proxy.url}/#chat`, { waitUntil: 'commit' });
  const until = (name) =>
    page.waitForFunction((name) => globalThis.times?.[name] !== undefined, name, { timeout: 120_000 });
  await until('readyMs');
  const bytes = { page: 0, engine: 0, model: 0, session: 0 };
  for (const [path, count] of proxy.received) bytes[partOf(path)] += count;
  await until('tokenMs');
  const { readyMs, tokenMs } = await page.evaluate(() => globalThis.times);
  const paintMs = await page.evaluate(
    () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null,
  );
  await page.close();
  return { paintMs, readyMs, tokenMs, bytes };
}

await inChromium(chromiumArgs, async (browser) => {
  const measured = links.map((link) => ({ ...link, cold: [], warm: [] }));
  // The first visit of all is not counted: it starts Chromium's processes.
  for (let turn = -1; turn < repeats; turn++) {
    for (const link of turn < 0 ? measured.slice(0, 1) : measured) {
      const { bitsPerSecond, roundTripMs } = link;
      const proxy = await Proxy.before(url, { bitsPerSecond: bitsPerSecond ?? Infinity, roundTripMs });
      const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
      const [cold, warm] = [await visit(context, proxy), await visit(context, proxy)];
      await context.close();
      proxy.close();
      if (turn < 0) continue;
      link.cold.push(cold);
      link.warm.push(warm);
      console.error(`${link.name}: cold ${Math.round(cold.readyMs)} ms, warm ${Math.round(warm.readyMs)} ms`);
    }
  }
  writeFileSync(file, `${JSON.stringify({ browser: browser.version(), links: measured }, null, 1)}\n`);
});
