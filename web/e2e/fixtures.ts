// A server per worker, and the page as a person uses it.

import { expect, test as base } from '@playwright/test';
import type { Locator, Page } from '@playwright/test';
import type { NumberOption, PolicyOption, PolicyParameterOption } from '../src/outrider/tables.js';
import { Server } from './server.js';

/** Names of the number fields, and of the address's parameters for them. */
export type Setting = NumberOption | PolicyParameterOption;

/** Names of the choices, likewise. */
export type Choice = 'scheme' | 'code' | 'afterRejection' | PolicyOption;

/** Settings of rounds for texts that are compared with those of the native client. */
export const rounds = { supportSize: 32, latticeResolution: 100, draftLength: 4 };

/** A token as the page shows it. */
export interface ShownToken {
  id: number;
  origin: string;
  text: string;
}

/** The demo page under test. */
export class Demo {
  readonly page: Page;
  readonly main: Locator;
  readonly alert: Locator;

  constructor(page: Page) {
    this.page = page;
    this.main = page.locator('main');
    this.alert = page.getByRole('alert');
  }

  /** Opens the page in a view, the one with all settings if not given, and waits for its draft model. */
  async open(
    server: { readonly url: string },
    query: Partial<
      Record<
        Setting | Choice | 'prompt' | 'adaptiveMode' | 'engine' | 'build' | 'threads' | 'roundTrip' | 'downlink',
        string | number
      >
    > = {},
    view: 'race' | 'chat' | 'laboratory' = 'laboratory',
  ): Promise<void> {
    const parameters = Object.entries(query).map(([name, value]) => [name, String(value)]);
    // An address that differs in its view alone, or not at all, would not be loaded anew.
    await this.page.goto('about:blank');
    await this.page.goto(`${server.url}/?${new URLSearchParams(parameters)}#${view}`);
    await this.ready();
  }

  /** Waits for the draft model of the page. */
  async ready(): Promise<void> {
    await expect(this.main).toHaveAttribute('data-state', 'ready', { timeout: 60_000 });
  }

  async set(setting: Setting, value: number): Promise<void> {
    await this.page.locator(`#${setting}`).fill(String(value));
  }

  async choose(choice: Choice, value: string): Promise<void> {
    await this.page.locator(`#${choice}`).selectOption(value);
  }

  /** Moves a slider; for the rates `value` is a position. */
  async slide(slider: 'uplink' | 'downlink' | 'round-trip', value: number): Promise<void> {
    await this.page.locator(`#${slider}`).fill(String(value));
  }

  /** Starts a run and does not wait for it. */
  async start(button: 'Generate' | 'Continue' | 'Cloud only' = 'Generate'): Promise<void> {
    await this.page.getByRole('button', { name: button, exact: true }).click();
    await expect(this.main).toHaveAttribute('data-state', /generating|finished/);
  }

  /** Waits for the run's end; it must not be a failure. */
  async finish(): Promise<void> {
    await expect(this.main).toHaveAttribute('data-state', /finished|failed/, { timeout: 100_000 });
    await expect(this.alert).toHaveText('');
    await expect(this.main).toHaveAttribute('data-state', 'finished');
  }

  /** Runs a text to its end. */
  async run(button: 'Generate' | 'Continue' | 'Cloud only' = 'Generate'): Promise<void> {
    await this.start(button);
    await this.finish();
  }

  /** Runs until at least `count` tokens stand there, with other seeds while the text ends before. */
  async runFor(count: number): Promise<void> {
    for (let seed = 1; seed <= 10; seed++) {
      await this.set('seed', seed);
      await this.run();
      if ((await this.ids()).length >= count) return;
    }
    throw new Error(`ten texts ended before ${count} tokens`);
  }

  /** Waits until at least `count` tokens stand there. */
  async waitForTokens(count: number): Promise<void> {
    await expect
      .poll(() => this.page.locator('#output [data-token-id]').count(), { timeout: 60_000 })
      .toBeGreaterThanOrEqual(count);
  }

  tokens(): Promise<ShownToken[]> {
    return this.page
      .locator('#output [data-token-id]')
      .evaluateAll((spans) =>
        spans.map((span) => ({
          id: Number(span.getAttribute('data-token-id')),
          origin: span.getAttribute('data-origin') ?? '',
          text: span.textContent ?? '',
        })),
      );
  }

  async ids(): Promise<number[]> {
    return (await this.tokens()).map(({ id }) => id);
  }

  async text(): Promise<string> {
    return (await this.tokens()).map(({ text }) => text).join('');
  }

  /** Live counters by name; those that do not apply are NaN. */
  async counters(): Promise<Record<string, number>> {
    return Object.fromEntries(
      await this.page.locator('[data-counter]').evaluateAll((cells) =>
        cells.map((cell): [string, number] => {
          const value = cell.getAttribute('data-value') ?? '';
          return [cell.getAttribute('data-counter') ?? '', value === '' ? Number.NaN : Number(value)];
        }),
      ),
    );
  }

  async counter(name: string): Promise<number> {
    return (await this.counters())[name] ?? Number.NaN;
  }
}

export const test = base.extend<{ demo: Demo; ownServer: Server }, { server: Server }>({
  server: [
    async ({}, use) => {
      await using server = await Server.start();
      await use(server);
    },
    { scope: 'worker', timeout: 90_000 },
  ],
  // For tests that mistreat it.
  ownServer: async ({}, use) => {
    await using server = await Server.start();
    await use(server);
  },
  demo: async ({ page }, use) => {
    const errors: Error[] = [];
    page.on('pageerror', (error) => errors.push(error));
    await use(new Demo(page));
    expect(errors, 'uncaught errors on the page').toEqual([]);
  },
});

export { expect };
