import { expect, test } from 'vitest';
import { modelsSentence, namedDraft, namedTarget } from './models.js';

const toys = { target: 'outrider-target', draft: 'outrider-draft' };
const grown = { ...toys, target: 'outrider-target-at-the-cost-of-135M' };
const real = { target: 'llama-1b', draft: 'llama-135m' };

test('toys are called that, with their sizes', () => {
  expect(namedTarget(toys)).toEqual({ name: 'toy target', size: '7 million parameters' });
  expect(namedDraft(toys, '1.1 MB')).toEqual({ name: 'toy draft', size: '0.9 million parameters, 1.1 MB downloaded' });
  expect(modelsSentence(toys)).toMatch(/are toys, .* answers before a guess can arrive/);
});

test('a target that only costs as much as a large one is said to be that', () => {
  expect(namedTarget(grown).size).toBe('works as hard as one of 135M parameters');
  expect(modelsSentence(grown)).toMatch(/are toys, .* at the cost of a model of 135M parameters/);
});

test('other models go by their names, and nothing is made up of their size', () => {
  expect(namedTarget(real)).toEqual({ name: 'llama-1b', size: '' });
  expect(namedDraft(real, null)).toEqual({ name: 'llama-135m', size: '' });
  expect(modelsSentence(real)).toBe('The server’s model is llama-1b; llama-135m drafts for it here.');
  const alone = { ...real, draft: null };
  expect(namedDraft(alone, null).name).toBe('none: guesses are looked up');
  expect(modelsSentence(alone)).toBe('The server’s model is llama-1b; guesses are looked up in the text.');
});
