// The package on a page without a bundler: examples/page, served beside what `npm run package` makes.

import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { build } from 'vite';
import { expect, test } from './fixtures.js';
import { Server } from './server.js';

const web = path.resolve(import.meta.dirname, '..');

test('a plain page drafts with the package', async ({ page }) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'outrider-'));
  await copyFile(path.join(web, '../examples/page/index.html'), path.join(folder, 'index.html'));
  const outDir = path.join(folder, 'outrider');
  await build({ root: web, mode: 'package', logLevel: 'warn', build: { outDir, emptyOutDir: true } });
  const server = await Server.start([], folder);
  try {
    await page.goto(server.url);
    await expect(page.locator('#status')).toHaveText(/^Ready: /);
    await page.getByRole('button', { name: 'Generate' }).click();
    await expect(page.locator('#status')).toHaveText(/^\d+ tokens, 0\.\d\d forward passes/);
    expect(await page.locator('#text').textContent()).toMatch(/[a-z]{3}/);
    expect(await page.locator('#text [data-origin="accepted"]').count()).toBeGreaterThan(0);
  } finally {
    await server.kill();
    await rm(folder, { recursive: true });
  }
});
