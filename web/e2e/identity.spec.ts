// At temperature 0 the text is the target's own greedy decoding, whatever travels on the link.

import { expect, test } from './fixtures.js';
import { nativeTokenIds } from './server.js';

const prompts = [
  'Once upon a time',
  'There was once a king who had',
  'The little girl ran into the',
  'In the middle of the forest',
  '“Come with me,” said the fox,',
  'The old woman looked at the boy and',
  'Long ago, when the world was young,',
  'A poor miller had three sons, and',
  'The giant lifted his great club',
  'It was a cold winter night, and the snow',
  'The princess opened the golden box',
  '“Who are you?” asked the rabbit.',
  'By the side of the sea there lived',
  'The youngest brother said nothing, but',
  'When the sun rose over the hills',
  'The cat sat by the fire and',
  'Every morning the shepherd',
  'Deep under the mountain',
  'The fairy waved her wand, and',
  'At last they came to a castle',
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
    test.setTimeout(15 * 60_000);
    await demo.open(server, { scheme: 'k-sqs', temperature: 0, maxNewTokens: maxTokens, seed, ...scheme });
    for (const prompt of prompts) {
      await demo.page.locator('#prompt').fill(prompt);
      await demo.run();
      const shown = (await demo.tokens()).map(({ id }) => id);
      const request = { prompt, maxTokens, seed, ...scheme };
      const cloudOnly = await nativeTokenIds(server, { ...request, cloudOnly: true });
      expect(cloudOnly.length, prompt).toBeGreaterThan(0);
      expect(shown, `${prompt}: page and server alone`).toEqual(cloudOnly);
      expect(await nativeTokenIds(server, request), `${prompt}: native client and server alone`).toEqual(
        cloudOnly,
      );
    }
  });
}

test('With four rounds in flight the text is the same', async ({ demo, server }) => {
  const [scheme] = schemes;
  if (!scheme) throw new Error('no scheme');
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
  for (const prompt of prompts.slice(0, 3)) {
    await demo.page.locator('#prompt').fill(prompt);
    await demo.set('maxInFlight', 4);
    await demo.run();
    const together = (await demo.tokens()).map(({ id }) => id);
    expect(
      Number(await demo.page.locator('[data-counter="wasted"]').getAttribute('data-value')),
    ).toBeGreaterThan(0);
    await demo.set('maxInFlight', 1);
    await demo.run();
    expect(together, prompt).toEqual((await demo.tokens()).map(({ id }) => id));
    const request = { prompt, maxTokens, seed, ...scheme };
    expect(together, prompt).toEqual(await nativeTokenIds(server, { ...request, maxInFlight: 4 }));
    expect(together, prompt).toEqual(await nativeTokenIds(server, { ...request, cloudOnly: true }));
  }
});

test('Cloud only on the page agrees with the native client', async ({ demo, server }) => {
  await demo.open(server, { temperature: 0, maxNewTokens: maxTokens, seed });
  const [scheme] = schemes;
  if (!scheme) throw new Error('no scheme');
  for (const prompt of prompts.slice(0, 3)) {
    await demo.page.locator('#prompt').fill(prompt);
    await demo.run('Cloud only');
    const shown = (await demo.tokens()).map(({ id }) => id);
    expect(shown).toEqual(
      await nativeTokenIds(server, { prompt, maxTokens, seed, ...scheme, cloudOnly: true }),
    );
  }
});
