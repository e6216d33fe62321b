// At temperature 0 the text is the target's own greedy decoding, whatever travels on the link.

import { expect, rounds, test } from './fixtures.js';
import { nativeTexts } from './server.js';

const prompts = [
  'Once upon a time',
  '“Come with me,” said the fox,',
  'The giant lifted his great club',
  'Deep under the mountain',
] as const;
const maxTokens = 128;
const seed = 1;
const request = { maxTokens, seed, ...rounds };
const query = { scheme: 'k-sqs', temperature: 0, maxNewTokens: maxTokens, seed, ...rounds };

test('the page, the native client and the server alone agree', async ({ demo, server }) => {
  const alone = await nativeTexts(server, prompts, { ...request, cloudOnly: true });
  expect(await nativeTexts(server, prompts, request), 'native client and server alone').toEqual(alone);
  await demo.open(server, query);
  for (const [index, prompt] of prompts.entries()) {
    await demo.page.locator('#prompt').fill(prompt);
    await demo.run();
    const shown = await demo.ids();
    expect(shown.length, prompt).toBeGreaterThan(0);
    expect(shown, `${prompt}: page and server alone`).toEqual(alone[index]);
  }
});

test('with four rounds in flight the text is the same', async ({ demo, server }) => {
  const alone = await nativeTexts(server, prompts, { ...request, cloudOnly: true });
  expect(await nativeTexts(server, prompts, { ...request, maxInFlight: 4 })).toEqual(alone);
  await demo.open(server, { ...query, draftLength: 2, maxInFlight: 4 });
  // Over a round trip several rounds are under way when a verdict comes.
  await demo.slide('round-trip', 60);
  await demo.page.locator('#prompt').fill(prompts[0]);
  await demo.run();
  expect(await demo.counter('wasted')).toBeGreaterThan(0);
  expect(await demo.ids()).toEqual(alone[0]);
});
