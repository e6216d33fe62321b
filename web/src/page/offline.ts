// The page without a network: a service worker keeps its files.

/** Addresses of the engine's builds in this bundle. */
const engines = import.meta.glob<string>('../wasm/*/outrider_edge_bg.wasm', {
  query: '?url',
  import: 'default',
  eager: true,
});

/** The cache of `sw.js`. */
const cacheName = 'outrider-page-1';

/**
 * Registers the service worker, where the browser has them and the page was built, and keeps a build of the engine, which
 * the first visit fetched before. Its downloads should not compete with the first ones of the page.
 */
export async function keepForOffline(build: string): Promise<void> {
  if (!import.meta.env.PROD || !('serviceWorker' in navigator)) return;
  try {
    await navigator.serviceWorker.register('./sw.js');
    await navigator.serviceWorker.ready;
    const engine = engines[`../wasm/${build}/outrider_edge_bg.wasm`];
    const cache = await caches.open(cacheName);
    if (engine && !(await cache.match(engine))) await cache.add(engine);
  } catch {
    // A browser that refuses it, as in some private windows, opens the page online only.
  }
}
