// The package as it is installed: packed, put into a fresh project, bundled, and drafting for a real server of another
// origin. The whole matrix runs with OUTRIDER_FULL, as `cargo xtask test --full` sets it.

import { readFile, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import type { Page } from '@playwright/test';
import { violations } from '../axe.js';
import { builds, chosenBuild, isFull } from '../built.js';
import { isolation } from '../edge/serve.mjs';
import { expect, test } from '../fixtures.js';
import { nativeTokenIds, Server } from '../server.js';
import { openInFirefox, openInWebKit } from './browsers.js';
import { bundlers } from './bundlers.js';
import { develop, run, serving, Tarball } from './project.js';

const plain = {};
const buildOn = (headers: Record<string, string>): string => chosenBuild(headers === isolation, availableParallelism());

/** Apps of the folder `examples`: the variable that has the server's address, and the options of their own server. */
const examples = [
  ['vite-react', 'VITE_OUTRIDER_SERVER', '--host 127.0.0.1 --strictPort'],
  ['nextjs', 'NEXT_PUBLIC_OUTRIDER_SERVER', '--hostname 127.0.0.1'],
  ['sveltekit', 'VITE_OUTRIDER_SERVER', '--host 127.0.0.1 --strictPort'],
  ['chat-element', 'VITE_OUTRIDER_SERVER', '--host 127.0.0.1 --strictPort'],
] as const;

/** Largest size of the packed package, in bytes. */
const MOST_BYTES = 8_000_000;

let tarball: Tarball;
/** The package with one build, where `tarball` has all four. */
let single: Tarball | null = null;
let server: Server;
let expected: string;

test.beforeAll(async () => {
  test.setTimeout(120_000);
  tarball = await Tarball.pack();
  if (isFull) single = await Tarball.pack('simd128');
  server = await Server.start(['--allow-origin', '*'], tarball.folder);
  const greedy = { prompt: 'Once upon a time', maxTokens: 12, seed: 1, cloudOnly: true };
  const ids = await nativeTokenIds(server, { ...greedy, supportSize: 32, latticeResolution: 100, draftLength: 4 });
  expected = ids.join();
});

test.afterAll(async () => {
  await server?.kill();
  await tarball?.remove();
  await single?.remove();
});

for (const bundler of bundlers.filter(({ isQuick }) => isFull || isQuick)) {
  test(`${bundler.name} bundles it, and serves it while a page is written`, async ({ page }) => {
    test.setTimeout(5 * 60_000);
    const folder = await tarball.install(bundler.name, bundler.project, bundler.packages);
    await develop(folder, bundler.develop, async (url) => {
      expect(await draft(page, url)).toEqual({ build: buildOn(plain), failed: '[]', ids: expected });
    });
    await run(bundler.build, folder);
    // While a page is written it is not isolated.
    for (const headers of isFull ? [plain, isolation] : [isolation]) {
      await serving(path.join(folder, bundler.output), headers, async (url) => {
        expect(await draft(page, url)).toEqual({ build: buildOn(headers), failed: '[]', ids: expected });
        if (bundler.project !== 'next') return;
        // Rendered without a browser first.
        await page.goto(`${url}/entries.html?${new URLSearchParams({ server: server.url })}`);
        await expect(page.getByRole('log')).toBeVisible();
        await expect(page.locator('#state')).toHaveText('ready');
      });
    }
  });
}

for (const bundler of isFull ? bundlers : []) {
  test(`${bundler.name} bundles the package with one build`, async ({ page }) => {
    test.setTimeout(5 * 60_000);
    const folder = await single!.install(bundler.name, bundler.project, bundler.packages);
    await run(bundler.build, folder);
    await serving(path.join(folder, bundler.output), plain, async (url) => {
      expect(await draft(page, url)).toEqual({ build: 'simd128', failed: '[]', ids: expected });
    });
  });
}

for (const [name, variable, options] of isFull ? examples : []) {
  test(`the example ${name} builds, and holds a conversation, also while it is written`, async ({ page }) => {
    test.setTimeout(8 * 60_000);
    const folder = await tarball.installExample(name);
    await writeFile(path.join(folder, '.env'), `${variable}=${server.url}\n`);
    const command = (script: string) => (port: number) => `npm run ${script} -- ${options} --port ${port}`;
    const isElement = name === 'chat-element';
    const talk = isElement ? converseInElement : converse;
    await develop(folder, command('dev'), async (url) => {
      await talk(page, url);
      if (!isElement) await recover(page, url);
    });
    await run('npm run build', folder);
    await develop(folder, command('start'), async (url) => {
      await talk(page, url);
      // SvelteKit's own server of the built files adds no headers.
      expect(await page.evaluate(() => crossOriginIsolated)).toBe(name !== 'sveltekit' && !isElement);
      expect(await violations(page)).toEqual([]);
    });
  });
}

/** Sends two messages to an example, which answers them, and loads the engine. */
async function converse(page: Page, url: string): Promise<void> {
  const engine = page.waitForResponse((response) => response.url().includes('.wasm'));
  await page.goto(url);
  const send = page.getByRole('button', { name: 'Send' });
  for (const [turn, said] of ['Once upon a time', 'And then?'].entries()) {
    await expect(send).toBeEnabled({ timeout: 30_000 });
    await page.getByLabel('Message').fill(said);
    await send.click();
    await expect(page.locator('[data-role="user"]').nth(turn)).toHaveText(said);
    await expect(page.locator('[data-role="assistant"]').nth(turn)).toHaveText(/[a-z]{3}/);
    await expect(page.getByRole('status')).toHaveText(/\d+ forward passes of the server$/, { timeout: 30_000 });
  }
  await expect(send).toBeEnabled();
  await expect(page.getByRole('alert').filter({ hasText: /./ })).toHaveCount(0);
  expect((await engine).headers()['content-type']).toBe('application/wasm');
}

/** Does the same in the example of the chat element. */
async function converseInElement(page: Page, url: string): Promise<void> {
  const engine = page.waitForResponse((response) => response.url().includes('.wasm'));
  await page.goto(url);
  const [send, messages] = [page.getByRole('button', { name: 'Send' }), page.getByRole('log').locator('p')];
  for (const [turn, said] of ['Once upon a time', 'And then?'].entries()) {
    await page.getByLabel('Message').fill(said);
    await send.click();
    await expect(messages.nth(2 * turn)).toHaveText(`You: ${said}`);
    await expect(messages.nth(2 * turn + 1)).toHaveText(/^Assistant: .*[a-z]{3}/s);
    await expect(send).toBeVisible({ timeout: 30_000 });
  }
  await expect(messages).toHaveCount(4);
  await expect(page.getByRole('alert').filter({ hasText: /./ })).toHaveCount(0);
  expect((await engine).headers()['content-type']).toBe('application/wasm');
}

/** Sends what an example cannot answer, which comes back into the input, and stops an answer. */
async function recover(page: Page, url: string): Promise<void> {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(url);
  const [send, stop] = ['Send', 'Stop'].map((name) => page.getByRole('button', { name, exact: true }));
  const [input, said] = [page.getByLabel('Message'), page.locator('[role="log"] [data-role]')];
  const tooLong = 'long '.repeat(2000);
  await input.fill(tooLong);
  await send!.click();
  await expect(page.getByRole('alert').filter({ hasText: / 512 tokens|at most \d+ fit/ })).toBeVisible({
    timeout: 30_000,
  });
  await expect(input).toHaveValue(tooLong);
  await expect(said).toHaveCount(0);
  await input.fill(`שלום ${'x'.repeat(60)}`);
  await send!.click();
  await expect(said).toHaveCount(2);
  await expect(said.last()).toHaveText(/[a-z]{3}/);
  await expect(page.getByRole('alert').filter({ hasText: /./ })).toHaveCount(0);
  expect(await said.first().evaluate((bubble) => getComputedStyle(bubble).direction)).toBe('rtl');
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  await expect(send!).toBeEnabled({ timeout: 30_000 });
  await input.fill('And then?');
  await send!.click();
  await stop!.evaluate((stop: HTMLButtonElement) => {
    stop.focus();
    stop.click();
  });
  await expect(send!).toBeEnabled();
  await expect(input).toBeFocused();
}

test('a bundle that is no module is told where the engine is, or says that it has to be', async ({ page }) => {
  const folder = await tarball.install('classic', 'webpack', ['esbuild']);
  await run('esbuild main.js --bundle --format=iife --outdir=. --allow-overwrite --log-level=error', folder);
  await serving(folder, plain, async (url) => {
    expect((await draft(page, url)).error).toMatch(/^invalid-option: .*wasmUrl/);
    const told = await draft(page, url, { wasmUrl: 'node_modules/outrider/npm' });
    expect(told).toEqual({ build: buildOn(plain), failed: '[]', ids: expected });
  });
});

test('README’s policy is all that a page needs', async ({ page }) => {
  const folder = await tarball.install('policy', 'esbuild', ['esbuild']);
  await run(bundlers.find(({ name }) => name === 'esbuild')?.build ?? '', folder);
  const readme = await readFile(path.join(folder, 'node_modules/outrider/README.md'), 'utf8');
  const policy = /Content-Security-Policy: ([^`]*)/.exec(readme)?.[1] ?? '';
  const forServer = policy
    .replace(/\s+/g, ' ')
    .replace('https://models.example.com', server.url)
    .replace('wss://models.example.com', server.url.replace('http', 'ws'));
  const withPolicy = { ...isolation, 'content-security-policy': forServer };
  await serving(path.join(folder, 'dist'), withPolicy, async (url) => {
    expect(await draft(page, url)).toEqual({ build: buildOn(isolation), failed: '[]', ids: expected });
  });
});

test('it can be published, with what a page needs and whoever bundles it', async () => {
  const { files, size } = await tarball.publishDryRun();
  const names = files.map((file) => file.path).filter((name) => !name.startsWith('npm/types/'));
  const modules = builds.map((build) => `npm/${build}.wasm`);
  const scripts = ['ai-sdk.js', 'chat-element.js', 'outrider.js', 'react.js', 'worker.js'].flatMap((name) => [
    `npm/${name}`,
    `npm/${name}.map`,
  ]);
  const words = ['LICENSE-APACHE', 'LICENSE-MIT', 'README.md', 'package.json'];
  expect(names.sort()).toEqual([...modules, ...scripts, ...words].sort());
  expect(size).toBeLessThan(MOST_BYTES);

  const repository = path.resolve(import.meta.dirname, '../../..');
  for (const licence of ['LICENSE-APACHE', 'LICENSE-MIT']) {
    const [packed, ours] = await Promise.all(
      ['web', ''].map((folder) => readFile(path.join(repository, folder, licence), 'utf8')),
    );
    expect(packed).toBe(ours);
  }
});

test.describe('a plain page', () => {
  let folder: string;
  test.beforeAll(async () => {
    folder = await tarball.install('plain', 'plain', []);
  });

  test('has types for its editor', async () => {
    const lines = [
      "import { Outrider, OutriderError } from 'outrider';",
      'const load: (options: { wasmUrl: string }) => Promise<Outrider> = Outrider.load;',
      "const code: 'wasm-failed' extends OutriderError['code'] ? true : false = true;",
      // It would be no error if the types were `any`.
      '// @ts-expect-error\nOutrider.load({ server: 1 });',
      "import * as worker from 'outrider/worker.js';",
      'export { code, load, worker };',
    ];
    await writeFile(path.join(folder, 'use.mts'), lines.join('\n'));
    const tsc = path.resolve(import.meta.dirname, '../../node_modules/.bin/tsc');
    for (const module of ['--module nodenext', '--module esnext --moduleResolution bundler']) {
      await run(`${tsc} --noEmit --strict --target es2022 --lib es2023,dom ${module} use.mts`, folder);
    }
  });

  test('imports it by an import map, from its own server', async ({ page }) => {
    for (const headers of [plain, isolation]) {
      await serving(folder, headers, async (url) => {
        expect(await draft(page, url)).toEqual({ build: buildOn(headers), failed: '[]', ids: expected });
      });
    }
  });

  test('imports it from another origin, such as a CDN', async ({ page }) => {
    await serving(path.join(folder, 'node_modules/outrider'), { 'access-control-allow-origin': '*' }, async (cdn) => {
      const imports = { outrider: `${cdn}/npm/outrider.js` };
      const head = `<!doctype html><script type="importmap">${JSON.stringify({ imports })}</script><body></body>`;
      await writeFile(path.join(folder, 'cdn.html'), `${head}<script type="module" src="./main.js"></script>`);
      for (const headers of [plain, isolation]) {
        await serving(folder, headers, async (url) => {
          const drafted = await draft(page, `${url}/cdn.html`);
          expect(drafted).toEqual({ build: buildOn(headers), failed: '[]', ids: expected });
        });
      }
    });
  });

  for (const [browser, open] of isFull
    ? ([
        ['Firefox', openInFirefox],
        ['WebKitGTK', openInWebKit],
      ] as const)
    : []) {
    test(`drafts in ${browser}`, async () => {
      for (const headers of [plain, isolation]) {
        await serving(folder, headers, async (url, files) => {
          const told = new Promise<string>((resolve) => {
            files.on('request', ({ url = '' }) => url.startsWith('/told?') && resolve(url.slice('/told?'.length)));
          });
          const close = await open(`${url}?${new URLSearchParams({ server: server.url, tell: '' })}`);
          test.skip(close === null, `${browser} is not installed`);
          const { ids, failed } = Object.fromEntries(new URLSearchParams(await told));
          await close?.();
          expect({ ids, failed }).toEqual({ ids: expected, failed: '[]' });
        });
      }
    });
  }

  test('whose policy forbids workers from blobs says so, and names the worker', async ({ page }) => {
    const headers = { 'content-security-policy': "worker-src 'self'" };
    await serving(folder, { ...isolation, ...headers }, async (url) => {
      expect((await draft(page, url)).error).toMatch(/^worker-crashed: .*worker-src blob:.*workerUrl/);
      const named = await draft(page, url, { workerUrl: './node_modules/outrider/npm/worker.js' });
      expect(named).toEqual({ build: buildOn(isolation), failed: '[]', ids: expected });
    });
  });

  test('whose engine is elsewhere says where', async ({ page }) => {
    await serving(path.join(folder, 'node_modules'), { 'access-control-allow-origin': '*' }, async (elsewhere) => {
      await serving(folder, plain, async (url) => {
        const lost = await draft(page, url, { wasmUrl: './gone' });
        expect(lost.error).toMatch(/^wasm-failed: .*\/gone\/\w+\.wasm answers 404; the option wasmUrl/);
        const found = await draft(page, url, { wasmUrl: `${elsewhere}/outrider/npm` });
        expect(found).toEqual({ build: buildOn(plain), failed: '[]', ids: expected });
      });
    });
  });
});

/** Reads what app.js reports about its text. */
async function draft(page: Page, url: string, options: Record<string, string> = {}): Promise<DOMStringMap> {
  await page.goto(`${url}?${new URLSearchParams({ server: server.url, ...options })}`);
  const ended = page.locator('body[data-ids], body[data-error]');
  await expect(ended).toHaveCount(1, { timeout: 60_000 });
  return ended.evaluate(({ dataset }) => ({ ...dataset }));
}
