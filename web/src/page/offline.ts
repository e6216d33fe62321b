// The page without a network: a service worker keeps its files.

/**
 * Registers the service worker, where the browser has them and the page was built. Its downloads should not compete with
 * the first ones of the page.
 */
export function keepForOffline(): void {
  if (!import.meta.env.PROD || !('serviceWorker' in navigator)) return;
  // A browser that refuses it, as in some private windows, opens the page online only.
  navigator.serviceWorker.register('./sw.js').catch(() => {});
}
