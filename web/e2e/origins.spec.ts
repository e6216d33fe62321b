// A page of another origin at a real server that does not let it in: the error's code and sentence, the number of
// requests until it comes, and the lines in the page's console.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { Server as FileServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Page } from '@playwright/test';
import { build } from 'vite';
import type { OutriderError } from '../src/outrider/index.js';
import { serve } from './edge/serve.mjs';
import { expect, test } from './fixtures.js';
import { Server } from './server.js';

/** The options of `load()` that name a file of the pair, and its path. */
const files = {
  draft: 'pair/draft',
  tokenizer: 'pair/tokenizer.json',
  heads: 'pair/heads.safetensors',
  chat: 'pair/chat.json',
} as const;

/** Pauses before the attempts of a download, in milliseconds: an error after all of them comes too late. */
const PAUSES_MS = 250 + 1000 + 3000;

/** Most requests for one file: after the first the server is asked whether it is there. */
const MOST_REQUESTS = 2;

/** Console lines of Chromium for a request whose answer the page may not read. Those of a worker are not reported. */
const LINES = 2;

let folder: string;
let server: Server;
let pages: FileServer;
/** The origin of the page. */
let origin: string;

test.beforeAll(async () => {
  test.setTimeout(120_000);
  folder = await mkdtemp(path.join(tmpdir(), 'outrider-'));
  const [root, outDir] = [path.resolve(import.meta.dirname, '..'), path.join(folder, 'outrider')];
  process.env['OUTRIDER_SOME_BUILDS'] = '1';
  await build({ root, mode: 'package', logLevel: 'warn', build: { outDir, emptyOutDir: true } });
  const script = "import * as api from './outrider/outrider.js'; Object.assign(window, { api });";
  await writeFile(
    path.join(folder, 'index.html'),
    `<!doctype html><link rel="icon" href="data:," /><script type="module">${script}</script>`,
  );
  server = await Server.start();
  await mkdir(path.join(folder, 'pair'));
  for (const file of Object.values(files)) {
    // A program sends no `Origin`, and is let in.
    const response = await fetch(`${server.url}/${file}`);
    if (response.ok) await writeFile(path.join(folder, file), Buffer.from(await response.arrayBuffer()));
  }
  // Isolated: such a page sees the least of other origins.
  pages = await serve([['/', folder]]);
  origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`;
});

test.afterAll(async () => {
  pages?.closeAllConnections();
  pages?.close();
  await server?.kill();
  await rm(folder, { recursive: true });
});

/** An error as the page has it, and the milliseconds until it came. */
interface Refusal {
  code: string;
  message: string;
  ms: number;
}

/** The refusal by a server. */
function refusalBy({ url }: Server): Omit<Refusal, 'ms'> {
  const message = `${url} does not let pages of ${origin} in (--allow-origin)`;
  return { code: 'origin-refused', message };
}

/** Opens the page, and collects the paths that it asks other origins for, and the lines of its console. */
async function open(page: Page): Promise<{ requests: string[]; lines: string[] }> {
  const [requests, lines]: [string[], string[]] = [[], []];
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.protocol === 'http:' && url.origin !== origin) requests.push(url.pathname);
  });
  page.on('console', (line) => lines.push(line.text()));
  await page.goto(origin);
  await page.waitForFunction(() => window.api !== undefined);
  return { requests, lines };
}

/** Options of `load()` that a test can send into the page. */
type Addresses = { server: string; wait?: 'draft' } & Partial<Record<keyof typeof files, string>>;

/** Loads, which has to fail. */
function load(page: Page, options: Addresses): Promise<Refusal> {
  return page.evaluate(async (options) => {
    const started = performance.now();
    const error = await window.api.Outrider.load(options).then(
      ({ mode }) => ({ code: 'none', message: `it has loaded: ${mode}` }),
      (error: OutriderError) => error,
    );
    const { code, message } = error;
    return { code, message, ms: performance.now() - started };
  }, options);
}

test('the first question to the server is refused', async ({ page }) => {
  const { requests, lines } = await open(page);
  const { ms, ...refusal } = await load(page, { server: server.url });
  expect(refusal).toEqual(refusalBy(server));
  expect(ms).toBeLessThan(PAUSES_MS);
  expect(requests).toEqual(['/v1/info', '/healthz']);
  expect(lines).toHaveLength(LINES);
});

for (const [option, file] of Object.entries(files)) {
  test(`the file of the option ${option} is refused`, async ({ page }) => {
    const { requests } = await open(page);
    const options = { ...files, [option]: `${server.url}/${file}`, server: server.url };
    const { ms, ...refusal } = await load(page, { ...options, wait: 'draft' });
    expect(refusal).toEqual(refusalBy(server));
    expect(ms).toBeLessThan(PAUSES_MS);
    expect(requests).toEqual([`/${file}`, '/healthz', `/${file}`]);
  });
}

test('all files of the pair are refused', async ({ page }) => {
  const { requests } = await open(page);
  const { ms, ...refusal } = await load(page, { server: server.url, wait: 'draft' });
  expect(refusal).toEqual(refusalBy(server));
  expect(ms).toBeLessThan(PAUSES_MS);
  for (const file of Object.values(files)) {
    expect(requests.filter((path) => path === `/${file}`).length, file).toBeLessThanOrEqual(MOST_REQUESTS);
  }
});

test('the session is refused, with files of the page’s own', async ({ page }) => {
  await open(page);
  const { ms, ...refusal } = await load(page, { ...files, server: server.url, wait: 'draft' });
  expect(refusal).toEqual(refusalBy(server));
  expect(ms).toBeLessThan(PAUSES_MS);
});

test('texts of the server alone and its API are refused, once it lets the page in no more', async ({ page }) => {
  await using server = await Server.start(['--allow-origin', '*']);
  const { lines } = await open(page);
  await page.evaluate(async (server) => {
    // Without an engine the server writes alone.
    window.outrider = await window.api.Outrider.load({ server, wasmUrl: './gone', onFallback: () => {} });
    await window.outrider.ready;
  }, server.url);
  await server.kill();
  await server.startAgain();
  lines.length = 0;
  const { ms, ...refusal } = await page.evaluate(async () => {
    const started = performance.now();
    const error = await window.outrider.generate('Once', { maxNewTokens: 4 }).summary.then(
      ({ text }) => ({ code: 'none', message: text }),
      (error: OutriderError) => error,
    );
    const { code, message } = error;
    return { code, message, ms: performance.now() - started };
  });
  expect.soft(refusal).toEqual(refusalBy(server));
  expect.soft(ms).toBeLessThan(PAUSES_MS);
  expect.soft(lines.length).toBeLessThanOrEqual(LINES);
  // The second needs scores of the prompt, for which the server's own API is asked.
  for (const more of [{}, { echo: true }]) {
    lines.length = 0;
    const { ms, error } = await page.evaluate(async (more) => {
      const started = performance.now();
      const body = JSON.stringify({ prompt: 'Once', max_tokens: 4, ...more });
      const url = 'https://outrider.invalid/v1/completions';
      const response = await window.outrider.fetch(url, { method: 'POST', body });
      const { error } = (await response.json()) as { error?: Omit<Refusal, 'ms'> };
      return { ms: performance.now() - started, error };
    }, more);
    expect.soft(error, JSON.stringify(more)).toMatchObject(refusalBy(server));
    expect.soft(ms).toBeLessThan(PAUSES_MS);
    expect.soft(lines.length).toBeLessThanOrEqual(LINES);
  }
});
