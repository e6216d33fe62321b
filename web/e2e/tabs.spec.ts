// Several tabs at one server: beside each other, one in place of the other, and one too many.

import { Demo, expect, rounds, test } from './fixtures.js';
import { Server } from './server.js';

const seed = 5;
const maxTokens = 96;
const greedy = { scheme: 'k-sqs', temperature: 0, seed, maxNewTokens: maxTokens, ...rounds };

test('a tab that goes on with another’s text has it, and the other one says so', async ({ demo, server, context }) => {
  const query = { ...greedy, prompt: 'Once upon a time' };
  await demo.open(server, query);
  await demo.run();
  const whole = await demo.ids();
  expect(whole.length).toBeGreaterThan(20);

  await demo.slide('round-trip', 300);
  await demo.start();
  await demo.waitForTokens(4);
  // What a duplicated tab begins with.
  const kept = await demo.page.evaluate(() => ({ ...sessionStorage }));
  expect(Object.keys(kept)).toHaveLength(1);
  const page = await context.newPage();
  await page.addInitScript((entries: Record<string, string>) => {
    for (const [key, value] of Object.entries(entries)) sessionStorage.setItem(key, value);
  }, kept);
  const other = new Demo(page);
  await page.goto(`${server.url}/?${new URLSearchParams(Object.entries(query).map(([k, v]) => [k, String(v)]))}`);
  await expect(demo.alert).toHaveText('Another tab has taken over this text. Begin a new one in this tab.', {
    timeout: 60_000,
  });
  await expect(demo.main).toHaveAttribute('data-state', 'failed');
  await other.finish();
  expect(await other.ids()).toEqual(whole);

  // It does as it says.
  await demo.slide('round-trip', 0);
  await demo.run();
  expect(await demo.ids()).toEqual(whole);
});

test('a full server says so, and a place that is given up can be had', async ({ demo, context }) => {
  await using server = await Server.start(['--max-sessions', '1']);
  await demo.open(server, { maxNewTokens: 8 });
  await demo.run();
  const late = new Demo(await context.newPage());
  await late.page.goto(`${server.url}/?maxNewTokens=8`);
  await expect(late.alert).toHaveText(
    'The server is serving as many sessions as it can. Wait a moment, then try again.',
    { timeout: 60_000 },
  );
  await expect(late.main).toHaveAttribute('data-state', 'failed');
  // The first is not disturbed.
  await demo.run();
  await demo.page.close();
  await late.page.getByRole('button', { name: 'Try again' }).click();
  await late.ready();
  await expect(late.alert).toHaveText('');
  await late.run();
  expect((await late.tokens()).length).toBeGreaterThan(0);
});
