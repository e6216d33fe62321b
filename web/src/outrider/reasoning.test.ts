import { expect, test } from 'vitest';
import type { Token } from './edge.js';
import { emptySummary } from './generation.js';
import { ReasoningCounter, ReasoningReader, ReasoningTags, templateReasons } from './reasoning.js';

/** Reads a text in pieces of any length, which give the same reasoning and answer. */
function read(tail: string | null, text: string): string[] {
  const found = Array.from({ length: Math.max(text.length, 1) }, (_, index) => {
    const reader = new ReasoningReader(tail);
    const pieces = text.match(new RegExp(`[^]{1,${index + 1}}`, 'g')) ?? [];
    const parts = [...pieces.map((piece) => reader.push(piece)), reader.finish()];
    return [parts.map(([reasoning]) => reasoning).join(''), parts.map(([, answer]) => answer).join('')];
  });
  for (const other of found) expect(other).toEqual(found[0]);
  return found[0]!;
}

test('reasoning ends at its tag', () => {
  expect(read('', '<think>\nso  so\n</think>\n\nYes </think> no')).toEqual(['so  so', 'Yes </think> no']);
  expect(read('assistant\n<think>\n', 'so < </thin\n</think>Yes')).toEqual(['so < </thin', 'Yes']);
  expect(read('<think>\n\n</think>\n\n', 'Yes')).toEqual(['', 'Yes']);
  expect(read('', ' <thin ice')).toEqual(['', ' <thin ice']);
  expect(read('', '\n<think>cut')).toEqual(['cut', '']);
  expect(read('', '')).toEqual(['', '']);
  expect(read('<think>', '</think>Yes')).toEqual(['', 'Yes']);
  expect(read(null, '<think>so</think>')).toEqual(['', '<think>so</think>']);
});

test('tokens of reasoning are counted with those that have no text', () => {
  const counter = new ReasoningCounter('');
  const texts = ['<think>', '\n', 'so', ' ', 'so', '\n', '</think>', '', 'Yes', '!'];
  const tokens = texts.map((text): Token => ({ id: 1, text, origin: 'accepted' }));
  counter.add({ tokens, statistics: emptySummary, round: null });
  expect(counter.finish()).toBe(5);
});

test('reasoning that the server has separated gets its tags back', () => {
  const written = (...parts: [string, string][]) => {
    const tags = new ReasoningTags();
    return parts.map(([reasoning, text]) => tags.around(reasoning, text)).join('');
  };
  expect(written(['so', ''], [' so', ''], ['', 'Yes'], ['', '!'])).toBe('<think>so so</think>Yes!');
  expect(written(['so', ''], ['', ''])).toBe('<think>so</think>');
  expect(written(['', 'Yes'])).toBe('Yes');
});

test('a template is known by the tag', () => {
  const bytes = (chat: object) => new TextEncoder().encode(JSON.stringify(chat));
  expect(templateReasons(bytes({ template: 'a</think>b' }))).toBe(true);
  for (const chat of [{ template: '<think>' }, { template: null }]) expect(templateReasons(bytes(chat))).toBe(false);
  expect(templateReasons(null)).toBe(false);
});
