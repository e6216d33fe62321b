// @vitest-environment happy-dom

import { readFileSync } from 'node:fs';
import { expect, test, vi } from 'vitest';

test('without a chart no empty picture is saved', async () => {
  const html = readFileSync('index.html', 'utf8');
  document.body.innerHTML = html.slice(html.indexOf('<body'), html.indexOf('</body>'));
  const { RunsView } = await import('./runs-view.js');
  new RunsView();
  const click = vi.spyOn(HTMLAnchorElement.prototype, 'click');
  document.querySelector<HTMLElement>('[data-png="race-pictures"]')?.click();
  const alert = document.querySelector('#alert');
  await vi.waitFor(() => expect(alert?.textContent).toMatch(/^There are no charts to save/));
  expect(click).not.toHaveBeenCalled();
});
