// node e2e/check.mjs URL [--screenshots DIR]
//
// Opens the page at URL in Chromium (CHROMIUM_PATH, else /usr/bin/chromium), has a text as a visitor would, generates
// 64 tokens in rounds of K-SQS, which have all the figures, and prints, one `name value` per line: tokens, tokens_per_second, acceptance_rate, uplink_bits_per_drafted_token and
// server_passes_per_token. With --screenshots it also races and talks, and leaves page-race.png, page-chat.png,
// page-laboratory.png and the moving page-chat.gif in DIR. Exits with 0 if there is text and every number is finite; otherwise it says in one
// sentence why not, and exits with 1.

import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { chromiumArgs, chromiumPath } from './chromium.mjs';
import { record } from './moving-picture.mjs';

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
  const { url, screenshots } = readArguments();
  const browser = await chromium.launch({ executablePath: chromiumPath, args: chromiumArgs }).catch((error) => {
    throw new Refusal(`Chromium could not be started from ${chromiumPath}: ${firstLine(error)}.`);
  });
  try {
    const page = await browser.newPage({ viewport: { width: 960, height: 720 } });
    await open(page, url, 'laboratory');

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
    await report(page);
    if (screenshots) await take(page, url, screenshots);
  } finally {
    await browser.close();
  }
}

/** Opens a view, and waits for its draft model. */
async function open(page, url, view) {
  const address = new URL(url);
  if (view === 'laboratory') address.searchParams.set('maxNewTokens', String(TOKENS));
  address.hash = view;
  await page.goto(address.href).catch((error) => {
    throw new Refusal(`The page at ${url} could not be opened: ${firstLine(error)}.`);
  });
  await reach(page, 'ready', LOAD_MS, 'get its draft model ready');
}

/** Pictures of the three views, each after it was used. */
async function take(page, url, folder) {
  await mkdir(folder, { recursive: true });
  // From where the views differ on.
  const shoot = async (view, top) => {
    await page.evaluate((top) => {
      const { y } = document.querySelector(top).getBoundingClientRect();
      scrollTo(0, y + scrollY - 8);
    }, top);
    await page.mouse.move(0, 0);
    await page.screenshot({ path: path.join(folder, `page-${view}.png`) });
  };
  await shoot('laboratory', '.compose');
  // Another query, so that the page is loaded anew: what follows begins as a visitor does.
  await open(page, url, 'chat');
  const talk = async () => {
    await page.click('#starters button');
    await page.waitForSelector('#chat[data-phase="comparing"]', { timeout: RUN_MS });
    await page.waitForSelector('#chat[data-phase="idle"]', { timeout: RUN_MS });
  };
  await talk();
  await shoot('chat', '.masthead');
  const chat = await page.locator('#chat').boundingBox();
  const { width, height } = page.viewportSize();
  const clip = { x: 0, y: Math.max(0, chat.y), width, height: Math.min(chat.height, height - Math.max(0, chat.y)) };
  await page.click('#forget');
  await record(page, clip, talk(), path.join(folder, 'page-chat.gif'));
  await page.goto('about:blank');
  await open(page, url, 'race');
  await page.click('#race');
  await page.waitForFunction(() => document.querySelector('#race-sentence').textContent !== '', null, {
    timeout: RUN_MS,
  });
  await shoot('race', '.race');
}

/** Waits until the page is in `state`; a failed page has said why. */
async function reach(page, state, timeout, deed) {
  await page.waitForSelector(`main[data-state="${state}"], main[data-state="failed"]`, { timeout }).catch(() => {
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
    const { values, positionals } = parseArgs({ allowPositionals: true, options: { screenshots: { type: 'string' } } });
    const [url, ...rest] = positionals;
    if (!url || rest.length > 0 || !URL.canParse(url)) throw new Error('one URL is expected');
    return { url, screenshots: values.screenshots };
  } catch (error) {
    throw new Refusal(`Usage: node e2e/check.mjs URL [--screenshots DIR] (${firstLine(error)}).`);
  }
}

function firstLine(error) {
  return String(error instanceof Error ? error.message : error)
    .split('\n', 1)[0]
    .replace(/\.$/, '');
}
