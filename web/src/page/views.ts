// The three views of the page and their addresses. No DOM.

/** A view of the page: talking, comparing, or trying every setting. */
export type View = 'chat' | 'race' | 'laboratory';

export const views: readonly { name: View; label: string }[] = [
  { name: 'chat', label: 'Chat' },
  { name: 'race', label: 'Race' },
  { name: 'laboratory', label: 'Laboratory' },
];

/** Parameters that every view uses; all others are set in the laboratory. */
const everywhere = ['prompt', 'uplink', 'downlink', 'roundTrip', 'build', 'threads', 'token'];

/** The view of an address: the one it names, else the laboratory where it has settings that only this shows. */
export function viewOf(hash: string, query: URLSearchParams): View {
  const named = views.find(({ name }) => hash === `#${name}`);
  if (named) return named.name;
  return [...query.keys()].every((name) => everywhere.includes(name)) ? 'chat' : 'laboratory';
}
