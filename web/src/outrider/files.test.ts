import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { asInstalled, engineAddresses, startWorker } from './files.js';

const started: { address: string; options: WorkerOptions }[] = [];

beforeEach(() => {
  started.length = 0;
  vi.stubGlobal('location', new URL('https://example.org/page/'));
  vi.stubGlobal(
    'Worker',
    class {
      constructor(address: string | URL, options: WorkerOptions) {
        started.push({ address: String(address), options });
      }
    },
  );
});
afterEach(() => vi.unstubAllGlobals());

test('the engine is beside the code, or in the folder that was named', () => {
  expect(engineAddresses(undefined).relaxed).toMatch(/^file:.*\/relaxed\//);
  expect(engineAddresses('engine')).toEqual({
    'relaxed-threads': 'https://example.org/page/engine/relaxed-threads.wasm',
    'simd128-threads': 'https://example.org/page/engine/simd128-threads.wasm',
    relaxed: 'https://example.org/page/engine/relaxed.wasm',
    simd128: 'https://example.org/page/engine/simd128.wasm',
  });
  expect(engineAddresses(new URL('https://cdn.example.com/npm/')).simd128).toBe(
    'https://cdn.example.com/npm/simd128.wasm',
  );
});

test('where Vite moves the code in development, the files are where they were installed', () => {
  const moved = 'http://localhost:5173/node_modules/.vite/deps/relaxed.wasm';
  expect(asInstalled(moved)).toBe('http://localhost:5173/node_modules/outrider/npm/relaxed.wasm');
  const elsewhere = 'https://example.org/assets/relaxed-1a2b.wasm';
  expect(asInstalled(elsewhere)).toBe(elsewhere);
});

test('the worker starts from its own source, always the same, or from where it is said to be', () => {
  startWorker(undefined);
  startWorker(undefined);
  startWorker('./worker.js');
  const [first, second, named] = started.map(({ address }) => address);
  expect(first).toMatch(/^blob:/);
  expect(second).toBe(first);
  expect(named).toBe('https://example.org/page/worker.js');
  expect(started.map(({ options }) => options.type)).toEqual(['module', 'module', 'module']);
});

test('where a page has Trusted Types, the worker’s address is of the policy that it may allow', async () => {
  const createPolicy = vi.fn((_: string, rules: { createScriptURL(address: string): string }) => ({
    createScriptURL: (address: string) => `trusted ${rules.createScriptURL(address)}`,
  }));
  vi.stubGlobal('trustedTypes', { createPolicy });
  const fresh = async () => {
    vi.resetModules();
    return (await import('./files.js')).startWorker;
  };
  const start = await fresh();
  start('./worker.js');
  start('./worker.js');
  expect(started.map(({ address }) => address)).toEqual(Array(2).fill('trusted https://example.org/page/worker.js'));
  // A second policy of the name would be refused.
  expect(createPolicy.mock.calls.map(([name]) => name)).toEqual(['outrider']);
  createPolicy.mockImplementation(() => {
    throw new TypeError('not allowed');
  });
  (await fresh())('./worker.js');
  expect(started.at(-1)?.address).toBe('https://example.org/page/worker.js');
});
