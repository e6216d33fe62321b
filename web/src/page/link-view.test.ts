// @vitest-environment happy-dom

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { openLink } from '../outrider/index.js';
import type { Link } from '../outrider/index.js';

test('the link is cut and connected again beside each list of presets', async () => {
  const html = readFileSync('index.html', 'utf8');
  document.body.innerHTML = html.slice(html.indexOf('<body'), html.indexOf('</body>'));
  const { LinkView } = await import('./link-view.js');
  const links: Link[] = [];
  new LinkView(openLink, (link) => links.push(link));
  const [inForm, beside] = ['#presets', '#chat-presets'].map((list) =>
    document.querySelector<HTMLElement>(`${list} button:last-child`),
  );
  inForm?.click();
  expect([inForm?.textContent, beside?.textContent]).toEqual(['Connect again', 'Connect again']);
  beside?.click();
  expect([inForm?.textContent, beside?.textContent]).toEqual(['Cut the link', 'Cut the link']);
  expect(links.map(({ isCut }) => isCut)).toEqual([true, false]);
});
