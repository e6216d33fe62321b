// Answers of the server that a start without it needs, in the origin's cache. The draft model is kept in a file: store.ts.

import { within } from './within.js';

const cacheName = 'outrider';

/** Longest wait for a server, in milliseconds, whose answer is kept. A lost network may swallow requests unseen. */
export const AWAY_MS = 5_000;

/** Asks a server whose answer is kept. */
async function soon(request: typeof fetch, ...[input, init]: Parameters<typeof fetch>): Promise<Response> {
  const abort = new AbortController();
  const late = new TypeError(`${String(input)} did not answer within ${AWAY_MS / 1000} s`);
  try {
    return await within(AWAY_MS, request(input, { ...init, signal: abort.signal }), late);
  } catch (error) {
    abort.abort();
    throw error;
  }
}

/** Opens the cache; null in a page without a secure context, or where the browser refuses it. */
async function openCache(): Promise<Cache | null> {
  try {
    return await caches.open(cacheName);
  } catch {
    return null;
  }
}

/** Sessions have WebSocket addresses, which a cache does not take. */
const keyOf = (url: string): string => url.replace(/^ws/, 'http');

async function matching(url: string): Promise<Response | undefined> {
  return (await openCache())?.match(keyOf(url), { ignoreVary: true });
}

async function keep(url: string, response: Response): Promise<void> {
  try {
    const etag = response.headers.get('etag');
    const isKept = etag !== null && (await matching(url))?.headers.get('etag') === etag;
    if (isKept) return await response.body?.cancel();
    await (await openCache())?.put(keyOf(url), response);
  } catch {
    // The disk is full: the next visit needs the server.
  }
}

/** Makes a `fetch` that keeps answers, also that there is no such file, and gives them where the server is away. */
export function keepingFetch(request: typeof fetch): typeof fetch {
  return async (input, init) => {
    const url = String(input);
    const kept = await matching(url);
    try {
      const response = kept ? await soon(request, input, init) : await request(input, init);
      if (response.status === 200 || response.status === 404) void keep(url, response.clone());
      return response;
    } catch (error) {
      if (kept) return kept;
      throw error;
    }
  };
}

/** Makes a `fetch` that confirms a version where the server is away, so that a whole kept file is used. */
export function confirmingFetch(request: typeof fetch): typeof fetch {
  return async (input, init) => {
    if (!new Headers(init?.headers).has('If-None-Match')) return request(input, init);
    return soon(request, input, init).catch(() => new Response(null, { status: 304 }));
  };
}

/** Keeps bytes under an address: the Welcome of a session, or its acceptance. */
export function keepBytes(url: string, bytes: Uint8Array): void {
  void keep(url, new Response(bytes as Uint8Array<ArrayBuffer>));
}

/** The bytes that are kept under an address; null without any. */
export async function keptBytes(url: string): Promise<Uint8Array | null> {
  const kept = await matching(url);
  return kept ? new Uint8Array(await kept.arrayBuffer()) : null;
}

/** Deletes all kept answers. */
export async function forgetAnswers(): Promise<void> {
  try {
    await caches.delete(cacheName);
  } catch {
    // A browser without a cache keeps none.
  }
}
