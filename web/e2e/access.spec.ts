// Keyboard, narrow screens, colours.

import type { Page } from '@playwright/test';
import { expect, test } from './fixtures.js';

test('everything can be reached and done with the keyboard alone', async ({ demo, server }) => {
  const { page } = demo;
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 256 });
  const reached: string[] = [];
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press('Tab');
    const focused = await page.evaluate(() => {
      const { activeElement } = document;
      if (!activeElement || activeElement === document.body) return null;
      const { outlineStyle, outlineWidth } = getComputedStyle(activeElement);
      const visible = outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
      const label = activeElement.getAttribute('aria-label') ?? activeElement.textContent ?? '';
      return { name: activeElement.id || label, visible };
    });
    if (!focused) break;
    expect(focused.visible, `focus is visible on ${focused.name}`).toBe(true);
    reached.push(focused.name);
  }
  expect(reached).toEqual([
    ...[
      'Chat',
      'Race',
      'Laboratory',
      'Settings of this browser',
      'In the papers’ words',
      'prompt',
      'generate',
      'cloud-only',
      'stop',
    ],
    ...['Once upon a time', 'The old man went to the river and', 'A girl and her dog found'],
    'The king said to the youngest of his three sons:',
    ...['As it is', '4G', 'Satellite', '2G', 'Cut the link'],
    ...['round-trip', 'Bandwidth', 'uplink', 'downlink', 'output'],
    ...['temperature', 'topP', 'topK', 'seed', 'maxNewTokens'],
    ...['rule', 'gate', 'evidence'],
    ...['scheme', 'code', 'verification', 'draftTemperature', 'supportSize', 'latticeResolution'],
    ...['draftLength', 'maxInFlight', 'bitBudget', 'stopRule', 'adaptiveMode'],
    ...['draft-file', 'draft-address'],
  ]);

  await page.locator('#round-trip').focus();
  for (let step = 0; step < 20; step++) await page.keyboard.press('ArrowRight');
  await expect(page.locator('#round-trip')).toHaveAttribute('aria-valuetext', '200 ms');

  await page.locator('#scheme').focus();
  await page.keyboard.type('C-S');
  await expect(page.locator('#scheme')).toHaveValue('c-sqs');
  await expect(page.locator('#droppedMassTarget')).toBeVisible();

  await page.locator('#prompt').focus();
  await page.keyboard.press('ControlOrMeta+a');
  await page.keyboard.type('The fox said');
  await page.keyboard.press('ControlOrMeta+Enter');
  await expect(demo.main).toHaveAttribute('data-state', 'generating');
  await demo.waitForTokens(2);
  await expect(page.locator('#prompt')).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(demo.main).toHaveAttribute('data-finish', 'cancelled');
});

test('a generation announces its begin and its end, not every token', async ({ demo, server }) => {
  await demo.open(server, { maxNewTokens: 8 });
  await demo.run();
  await expect(demo.page.getByRole('status').filter({ hasText: 'token' })).toHaveText(/after \d+ tokens/);
  await expect(demo.page.locator('#output')).toHaveAttribute('aria-busy', 'false');
  expect(await demo.page.locator('#output').getAttribute('aria-live')).toBeNull();
});

test('a phone 360 pixels wide needs no sideways scrolling', async ({ demo, server }, info) => {
  await demo.page.setViewportSize({ width: 360, height: 740 });
  await demo.open(server, { maxNewTokens: 48 });
  await demo.run();
  expect(await demo.page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  const small = await demo.page
    .locator('button:visible')
    .evaluateAll((buttons) =>
      buttons.filter((button) => button.getBoundingClientRect().height < 32).map((button) => button.id),
    );
  expect(small, 'buttons too low for a finger').toEqual([]);
  await demo.page.screenshot({ path: info.outputPath('phone.png'), fullPage: true });
});

test('the measure of contrast finds what is faint', async ({ page }) => {
  await page.setContent('<p style="color: #777; background: #fff">faint</p><p style="color: #767676">clear</p>');
  expect(await faintTexts(page)).toEqual(['faint (4.48)']);
});

for (const colorScheme of ['light', 'dark'] as const) {
  test(`text has enough contrast in ${colorScheme} mode`, async ({ demo, server }, info) => {
    await demo.page.emulateMedia({ colorScheme });
    await demo.open(server, { maxNewTokens: 64, rule: 'lossy', gate: 'token-cascade', gateThreshold: 0.8 });
    await demo.run();
    expect(await faintTexts(demo.page)).toEqual([]);
    await demo.page.screenshot({ path: info.outputPath(`${colorScheme}.png`), fullPage: true });
  });
}

/** Texts whose contrast with their background is below 4.5 (WCAG 2.2, 1.4.3). */
function faintTexts(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const channels = (colour: string): number[] => (colour.match(/[\d.]+/g) ?? []).map(Number);
    const luminance = (colour: string): number => {
      const [red = 0, green = 0, blue = 0] = channels(colour).map((channel) => {
        const share = channel / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const behind = (element: Element | null): string => {
      for (let at = element; at; at = at.parentElement) {
        const { backgroundColor } = getComputedStyle(at);
        if ((channels(backgroundColor)[3] ?? 1) === 1) return backgroundColor;
      }
      return 'rgb(255, 255, 255)';
    };
    const faint = new Set<string>();
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const element = texts.currentNode.parentElement;
      const words = texts.currentNode.textContent?.trim();
      if (!element?.checkVisibility() || !words) continue;
      const [one, other] = [luminance(getComputedStyle(element).color), luminance(behind(element))];
      const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      if (contrast < 4.5) faint.add(`${words} (${contrast.toFixed(2)})`);
    }
    return [...faint];
  });
}
