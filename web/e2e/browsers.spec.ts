// The page in other browsers, where they are installed: it races, and origins are told by more than a colour.

import { expect, test } from './fixtures.js';
import { find, Window } from './webdriver.js';

for (const name of ['Firefox', 'WebKitGTK'] as const) {
  test(`${name}: the race runs, and every origin has an underline of its own`, async ({ server }) => {
    const browser = find(name);
    test.skip('missing' in browser, 'missing' in browser ? `${browser.missing} is not installed` : '');
    if ('missing' in browser) return;
    const window = await Window.open(browser);
    try {
      await window.goto(`${server.url}/?prompt=Once#race`);
      await window.until(`document.querySelector('main[data-state="ready"]')`, 60_000);
      await window.evaluate(`document.getElementById('race').click()`);
      await window.until(`document.getElementById('race-sentence').textContent`, 100_000);
      expect(await window.evaluate(`return document.getElementById('race-sentence').textContent`)).toMatch(
        /Both wrote the same \d+ tokens/,
      );
      const looks = (await window.evaluate(`
        return [...document.querySelectorAll('#legend .token > span')].map((sample) => {
          const style = getComputedStyle(sample);
          const of = (name) =>
            style.getPropertyValue('text-decoration-' + name) ||
            style.getPropertyValue('-webkit-text-decoration-' + name);
          return { line: of('line'), look: of('style') + ' ' + of('thickness') };
        });`)) as { line: string; look: string }[];
      expect(looks.map(({ line }) => line)).toEqual(Array(6).fill('underline'));
      expect(new Set(looks.map(({ look }) => look)).size).toBe(6);
    } finally {
      await window.close();
    }
  });
}
