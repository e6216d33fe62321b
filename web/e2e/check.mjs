// node e2e/check.mjs URL [--screenshot FILE]
//
// Opens the page at URL in Chromium (CHROMIUM_PATH, else /usr/bin/chromium), has a text as a visitor would, generates
// 64 tokens in rounds of K-SQS, which have all the figures, and prints, one `name value` per line: tokens, tokens_per_second, acceptance_rate, uplink_bits_per_drafted_token and
// server_passes_per_token. Exits with 0 if there is text and every number is finite; otherwise it says in one
// sentence why not, and exits with 1.

import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { chromiumArgs, chromiumPath } from './chromium.mjs';

const TOKENS = 64;
const LOAD_MS = 60_000;
const RUN_MS = 120_000;
/** A text may end early; then another seed gets its chance. */
const SEEDS = 8;

const printed = {
  tokens: 'tokens',
  tokens_per_second: 'tokensPerSecond',
  acceptance_rate: 'acceptanceRate',
  uplink_bits_per_drafted_token: 'uplinkBitsPerDraftedToken',
  server_passes_per_token: 'serverPassesPerToken',
};

/** An end that is explained by its message alone. */
class Refusal extends Error {}

try {
  await check();
} catch (error) {
  const sentence = error instanceof Refusal ? error.message : `The check itself failed: ${firstLine(error)}.`;
  console.error(sentence);
  process.exitCode = 1;
}

async function check() {
  const { url, screenshot } = readArguments();
  const browser = await chromium
    .launch({ executablePath: chromiumPath, args: chromiumArgs })
    .catch((error) => {
      throw new Refusal(`Chromium could not be started from ${chromiumPath}: ${firstLine(error)}.`);
    });
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 960 } });
    const address = new URL(url);
    address.searchParams.set('maxNewTokens', String(TOKENS));
    await page.goto(address.href).catch((error) => {
      throw new Refusal(`The page at ${url} could not be opened: ${firstLine(error)}.`);
    });
    await reach(page, 'ready', LOAD_MS, 'get its draft model ready');

    await page.click('#generate');
    await reach(page, 'finished', RUN_MS, 'finish generating');
    if ((await shownText(page)) === '') throw new Refusal('The page generated no text.');

    await page.selectOption('#scheme', 'k-sqs');
    for (let seed = 1; ; seed++) {
      await page.fill('#seed', String(seed));
      await page.click('#generate');
      await reach(page, 'finished', RUN_MS, 'finish generating');
      if ((await page.locator('#output [data-token-id]').count()) >= TOKENS || seed === SEEDS) break;
    }
    if (screenshot) await page.screenshot({ path: screenshot });
    await report(page);
  } finally {
    await browser.close();
  }
}

/** Waits until the page is in `state`; a failed page has said why. */
async function reach(page, state, timeout, deed) {
  await page
    .waitForSelector(`main[data-state="${state}"], main[data-state="failed"]`, { timeout })
    .catch(() => {
      throw new Refusal(`The page did not ${deed} within ${timeout / 1000} s.`);
    });
  const complaint = (await page.textContent('#alert'))?.trim();
  if (complaint) throw new Refusal(`The page says: ${complaint}`);
}

async function shownText(page) {
  return (await page.locator('#output [data-token-id]').allTextContents()).join('').trim();
}

/** Prints the numbers and refuses empty text and numbers that are none. */
async function report(page) {
  const missing = [];
  for (const [name, counter] of Object.entries(printed)) {
    const value = await page.getAttribute(`[data-counter="${counter}"]`, 'data-value');
    console.log(`${name} ${value || 'none'}`);
    if (!value || !Number.isFinite(Number(value))) missing.push(name);
  }
  if ((await shownText(page)) === '') throw new Refusal('The page generated no text.');
  if (missing.length > 0) throw new Refusal(`No finite number stands for ${missing.join(', ')}.`);
}

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { screenshot: { type: 'string' } },
    });
    const [url, ...rest] = positionals;
    if (!url || rest.length > 0 || !URL.canParse(url)) throw new Error('one URL is expected');
    return { url, screenshot: values.screenshot };
  } catch (error) {
    throw new Refusal(`Usage: node e2e/check.mjs URL [--screenshot FILE] (${firstLine(error)}).`);
  }
}

function firstLine(error) {
  return String(error instanceof Error ? error.message : error)
    .split('\n', 1)[0]
    .replace(/\.$/, '');
}
