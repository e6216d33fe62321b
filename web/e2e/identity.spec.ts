// At temperature 0 the text is the target's own greedy decoding, whatever travels on the link.

import { expect, test } from './fixtures.js';
import { nativeTexts } from './server.js';

const prompts = [
  'Once upon a time',
  '“Come with me,” said the fox,',
  'The giant lifted his great club',
  'Deep under the mountain',
];
const schemes = [
  { supportSize: 32, latticeResolution: 100, draftLength: 4 },
  { supportSize: 8, latticeResolution: 16, draftLength: 2 },
  { supportSize: 64, latticeResolution: 1000, draftLength: 8 },
];
const maxTokens = 128;
const seed = 1;

for (const scheme of schemes) {
  const { supportSize, latticeResolution, draftLength } = scheme;
  test(`K = ${supportSize}, ℓ = ${latticeResolution}, γ = ${draftLength}: the page, the native client and the server alone agree`, async ({
    demo,
    server,
  }) => {
    const request = { maxTokens, seed, ...scheme };
    const alone = await nativeTexts(server, prompts, { ...request, cloudOnly: true });
    expect(await nativeTexts(server, prompts, request), 'native client and server alone').toEqual(alone);
    await demo.open(server, { scheme: 'k-sqs', temperature: 0, maxNewTokens: maxTokens, seed, ...scheme });
    for (const [index, prompt] of prompts.entries()) {
      await demo.page.locator('#prompt').fill(prompt);
      await demo.run();
      const shown = (await demo.tokens()).map(({ id }) => id);
      expect(shown.length, prompt).toBeGreaterThan(0);
      expect(shown, `${prompt}: page and server alone`).toEqual(alone[index]);
    }
  });
}

test('With four rounds in flight the text is the same', async ({ demo, server }) => {
  const [scheme] = schemes;
  if (!scheme) throw new Error('no scheme');
  const request = { maxTokens, seed, ...scheme };
  const alone = await nativeTexts(server, prompts, { ...request, cloudOnly: true });
  expect(await nativeTexts(server, prompts, { ...request, maxInFlight: 4 })).toEqual(alone);
  await demo.open(server, {
    scheme: 'k-sqs',
    temperature: 0,
    maxNewTokens: maxTokens,
    seed,
    ...scheme,
    draftLength: 2,
    maxInFlight: 4,
  });
  // Over a round trip several rounds are under way when a verdict comes.
  await demo.slide('round-trip', 60);
  for (const [index, prompt] of prompts.slice(0, 2).entries()) {
    await demo.page.locator('#prompt').fill(prompt);
    await demo.run();
    expect(
      Number(await demo.page.locator('[data-counter="wasted"]').getAttribute('data-value')),
    ).toBeGreaterThan(0);
    expect(
      (await demo.tokens()).map(({ id }) => id),
      prompt,
    ).toEqual(alone[index]);
  }
  await demo.run('Cloud only');
  expect((await demo.tokens()).map(({ id }) => id)).toEqual(alone[1]);
});
