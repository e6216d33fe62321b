// Keeps the page's own files, so that it opens without a network. Models and the server's API are not its concern: the
// package keeps models itself.

const name = 'outrider-page-1';

/** Longest wait for a server whose page is kept, in milliseconds. A lost network may swallow requests unseen. */
const AWAY_MS = 5_000;

self.addEventListener('install', (event) => {
  self.skipWaiting();
  event.waitUntil(keepPage());
});

self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));

/** Keeps the page and the files that it names: a first visit loads them before there is a service worker. */
async function keepPage() {
  const cache = await caches.open(name);
  const response = await fetch('./');
  if (!response.ok) return;
  const text = await response.clone().text();
  const files = [...text.matchAll(/(?:href|src)="(\.\/[^"]+)"/g)].map(([, file]) => file);
  await cache.put('./', response);
  await cache.addAll(files);
}

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (request.method !== 'GET' || origin !== location.origin) return;
  const scope = new URL('./', location.href).pathname;
  if (request.mode === 'navigate' && (pathname === scope || pathname === `${scope}index.html`)) {
    event.respondWith(page(request));
  } else if (pathname.startsWith(`${scope}assets/`) || /\/(favicon\.svg|manifest\.webmanifest)$/.test(pathname)) {
    event.respondWith(asset(request));
  }
});

/** The page from the network, else as it was kept. A page that has changed replaces all kept files. */
async function page(request) {
  const kept = await (await caches.open(name)).match('./');
  const late = new AbortController();
  const timer = kept && setTimeout(() => late.abort(), AWAY_MS);
  try {
    const response = await fetch(request, { signal: late.signal });
    if (!response.ok) return response;
    const text = await response.clone().text();
    if (kept && text !== (await kept.clone().text())) await caches.delete(name);
    await (await caches.open(name)).put('./', response.clone());
    return response;
  } catch (error) {
    if (kept) return kept;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** A file of the page. Its name changes with its content, so that a kept one is right. */
async function asset(request) {
  const cache = await caches.open(name);
  const kept = await cache.match(request.url);
  if (kept) return kept;
  const response = await fetch(request);
  if (response.status === 200) await cache.put(request.url, response.clone());
  return response;
}
