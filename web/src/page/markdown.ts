// Markdown of an answer as safe elements.

import DOMPurify from 'dompurify';
import { Marked } from 'marked';

/** Text as HTML that shows it. */
const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

const marked = new Marked({
  ...{ gfm: true, breaks: true, async: false },
  // Boxes cannot be ticked, and images would be fetched.
  renderer: { checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '), image: ({ text }) => escaped(text) },
  tokenizer: {
    // An answer's HTML is text about HTML, or no HTML at all: Vec<String>. Only what Markdown lacks is taken as a tag.
    html: () => undefined,
    tag: (text) => (/^<(br|\/?su[bp]) *\/?>/i.test(text) ? false : undefined),
  },
});

/** Tags that an answer may have: no images or forms, which would fetch or ask for something. */
const ALLOWED_TAGS = [
  ...['p', 'br', 'hr', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'blockquote', 'pre', 'code', 'ul', 'ol', 'li'],
  ...['a', 'b', 'strong', 'i', 'em', 'del', 'sub', 'sup', 'table', 'thead', 'tbody', 'tr', 'th', 'td'],
];

/** Renders Markdown as elements. HTML but line breaks, sub- and superscripts is shown as text, and links open in a tab of their own. */
export function renderMarkdown(text: string): DocumentFragment {
  const allowed = { ALLOWED_TAGS, ALLOWED_ATTR: ['href', 'title', 'start'], ALLOW_DATA_ATTR: false };
  const rendered = DOMPurify.sanitize(marked.parse(text) as string, { ...allowed, RETURN_DOM_FRAGMENT: true });
  for (const link of rendered.querySelectorAll('a')) {
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
  }
  // The page's own headings are above those of an answer.
  for (const heading of rendered.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
    const paragraph = document.createElement('p');
    const bold = document.createElement('strong');
    bold.append(...heading.childNodes);
    paragraph.append(bold);
    heading.replaceWith(paragraph);
  }
  for (const block of rendered.children) block.setAttribute('dir', block.tagName === 'PRE' ? 'ltr' : 'auto');
  for (const scrolled of rendered.querySelectorAll('pre')) scrolled.tabIndex = 0;
  return rendered;
}
