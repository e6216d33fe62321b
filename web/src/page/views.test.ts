import { expect, test } from 'vitest';
import { viewOf, views } from './views.js';

const of = (hash: string, query = '') => viewOf(hash, new URLSearchParams(query));

test('an address names its view', () => {
  for (const { name } of views) expect(of(`#${name}`, 'scheme=dense')).toBe(name);
});

test('without a name it is the chat, or the laboratory where it has settings that only this shows', () => {
  expect(of('')).toBe('chat');
  expect(of('#output')).toBe('chat');
  expect(of('', 'prompt=Hello&roundTrip=50&token=abc')).toBe('chat');
  expect(of('', 'prompt=Hello&scheme=k-sqs')).toBe('laboratory');
});
