// The state of the page for programs and people.

import { element } from './elements.js';

/**
 * The state of the page, in `data-state` of the main element: `loading`, `ready`, `generating`, `finished` (with
 * `data-finish`), or `failed` (with a sentence in the alert).
 */
export type State = 'loading' | 'ready' | 'generating' | 'finished' | 'failed';

const main = element('main', HTMLElement);
const alert = element('alert', HTMLElement);
const notice = element('notice', HTMLElement);
const statuses = ['status', 'chat-status'].map((id) => element(id, HTMLElement));
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

/** Sets the end of the last text; null while one is written. */
export function setFinish(finish: string | null): void {
  if (finish === null) delete main.dataset['finish'];
  else main.dataset['finish'] = finish;
}

/** Sets the state of the connection; null while nothing is known of it. */
export function setConnection(state: string | null): void {
  if (state === null) delete main.dataset['connection'];
  else main.dataset['connection'] = state;
}

/** Shows an error; an empty sentence clears it. */
export function complain(sentence: string): void {
  alert.textContent = sentence;
}

/** Clears the error if it is this one, which no longer holds. */
export function withdraw(sentence: string): void {
  if (alert.textContent === sentence) complain('');
}

/** Shows a notice beside the buttons; an empty sentence clears it. */
export function remark(sentence: string): void {
  if (notice.textContent !== sentence) notice.textContent = sentence;
}

/** Shows the current activity in the status line of each view. */
export function report(sentence: string): void {
  for (const status of statuses) if (status.textContent !== sentence) status.textContent = sentence;
}
