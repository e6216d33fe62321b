// The user's own draft model instead of the server's: a file, or an address.

import { element } from './elements.js';

const file = element('draft-file', HTMLInputElement);
const address = element('draft-address', HTMLInputElement);

/** The model that was chosen last; undefined for the server's. */
export function ownDraft(): File | URL | undefined {
  return file.files?.[0] ?? (URL.canParse(address.value) ? new URL(address.value) : undefined);
}

/** Sets the address of the first model; null for the server's. */
export function beginWith(url: string | null): void {
  address.value = url ?? '';
}

/** The address of the model that was chosen last; null if it has none. */
export function ownDraftAddress(): string | null {
  const draft = ownDraft();
  return draft instanceof URL ? draft.href : null;
}

/** Calls back when another model is chosen: one of the two fields holds it, the other is emptied. */
export function onOwnDraft(changed: () => void): void {
  file.addEventListener('change', () => {
    address.value = '';
    changed();
  });
  address.addEventListener('change', () => {
    if (!address.reportValidity()) return;
    file.value = '';
    changed();
  });
}
