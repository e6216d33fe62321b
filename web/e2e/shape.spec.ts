// Answers of a form: JSON of a schema that a page drafts, with each scheme and over a link that is cut.

import { expect, test } from './fixtures.js';
import { Proxy } from './proxy.mjs';
import { bare, buildRecipes } from './recipes.js';
import { Server } from './server.js';

declare global {
  interface Window {
    /** Receives the number of tokens of a text that is to be cut. */
    wrote?: (count: number) => Promise<void>;
  }
}

const schema = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 12 }, color: { enum: ['red', 'green'] } },
  required: ['name', 'color'],
  additionalProperties: false,
};

test('an answer fits its schema, whoever drafts, and goes on after a cut', async ({ page }, info) => {
  await using server = await Server.start([], await buildRecipes([bare], info.outputPath('pages')));
  using proxy = await Proxy.before(server.url, { roundTripMs: 40 });
  await page.goto(`${proxy.url}/bare.html`);
  await expect(page.locator('#ready')).toHaveText('ready');
  const write = (more: { tells?: boolean } & Record<string, unknown>) =>
    page.evaluate(
      async ({ schema, more: { tells = false, ...more } }) => {
        const responseFormat = { type: 'json_schema', json_schema: { name: 'cat', schema } } as const;
        const options = { responseFormat, temperature: 0.9, seed: 3, maxNewTokens: 120, ...more };
        const generation = window.outrider.generate('Once upon a time', options);
        let count = 0;
        for await (const _ of generation) if (tells) await window.wrote?.((count += 1));
        const { text, finish } = await generation.summary;
        return { count, value: JSON.parse(text) as { name: string; color: string }, text, finish };
      },
      { schema, more },
    );
  const [ahead, alone] = [await write({}), await write({ mode: 'cloud-only' })];
  expect(ahead.text).toBe(alone.text);
  for (const scheme of ['k-sqs', 'dssd', 'coupled']) {
    const { value, finish } = await write({ scheme });
    expect([Object.keys(value), finish]).toEqual([['name', 'color'], 'eos']);
    expect(['red', 'green']).toContain(value.color);
  }
  // So slow that it is cut in the middle.
  await page.evaluate(() => window.outrider.setLink({ downlinkBitsPerSecond: 3000 }));
  let cutAt = 0;
  await page.exposeFunction('wrote', (count: number) => {
    if (count < 4 || cutAt > 0) return;
    cutAt = count;
    proxy.cut();
  });
  const cut = write({ tells: true });
  const { text, count } = await cut;
  expect(text).toBe(ahead.text);
  expect(cutAt).toBeGreaterThan(0);
  expect(cutAt).toBeLessThan(count);
  const forced = await page.evaluate(async () => {
    const parameters = { type: 'object', properties: { city: { enum: ['Bonn'] } }, required: ['city'] };
    const { choices } = await window.outrider.chat.completions.create({
      messages: [{ role: 'user', content: 'Where?' }],
      response_format: { type: 'json_schema', json_schema: { schema: parameters } },
      frequency_penalty: 0.5,
      seed: 2,
      max_tokens: 100,
    });
    return JSON.parse(choices[0]!.message.content!) as { city: string };
  });
  expect(forced.city).toBe('Bonn');
});
