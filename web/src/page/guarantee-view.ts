import { make } from './elements.js';
import type { Guarantee } from './policies.js';

/** A badge that says whether a text is exact; the sentence stands beside it if there is room for one. */
export function showGuarantee(place: HTMLElement, { lossy, sentence }: Guarantee, sentenceToo = false): void {
  const guarantee = lossy ? 'lossy' : 'exact';
  const badge = make('span', { class: 'badge', 'data-guarantee': guarantee, title: sentence }, guarantee);
  place.replaceChildren(badge, ...(sentenceToo ? [' ', sentence] : []));
}
