// Every view in every state, as axe-core sees it: nothing that keeps somebody out.

import { violations } from './axe.js';
import { expect, test } from './fixtures.js';

const views = ['chat', 'race', 'laboratory'] as const;

test('axe-core finds what is wrong', async ({ page }) => {
  await page.setContent('<!doctype html><html><title>x</title><body><input></body></html>');
  expect((await violations(page)).join()).toMatch(/html-has-lang.*label/s);
});

for (const colorScheme of ['light', 'dark'] as const) {
  test(`no view breaks a rule in any state, ${colorScheme}`, async ({ demo, server }) => {
    const { page, main } = demo;
    // The two differ in their colours alone.
    const rules = colorScheme === 'dark' ? ['color-contrast'] : undefined;
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    const each = async (state: string): Promise<void> => {
      for (const view of views) {
        await page
          .getByRole('link', { name: view === 'race' ? 'Race' : view === 'chat' ? 'Chat' : 'Laboratory' })
          .click();
        await expect(main).toHaveAttribute('data-state', state);
        expect(await violations(page, rules), `${view}, ${state}`).toEqual([]);
      }
    };
    let release = (): void => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    await page.route('**/pair/draft', async (route) => {
      await held;
      await route.continue();
    });
    await page.goto(`${server.url}/?scheme=k-sqs&maxNewTokens=256&roundTrip=200`);
    await each('loading');
    release();
    await expect(main).toHaveAttribute('data-state', 'ready', { timeout: 60_000 });
    await each('ready');
    await demo.start();
    await demo.waitForTokens(2);
    await each('generating');
    await page.keyboard.press('Escape');
    await demo.finish();
    // With its card, the glossary, and a race that has run.
    await page.getByText('In the papers’ words').click();
    await page.locator('#output [data-token-id]').first().hover();
    await each('finished');
    await page.goto(`${server.url}/?maxNewTokens=16#race`);
    await expect(main).toHaveAttribute('data-state', 'ready', { timeout: 60_000 });
    await page.getByRole('button', { name: 'Race' }).click();
    await expect(page.locator('#race-sentence')).not.toHaveText('', { timeout: 60_000 });
    expect(await violations(page, rules), 'race, raced').toEqual([]);

    await page.route('**/pair/draft', (route) => route.fulfill({ status: 404 }));
    await page.goto(`${server.url}/?seed=2`);
    await expect(main).toHaveAttribute('data-state', 'failed', { timeout: 30_000 });
    await each('failed');
  });
}
