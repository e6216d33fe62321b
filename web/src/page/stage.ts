// What the page is doing, as programs and people see it.

import { element } from './elements.js';

/**
 * What the page is doing, in `data-state` of the main element: `loading`, `ready`, `generating`, `finished` (with
 * `data-finish`), or `failed` (with a sentence in the alert).
 */
export type State = 'loading' | 'ready' | 'generating' | 'finished' | 'failed';

const main = element('main', HTMLElement);
const alert = element('alert', HTMLElement);
const notice = element('notice', HTMLElement);
const status = element('status', HTMLElement);
const starters = ['generate', 'cloud-only', 'race', 'continue'].map((id) => element(id, HTMLButtonElement));
const stopButton = element('stop', HTMLButtonElement);

/** @param canStart whether there is an engine that could generate */
export function setState(state: State, canStart: boolean): void {
  main.dataset['state'] = state;
  // aria-disabled rather than disabled: a button that vanishes from under the focus strands the keyboard.
  const generating = state === 'generating';
  for (const button of starters) button.setAttribute('aria-disabled', String(!canStart || generating));
  stopButton.setAttribute('aria-disabled', String(!generating));
}

/** How the last text ended; null while one is written. */
export function setFinish(finish: string | null): void {
  if (finish === null) delete main.dataset['finish'];
  else main.dataset['finish'] = finish;
}

export function setConnection(state: string): void {
  main.dataset['connection'] = state;
}

/** What went wrong; empty for nothing. */
export function complain(sentence: string): void {
  alert.textContent = sentence;
}

/** What is odd about what is under way, beside the buttons; empty for nothing. */
export function remark(sentence: string): void {
  if (notice.textContent !== sentence) notice.textContent = sentence;
}

/** What is under way. */
export function report(sentence: string): void {
  if (status.textContent !== sentence) status.textContent = sentence;
}
