// The settings of this browser: colours, kept models, installation.

import { Outrider, OutriderError } from '../outrider/index.js';
import type { KeptModel } from '../outrider/index.js';
import { element, make } from './elements.js';
import { formatBytes, formatPercent } from './format.js';
import { chooseTheme, keptTheme, showTheme, themes } from './theme.js';

/** The event with which Chromium offers to install a page; its types are not in the standard library. */
interface InstallEvent extends Event {
  prompt(): Promise<unknown>;
}

/** The menu in the page's head. */
export class MenuView {
  readonly #menu = element('menu', HTMLDetailsElement);
  readonly #list = element('kept-models', HTMLUListElement);
  readonly #note = element('kept-note', HTMLElement);

  constructor() {
    showTheme(keptTheme());
    for (const radio of this.#menu.querySelectorAll<HTMLInputElement>('[name="theme"]')) {
      radio.checked = radio.value === keptTheme();
      radio.addEventListener('change', () => {
        const theme = themes.find((name) => name === radio.value);
        if (theme) chooseTheme(theme);
      });
    }
    this.#menu.addEventListener('toggle', () => this.#menu.open && void this.#showModels());
    this.#menu.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || !this.#menu.open) return;
      event.stopPropagation();
      this.#close();
    });
    document.addEventListener('pointerdown', ({ target }) => {
      if (target instanceof Node && !this.#menu.contains(target)) this.#menu.open = false;
    });
    const install = element('install', HTMLButtonElement);
    addEventListener('beforeinstallprompt', (event) => {
      event.preventDefault();
      install.hidden = false;
      install.onclick = () => {
        install.hidden = true;
        void (event as InstallEvent).prompt();
      };
    });
  }

  #close(): void {
    this.#menu.open = false;
    this.#menu.querySelector('summary')?.focus();
  }

  async #showModels(): Promise<void> {
    const models = await Outrider.listModels().catch(() => []);
    this.#note.textContent = models.length === 0 ? 'None: each visit downloads the draft model.' : '';
    this.#list.replaceChildren(...models.map((model) => this.#item(model)));
  }

  #item(model: KeptModel): HTMLElement {
    const { url, bytes, totalBytes, complete } = model;
    const name = make('span', { class: 'kept-name', title: url }, new URL(url).pathname.split('/').at(-1) || url);
    const share = complete || totalBytes === null ? '' : `, ${formatPercent(bytes / totalBytes)}`;
    const button = make('button', { type: 'button', class: 'small', 'aria-label': `Delete ${url}` }, 'Delete');
    button.addEventListener('click', () => void this.#delete(url));
    return make('li', {}, name, make('span', { class: 'hint' }, `${formatBytes(bytes)}${share}`), button);
  }

  async #delete(url: string): Promise<void> {
    try {
      await Outrider.deleteModel(url);
      await this.#showModels();
      this.#note.textContent = 'Deleted. The next visit downloads the model again.';
    } catch (error) {
      const isBusy = error instanceof OutriderError && error.code === 'busy';
      this.#note.textContent = isBusy
        ? 'The model is being loaded. Delete it when that has ended.'
        : 'The model could not be deleted.';
    }
    this.#menu.querySelector('summary')?.focus();
  }
}
