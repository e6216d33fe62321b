// Several texts at a time on one page, with one copy of the model: each is the text that it is alone.

import { expect, test } from './fixtures.js';
import { bare, buildRecipes } from './recipes.js';
import { Server } from './server.js';

/** In the page: writes the text of each seed, side by side or one after the other, and the order in which tokens came. */
async function write({ seeds, isSideBySide }: { seeds: number[]; isSideBySide: boolean }) {
  const order: number[] = [];
  const text = async (seed: number): Promise<string> => {
    const generation = window.outrider.generate('Once upon a time', { seed, maxNewTokens: 64, temperature: 0.8 });
    for await (const _ of generation) order.push(seed);
    return (await generation.summary).text;
  };
  const texts: string[] = [];
  if (isSideBySide) texts.push(...(await Promise.all(seeds.map(text))));
  else for (const seed of seeds) texts.push(await text(seed));
  return { texts, order };
}

test('texts side by side are those that were written one after the other, and take turns', async ({ page }, info) => {
  await using server = await Server.start([], await buildRecipes([bare], info.outputPath('pages')));
  await page.goto(`${server.url}/bare.html`);
  await expect(page.locator('#ready')).toHaveText('ready');
  const seeds = [1, 2, 3, 4, 5];
  const apart = await page.evaluate(write, { seeds, isSideBySide: false });
  // The first time its sessions begin, too, while the first text is written.
  const begun = await page.evaluate(write, { seeds, isSideBySide: true });
  expect(begun.texts).toEqual(apart.texts);
  const beside = await page.evaluate(write, { seeds, isSideBySide: true });
  expect(beside.texts).toEqual(apart.texts);
  expect(new Set(beside.texts).size).toBe(seeds.length);
  // One after the other there would be a change of the text for each but the first.
  const changes = beside.order.filter((seed, at) => at > 0 && seed !== beside.order[at - 1]);
  expect(changes.length).toBeGreaterThan(2 * seeds.length);
});

test('a text goes on where another is stopped, and a full server makes texts wait', async ({ page }, info) => {
  const pages = await buildRecipes([bare], info.outputPath('pages'));
  await using server = await Server.start(['--max-sessions', '2'], pages);
  await page.goto(`${server.url}/bare.html`);
  await expect(page.locator('#ready')).toHaveText('ready');
  const { texts: alone } = await page.evaluate(write, { seeds: [7, 8, 9], isSideBySide: false });
  const finishes = await page.evaluate(async () => {
    const { outrider } = window;
    const start = (seed: number, maxNewTokens = 64) =>
      outrider.generate('Once upon a time', { seed, maxNewTokens, temperature: 0.8 });
    // The first one is long: it is not to end before it is stopped.
    const [stopped, ...others] = [start(6, 400), ...[7, 8, 9].map((seed) => start(seed))];
    for await (const _ of stopped!) break;
    const { finish } = await stopped!.summary;
    return { finish, texts: await Promise.all(others.map(async ({ summary }) => (await summary).text)) };
  });
  expect(finishes).toEqual({ finish: 'cancelled', texts: alone });
});
