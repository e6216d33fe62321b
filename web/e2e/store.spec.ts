import { fileURLToPath } from 'node:url';
import { expect, test } from './fixtures.js';

const target = fileURLToPath(new URL('../../pair/target/target-f16.gguf', import.meta.url));

test('a model that the user picks drafts in place of the server’s', async ({ demo, server }) => {
  await demo.open(server, { scheme: 'k-sqs', temperature: 0, maxNewTokens: 32 });
  await demo.page.getByLabel('Draft with a model of yours').setInputFiles(target);
  await expect(demo.page.locator('#load-text')).toHaveText(/Draft ready: \d\d\.?\d* MB/, { timeout: 60_000 });
  await demo.run();
  // The target drafts for itself, and is right.
  expect(await demo.counter('acceptanceRate')).toBeGreaterThan(0.95);
});

test('a draft model that was loaded before is not fetched again', async ({ demo, server }) => {
  const statuses: number[] = [];
  demo.page.on('response', (response) => {
    if (response.url().endsWith('/pair/draft.gguf')) statuses.push(response.status());
  });
  await demo.open(server, { maxNewTokens: 8 });
  await demo.open(server, { maxNewTokens: 8 });
  await demo.run();
  expect(statuses).toEqual([200, 304]);
  expect((await demo.tokens()).length).toBeGreaterThan(0);
});
