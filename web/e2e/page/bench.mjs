// node e2e/page/bench.mjs URL FILE [quick]
//
// The browser's part of `cargo xtask bench page`: visits to the demo page of the server at URL in Chromium, behind a proxy
// that is as slow as a link and counts bytes. A cold visit is the first of a profile, a warm one the second. For
// comparison a page that has loaded nothing else asks the server for a stream, with a bare `fetch`. Links take turns.
// Writes FILE.

import { writeFileSync } from 'node:fs';
import { chromiumArgs, inChromium } from '../chromium.mjs';
import { Proxy } from '../proxy.mjs';

const [url, file, quick] = process.argv.slice(2);
const repeats = quick ? 1 : 5;

/** Slow 4G is Lighthouse's; 4G has WebPageTest's round trip and 10 Mbit/s for its 9; a wired line has no preset. */
const links = [
  { name: 'none', bitsPerSecond: null, roundTripMs: 0 },
  { name: 'wired', bitsPerSecond: 100e6, roundTripMs: 20 },
  { name: '4G', bitsPerSecond: 10e6, roundTripMs: 170 },
  { name: 'slow 4G', bitsPerSecond: 1.6e6, roundTripMs: 150 },
];

/** What an address belongs to. */
function partOf(path) {
  if (path.startsWith('/pair/')) return 'model';
  if (path === '/session') return 'session';
  return /\.wasm$|\/(worker|outrider)[^/]*\.js$/.test(path) ? 'engine' : 'page';
}

/**
 * In the page, before anything else: asks in the chat as soon as that is there, and notes what was asked and when, the
 * answer's first token, and when the draft model is ready.
 */
function watch() {
  globalThis.times = {};
  // An answer of the first visit is no token of the second.
  localStorage.removeItem('outrider.chat');
  const look = () => {
    const { times } = globalThis;
    const starter = document.querySelector('#chat[data-phase] #starters button');
    if (starter && times.askedMs === undefined) {
      Object.assign(times, { message: starter.textContent, askedMs: performance.now() });
      starter.click();
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
  const { message, askedMs, readyMs, tokenMs } = await page.evaluate(() => globalThis.times);
  const paintMs = await page.evaluate(
    () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null,
  );
  await page.close();
  return { message, paintMs, readyMs, tokenMs, answerMs: tokenMs - askedMs, bytes };
}

/** Time from a request to the first token of the server's own stream, in a page that has loaded nothing else. */
async function bareStream(context, proxy, message) {
  const page = await context.newPage();
  await page.goto(`${proxy.url}/healthz`);
  const answerMs = await page.evaluate(async (message) => {
    const body = JSON.stringify({ prompt: message, stream: true });
    const init = { method: 'POST', body, headers: { 'Content-Type': 'application/json' } };
    const asked = performance.now();
    const response = await fetch('/v1/completions', init);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let received = '';
    // The built-in pair continues a story. A token of spaces alone does not count in the chat either.
    const hasText = (event) =>
      event.startsWith('data: {') && JSON.parse(event.slice('data: '.length)).choices[0]?.text.trim();
    while (!received.split('\n\n').slice(0, -1).some(hasText)) {
      const { done, value } = await reader.read();
      if (done) throw new Error(`no token came: ${response.status} ${received}`);
      received += value;
    }
    const answerMs = performance.now() - asked;
    await reader.cancel();
    return answerMs;
  }, message);
  await page.close();
  return answerMs;
}

await inChromium(chromiumArgs, async (browser) => {
  const measured = links.map((link) => ({ ...link, cold: [], warm: [], bare: [] }));
  // The first visit of all is not counted: it starts Chromium's processes.
  for (let turn = -1; turn < repeats; turn++) {
    for (const link of turn < 0 ? measured.slice(0, 1) : measured) {
      const { bitsPerSecond, roundTripMs } = link;
      const proxy = await Proxy.before(url, { bitsPerSecond: bitsPerSecond ?? Infinity, roundTripMs });
      const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
      const [cold, warm] = [await visit(context, proxy), await visit(context, proxy)];
      const answerMs = await bareStream(context, proxy, cold.message);
      await context.close();
      proxy.close();
      if (turn < 0) continue;
      link.cold.push(cold);
      link.warm.push(warm);
      link.bare.push({ answerMs });
      const [first, second, bare] = [cold.answerMs, warm.answerMs, answerMs].map(Math.round);
      console.error(`${link.name}: first token after ${first} ms, warm ${second} ms, bare stream ${bare} ms`);
    }
  }
  writeFileSync(file, `${JSON.stringify({ browser: browser.version(), links: measured }, null, 1)}\n`);
});
