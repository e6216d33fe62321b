// Answers of a form: JSON of a schema that a page drafts, with each scheme and over a link that is cut.

import { expect, test } from './fixtures.js';
import { Proxy } from './proxy.mjs';
import { bare, buildRecipes } from './recipes.js';
import { Server } from './server.js';

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
  const write = (more: object) =>
    page.evaluate(
      async ({ schema, more }) => {
        const responseFormat = { type: 'json_schema', json_schema: { name: 'cat', schema } } as const;
        const options = { responseFormat, temperature: 0.9, seed: 3, maxNewTokens: 120, ...more };
        const { text, finish } = await window.outrider.generate('Once upon a time', options).summary;
        return { value: JSON.parse(text) as { name: string; color: string }, text, finish };
      },
      { schema, more },
    );
  const [ahead, alone] = [await write({}), await write({ mode: 'cloud-only' })];
  expect(ahead).toEqual(alone);
  for (const scheme of ['k-sqs', 'dssd', 'coupled']) {
    const { value, finish } = await write({ scheme });
    expect([Object.keys(value), finish]).toEqual([['name', 'color'], 'eos']);
    expect(['red', 'green']).toContain(value.color);
  }
  const cut = write({});
  await page.waitForTimeout(150);
  proxy.cut();
  expect((await cut).text).toBe(ahead.text);
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
