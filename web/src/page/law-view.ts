import { make } from './elements.js';
import type { Law } from './policies.js';

/** A badge that says whether a text is exact; the sentence stands beside it if there is room for one. */
export function showLaw(place: HTMLElement, { lossy, sentence }: Law, sentenceToo = false): void {
  const law = lossy ? 'lossy' : 'exact';
  const badge = make('span', { class: 'badge', 'data-law': law, title: sentence }, law);
  place.replaceChildren(badge, ...(sentenceToo ? [' ', sentence] : []));
}
