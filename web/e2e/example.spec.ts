// The package on pages without a bundler, served beside what `npm run package` makes: examples/page, and README's lines.

import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { build } from 'vite';
import { expect, test } from './fixtures.js';
import { Server } from './server.js';

const repository = path.resolve(import.meta.dirname, '../..');
let folder: string;
let server: Server;

test.beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'outrider-'));
  const outDir = path.join(folder, 'outrider');
  const root = path.join(repository, 'web');
  // Of the four builds of the engine, those that the tests have made.
  process.env.OUTRIDER_SOME_BUILDS = '1';
  await build({ root, mode: 'package', logLevel: 'warn', build: { outDir, emptyOutDir: true } });
  server = await Server.start([], folder);
});

test.afterAll(async () => {
  await server?.kill();
  await rm(folder, { recursive: true });
});

test('a plain page drafts with the package', async ({ page }) => {
  await copyFile(path.join(repository, 'examples/page/index.html'), path.join(folder, 'index.html'));
  await page.goto(server.url);
  await expect(page.locator('#status')).toHaveText(/^Ready: /);
  await page.getByRole('button', { name: 'Generate' }).click();
  await expect(page.locator('#status')).toHaveText(/^\d+ tokens, [01]\.\d\d forward passes/);
  expect(await page.locator('#text').textContent()).toMatch(/[a-z]{3}/);
  // By default drafts are made ahead of the server.
  expect(await page.locator('#text [data-origin]').count()).toBeGreaterThan(0);
  expect(await page.locator('#text').locator('[data-origin="resampled"], [data-origin="bonus"]').count()).toBe(0);
});

test('README’s lines run as they are', async ({ page }) => {
  const readme = await readFile(path.join(repository, 'README.md'), 'utf8');
  const lines = /```ts\n([^]*?)```/.exec(readme)?.[1]?.replace("'outrider'", "'./outrider/outrider.js'");
  const script = `${lines}document.title = \`\${tokensPerSecond} \${serverPassesPerToken}\`;`;
  await writeFile(path.join(folder, 'readme.html'), `<body><script type="module">${script}</script></body>`);
  await page.goto(`${server.url}/readme.html`);
  await expect(page).toHaveTitle(/^\d+[.\d]* (0\.\d+|1)$/);
  expect(await page.locator('body').textContent()).toMatch(/[a-z]{3}/);
});
