// A page without a draft model, which looks its guesses up: nothing of a model is downloaded, the text is the server's.

import { expect, test } from './fixtures.js';
import { writeGrownTarget } from './grown.js';
import { Proxy } from './proxy.mjs';
import { bare, buildRecipes } from './recipes.js';
import { Server } from './server.js';

test('guesses are looked up in the text and in texts of the page, without a draft model', async ({ page }, info) => {
  const script = bare.script.replace("wait: 'draft'", "wait: 'draft', draft: 'lookup'");
  // Passes of the built-in target are over before a guess has come.
  const target = info.outputPath('grown.gguf');
  await writeGrownTarget(target, 32);
  const pages = await buildRecipes([{ ...bare, script }], info.outputPath('pages'));
  // On a busy machine rows are dear, and no guess would be worth its own.
  const flags = ['--target', target, '--own-draft', 'off', '--guesses', 'all'];
  await using server = await Server.start(flags, pages);
  using proxy = await Proxy.before(server.url);
  await page.goto(`${proxy.url}/bare.html`);
  await expect(page.locator('#ready')).toHaveText('ready');
  expect(proxy.requests.map(({ path }) => path)).not.toContain('/pair/draft');
  const written = await page.evaluate(async () => {
    const { outrider } = window;
    const write = async (more: object) => {
      const options = { temperature: 0.5, seed: 4, maxNewTokens: 96, ...more };
      const { text, accepted, serverPasses, tokens } = await outrider.generate('Once upon a time', options).summary;
      return { text, accepted, passesPerToken: serverPasses / tokens };
    };
    const alone = await write({ mode: 'cloud-only' });
    outrider.context.add('the same', `Once upon a time${alone.text}`);
    const looked = await write({});
    const refused = await write({ scheme: 'k-sqs' }).catch((error: unknown) => (error as Error).message);
    return { alone, looked, refused, engine: outrider.engine.engine };
  });
  expect(written.looked.text).toBe(written.alone.text);
  expect(written.alone.passesPerToken).toBe(1);
  // How many come in time depends on what else the machine does.
  expect(written.looked.accepted).toBeGreaterThan(0);
  expect(written.looked.passesPerToken).toBeLessThan(1);
  expect(written.engine).toBe('lookup');
  expect(written.refused).toContain('need a draft model');
});
