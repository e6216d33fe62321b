// What an instance leaves at its server when it is closed.

import { expect, test } from './fixtures.js';
import { bare, buildRecipes } from './recipes.js';
import { Server } from './server.js';

test('closing in the middle of texts leaves no session at the server', async ({ page, request }, info) => {
  await using server = await Server.start([], await buildRecipes([bare], info.outputPath('pages')));
  await page.goto(`${server.url}/bare.html`);
  await expect(page.locator('#ready')).toHaveText('ready');
  await page.evaluate(async () => {
    const texts = ['Once', 'The fox', 'A hen', 'We', 'They'].map((prompt) =>
      window.outrider.generate(prompt, { maxNewTokens: 400, temperature: 0 }),
    );
    for await (const _ of texts[0]!) {
      if ((texts[0]!.statistics?.tokens ?? 0) < 8) continue;
      await window.outrider.close();
      return;
    }
  });
  const sessions = async () => {
    const metrics = await (await request.get(`${server.url}/metrics`)).text();
    return metrics.match(/^outrider_sessions_(parked|connected) \d+$/gm);
  };
  await expect
    .poll(sessions, { timeout: 5_000 })
    .toEqual(['outrider_sessions_parked 0', 'outrider_sessions_connected 0']);
});
