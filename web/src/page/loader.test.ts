import { afterEach, expect, test, vi } from 'vitest';
import { askModels, askTemplate } from './loader.js';

afterEach(() => vi.unstubAllGlobals());

/** A server that answers those who have the token. */
function serve(answers: Record<string, unknown>): void {
  vi.stubGlobal('fetch', (path: string, init: RequestInit = {}) => {
    const isKnown = new Headers(init.headers).get('Authorization') === 'Bearer secret';
    return Promise.resolve(isKnown ? Response.json(answers[path]) : Response.json({}, { status: 401 }));
  });
}

test('the server is asked for its models and its chat template with the page’s token', async () => {
  serve({ 'v1/info': { models: { target: 'T' } }, 'pair/chat.json': { template: '{{ messages }}' } });
  expect(await askTemplate('secret')).toBe(true);
  expect(await askModels('secret')).toEqual({ models: { target: 'T' }, elsewhere: [] });
  expect(await askTemplate(null)).toBeNull();
  expect(await askModels(null)).toBeNull();
});

test('without a network the template is the one that an earlier visit has kept', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('failed to fetch')));
  expect(await askTemplate(null)).toBeNull();
  vi.stubGlobal('caches', { match: (path: string) => Promise.resolve(Response.json({ template: path })) });
  expect(await askTemplate(null)).toBe(true);
});

test('a server without a template answers 404; any other failure leaves the question open', async () => {
  for (const [status, expected] of [
    [404, false],
    [429, null],
    [503, null],
  ] as const) {
    vi.stubGlobal('fetch', () => Promise.resolve(Response.json({ error: {} }, { status })));
    expect(await askTemplate(null)).toBe(expected);
  }
});
