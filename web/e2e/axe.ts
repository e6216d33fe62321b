// Rules of accessibility, as axe-core finds them broken.

import type { Page } from '@playwright/test';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Rules that the page breaks, each with the elements that do; `only` names the rules to look at. */
export async function violations(page: Page, only?: string[]): Promise<string[]> {
  // Not by a script element, which a page's policy may forbid.
  await page.evaluate(`${axe}; 0`);
  return page.evaluate(async (only) => {
    const { axe } = globalThis as unknown as {
      axe: { run(options: object): Promise<{ violations: { id: string; nodes: { target: unknown[] }[] }[] }> };
    };
    const found = (await axe.run(only ? { runOnly: only } : {})).violations;
    return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(' ')).join(', ')}`);
  }, only);
}
