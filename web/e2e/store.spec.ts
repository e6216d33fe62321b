import { fileURLToPath } from 'node:url';
import { writeCheckpoint } from './checkpoint.js';
import { expect, test } from './fixtures.js';
import { Server } from './server.js';

const target = fileURLToPath(new URL('../../pair/target/target-f16.gguf', import.meta.url));

test('a model that the user picks drafts in place of the server’s', async ({ demo, server }) => {
  await demo.open(server, { scheme: 'k-sqs', temperature: 0, maxNewTokens: 32 });
  await demo.page.getByLabel('Draft with your own model').setInputFiles(target);
  await expect(demo.page.locator('#load-text')).toHaveText(/Draft ready: \d\d\.?\d* MB/, { timeout: 60_000 });
  await demo.run();
  // The target drafts for itself, and is right.
  expect(await demo.counter('acceptanceRate')).toBeGreaterThan(0.95);
});

test('a model at an address that the user gives drafts in place of the server’s', async ({ demo, server }) => {
  await using other = await Server.start(['--draft', target, '--allow-origin', new URL(server.url).origin]);
  await demo.open(server, { scheme: 'k-sqs', temperature: 0, maxNewTokens: 32 });
  const field = demo.page.getByLabel('or one at an address');
  await field.fill(`${other.url}/pair/draft`);
  await field.press('Tab');
  await expect(demo.page.locator('#load-text')).toHaveText(/Draft ready: \d\d\.?\d* MB/, { timeout: 60_000 });
  await demo.run();
  expect(await demo.counter('acceptanceRate')).toBeGreaterThan(0.95);
});

test('a draft in several safetensors files drafts, and the text is the target’s', async ({ demo, server }) => {
  const folder = test.info().outputPath('draft');
  await writeCheckpoint(folder);
  const tokenizer = fileURLToPath(new URL('../../pair/tokenizer.json', import.meta.url));
  await using checkpoint = await Server.start(['--draft', folder, '--tokenizer', tokenizer]);
  const texts: string[] = [];
  for (const from of [server, checkpoint]) {
    await demo.open(from, { scheme: 'coupled', temperature: 0, maxNewTokens: 24 });
    await demo.run();
    texts.push(await demo.text());
  }
  expect(await demo.counter('acceptanceRate')).toBeLessThan(0.5);
  expect(texts[1]).toBe(texts[0]);
});
