// Changes of the network that the page can see and its worker cannot.

/** Shortest time in the background, in milliseconds, after which a connection may have died unseen. */
const LONG_HIDDEN_MS = 5_000;

/** Calls `changed` when the browser is online again, and when the page comes back from the background. */
export function watchNetwork(changed: () => void): () => void {
  // A page that is rendered elsewhere has neither.
  if (typeof addEventListener !== 'function' || typeof document === 'undefined') return () => {};
  let hiddenAt = Infinity;
  const seen = (): void => {
    if (document.hidden) hiddenAt = performance.now();
    else if (performance.now() - hiddenAt >= LONG_HIDDEN_MS) changed();
  };
  addEventListener('online', changed);
  document.addEventListener('visibilitychange', seen);
  return () => {
    removeEventListener('online', changed);
    document.removeEventListener('visibilitychange', seen);
  };
}
