// The page's elements, found once and by id, with the kind they must have.

export function element<T extends HTMLElement>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} #${id}`);
  return found;
}

/** A new element with attributes and children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Adds a field to a panel, before the panel's switch if it has one. */
export function addField(panel: string, field: HTMLElement): void {
  const fieldset = element(panel, HTMLFieldSetElement);
  fieldset.insertBefore(field, fieldset.querySelector(':scope > .switch'));
}

/** A new element of a drawing. */
export function draw<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string | number>> = {},
  ...children: (Node | string)[]
): SVGElementTagNameMap[K] {
  const drawn = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) drawn.setAttribute(name, String(value));
  drawn.append(...children);
  return drawn;
}
