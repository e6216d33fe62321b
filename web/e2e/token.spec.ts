// A server that wants a token, as a page meets it.

import { writeFile } from 'node:fs/promises';
import { expect, test } from './fixtures.js';
import { Server } from './server.js';

const token = '0123456789abcdef';

test('a server with tokens says so, and takes the one from the address', async ({ demo }, info) => {
  const file = info.outputPath('tokens');
  await writeFile(file, `alice ${token}\n`);
  await using server = await Server.start(['--tokens-file', file]);
  await demo.page.goto(server.url);
  await expect(demo.alert).toHaveText(/requires an access token/, { timeout: 60_000 });
  await demo.page.goto(`${server.url}/?token=fedcba9876543210`);
  await expect(demo.alert).toHaveText(/requires an access token/, { timeout: 60_000 });
  await demo.page.goto(`${server.url}/?token=${token}&maxNewTokens=8`);
  await demo.ready();
  expect(demo.page.url()).not.toContain(token);
  await demo.run();
  expect((await demo.tokens()).length).toBeGreaterThan(0);
  // What is changed or loaded again neither brings it back nor loses it.
  await demo.slide('round-trip', 50);
  await expect(demo.page).toHaveURL(/roundTrip=50/);
  await demo.page.reload();
  await demo.ready();
  expect(demo.page.url()).not.toContain(token);
});
