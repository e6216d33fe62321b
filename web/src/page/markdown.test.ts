// @vitest-environment happy-dom

import { expect, test } from 'vitest';
import { renderMarkdown } from './markdown.js';

function rendered(text: string): HTMLElement {
  const place = document.createElement('div');
  place.append(renderMarkdown(text));
  return place;
}

test('what looks like a tag is text', () => {
  for (const text of [
    'A Vec<String> is a list. If a<b and c>d then <T> is generic.',
    'Use the <div> tag, <input> and <script>alert(1)</script>.',
    '<your name>',
    '<!-- a comment -->',
  ]) {
    expect(rendered(text).textContent.trim()).toBe(text);
  }
  expect(rendered('<div>\n**bold** <img src=x onerror="hurt()">\n</div>').querySelector('strong')).not.toBeNull();
});

test('line breaks, sub- and superscripts have no other form', () => {
  const place = rendered('H<sub>2</sub>O, m<sup>2</sup>\n\n| a |\n|---|\n| one<br>two |');
  expect(place.querySelectorAll('sub, sup, td br')).toHaveLength(3);
});

test('each block has the direction of its own text, and code has none', () => {
  const place = rendered('Hello\n\n> quoted\n\n- one\n\n```\ncode\n```');
  const direction = (tag: string) => place.querySelector(tag)?.getAttribute('dir');
  expect(['blockquote', 'ul', 'pre'].map(direction)).toEqual(['auto', 'auto', 'ltr']);
});

test('boxes and images are shown by signs and words', () => {
  const place = rendered('- [ ] to do\n- [x] done\n\n![a <b> cat](https://example.org/cat.png)');
  expect([...place.querySelectorAll('li')].map((item) => item.textContent.trim())).toEqual(['☐ to do', '☑ done']);
  expect(place.querySelector('p')?.textContent).toBe('a <b> cat');
  expect(place.querySelectorAll('img, input')).toHaveLength(0);
});
