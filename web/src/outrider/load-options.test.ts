import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { sourcesOf } from './load-options.js';

beforeEach(() => vi.stubGlobal('location', new URL('https://example.org/page/')));
afterEach(() => vi.unstubAllGlobals());

test('the name of a model is part of the addresses below the server, and of no other', () => {
  expect(sourcesOf({ server: 'https://host/base', model: 'a/b c' })).toMatchObject({
    draft: 'https://host/base/pair/draft?model=a%2Fb+c',
    tokenizer: 'https://host/base/pair/tokenizer.json?model=a%2Fb+c',
    heads: 'https://host/base/pair/heads.safetensors?model=a%2Fb+c',
    chat: 'https://host/base/pair/chat.json?model=a%2Fb+c',
    session: 'wss://host/base/session?model=a%2Fb+c',
  });
  expect(sourcesOf({ model: 'm', draft: 'small.gguf', tokenizer: 'own/tokenizer.json' })).toMatchObject({
    draft: 'https://example.org/page/small.gguf',
    tokenizer: 'https://example.org/page/own/tokenizer.json',
    heads: null,
    chat: 'https://example.org/page/own/chat.json',
    session: 'wss://example.org/session?model=m',
  });
});
