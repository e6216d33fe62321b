import { element, make } from './elements.js';
import { viewOf, views } from './views.js';
import type { View } from './views.js';

/**
 * The tabs: links, so that each view has an address. Elements of some views only name these in `data-in`, and the style
 * sheet hides them in the others by `main[data-view]`.
 */
export class ViewsView {
  readonly #main = element('main', HTMLElement);
  readonly #links = new Map<View, HTMLAnchorElement>();
  readonly #onChange: (view: View) => void;
  #view: View;

  constructor(onChange: (view: View) => void) {
    this.#onChange = onChange;
    for (const { name, label } of views) {
      const link = make('a', { href: `#${name}` }, label);
      // Followed without the browser's scrolling to the element that has the name of the view.
      link.addEventListener('click', (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        if (name === this.#view) return;
        history.pushState(null, '', `${location.pathname}${location.search}#${name}`);
        this.#read();
      });
      this.#links.set(name, link);
      element('views', HTMLElement).append(link);
    }
    this.#view = this.#address();
    addEventListener('popstate', () => this.#read());
    addEventListener('hashchange', () => this.#read());
    this.#show();
  }

  get view(): View {
    return this.#view;
  }

  #address(): View {
    return viewOf(location.hash, new URLSearchParams(location.search));
  }

  #read(): void {
    const view = this.#address();
    if (view === this.#view) return;
    this.#view = view;
    this.#show();
    this.#onChange(view);
  }

  #show(): void {
    this.#main.dataset['view'] = this.#view;
    for (const [name, link] of this.#links) {
      if (name === this.#view) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
  }
}
