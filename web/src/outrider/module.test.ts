import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { simd128Module } from './builds.js';
import { STALL_MS } from './download.js';
import { compileModule } from './module.js';

// Pauses take no time; the limits of stalled transfers are never reached.
beforeAll(() => void vi.stubGlobal('setTimeout', (then: () => void, ms = 0) => ms < STALL_MS && queueMicrotask(then)));
afterAll(() => void vi.unstubAllGlobals());

const address = 'https://example.com/engine.wasm';
const bytes = Uint8Array.from(simd128Module);
const typed = { 'content-type': 'application/wasm' };

/** Answers in turn; the last answer again and again. */
function server(...answers: (() => Response)[]) {
  let asked = 0;
  const request = (): Promise<Response> => {
    const answer = answers[Math.min(asked++, answers.length - 1)];
    return answer ? Promise.resolve().then(answer) : Promise.reject(new Error('no answer'));
  };
  return { request: request as typeof fetch, asked: () => asked };
}

/** Half of the module, then the network is lost. */
function cut(headers: Record<string, string>): Response {
  let begun = false;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (begun) return controller.error(new TypeError('network error'));
      begun = true;
      controller.enqueue(bytes.slice(0, bytes.length / 2));
    },
  });
  return new Response(body, { headers });
}

const whole = (): Response => new Response(bytes, { headers: typed });
const offline = (): Response => {
  throw new TypeError('Failed to fetch');
};

test('a module is fetched again when its transfer breaks, with a type or without', async () => {
  for (const headers of [typed, {}]) {
    const { request, asked } = server(offline, () => cut(headers), whole);
    expect(await compileModule(address, request)).toBeInstanceOf(WebAssembly.Module);
    expect(asked()).toBe(3);
  }
});

test('a network that stays away is an error after four attempts', async () => {
  const { request, asked } = server(offline);
  await expect(compileModule(address, request)).rejects.toThrow('Failed to fetch');
  expect(asked()).toBe(4);
});

test('what is no module is an error at once', async () => {
  const missing = server(() => new Response(null, { status: 404 }));
  await expect(compileModule(address, missing.request)).rejects.toThrow('https://example.com/engine.wasm answers 404');
  expect(missing.asked()).toBe(1);
  for (const headers of [typed, {}]) {
    const page = server(() => new Response('<!doctype html>', { headers }));
    await expect(compileModule(address, page.request)).rejects.toBeInstanceOf(WebAssembly.CompileError);
    expect(page.asked()).toBe(1);
  }
});

test('the bytes of a module are counted, with its length where that is known', async () => {
  const length = String(bytes.length);
  for (const [headers, total] of [
    [{ ...typed, 'content-length': length }, bytes.length],
    [{ ...typed, 'content-length': '9', 'content-encoding': 'br' }, null],
    [typed, null],
  ] as const) {
    const counted: [number, number | null][] = [];
    const { request } = server(() => new Response(bytes, { headers }));
    await compileModule(address, request, (...progress) => counted.push(progress));
    await expect.poll(() => counted.at(-1)).toEqual([bytes.length, total]);
  }
});
