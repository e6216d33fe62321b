import { element, make } from './elements.js';
import { pngOf, save } from './export.js';
import { fillRows, headOf } from './figures.js';
import { complain } from './stage.js';
import { columns, fileName, jsonOf, remembered, wayOf } from './runs.js';
import type { RunRecord } from './runs.js';

/** The runs of this visit: a row each, with its file and a link to its settings; and what can be saved of the last. */
export class RunsView {
  readonly #panel = element('runs', HTMLElement);
  readonly #table = element('runs-table', HTMLTableElement);
  #runs: readonly RunRecord[] = [];

  constructor() {
    this.#table.append(headOf([...columns.map(({ label }) => label), 'Keep']));
    element('save-json', HTMLButtonElement).addEventListener('click', () => {
      const run = this.#runs[0];
      if (run) saveRun(run);
    });
    for (const button of document.querySelectorAll<HTMLButtonElement>('button[data-png]')) {
      button.addEventListener('click', () => void this.#savePng(button.dataset['png'] ?? ''));
    }
    element('share', HTMLButtonElement).addEventListener('click', () => void share());
  }

  add(run: RunRecord): void {
    this.#runs = remembered(this.#runs, run);
    this.#panel.hidden = false;
    const rows = this.#runs.map((run) => {
      const which = `${wayOf(run)}, ${run.at}`;
      const file = make('button', { type: 'button', 'aria-label': `Save as JSON: ${which}` }, 'JSON');
      file.addEventListener('click', () => saveRun(run));
      const settings = make('a', { href: run.address, 'aria-label': `Settings of ${which}` }, 'Settings');
      const [way = '', ...rest] = columns.map(({ of }) => of(run));
      return [way, ...rest, make('td', {}, file, ' ', settings)] as const;
    });
    fillRows(this.#table, rows);
  }

  async #savePng(place: string): Promise<void> {
    const drawn = element(place, HTMLElement).querySelectorAll<SVGSVGElement>('svg[role="img"]:not(.distribution)');
    const pictures = [...drawn].filter((svg) => svg.getBoundingClientRect().width > 0);
    if (pictures.length === 0) return complain('There are no charts to save: they are drawn by a race or by rounds.');
    const blob = await pngOf(pictures);
    save(blob, fileName(this.#runs[0] ?? { at: new Date().toISOString() }, 'png'));
  }
}

function saveRun(run: RunRecord): void {
  save(new Blob([jsonOf(run)], { type: 'application/json' }), fileName(run, 'json'));
}

/** Copies the page's address, which has all settings and never the access token. */
async function share(): Promise<void> {
  const said = element('shared', HTMLElement);
  try {
    await navigator.clipboard.writeText(location.href);
    said.textContent = 'Copied. The link opens the page with these settings.';
  } catch {
    said.textContent = `The browser does not allow copying. The address is ${location.href}`;
  }
}
