import { expect, test } from './fixtures.js';

const template = [
  '{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}',
  '{% if add_generation_prompt %}<assistant>{% endif %}',
].join('');

/** Tokens that the server's models have read, and how much text that was not written by them. */
async function tokensRead(url: string): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  return Number(/^outrider_tokens_read_total\S* (\S+)/m.exec(metrics)?.[1]);
}

test('a conversation goes on where it was, and what was read is not read again', async ({ demo, ownServer }) => {
  await demo.page.route('**/pair/chat.json', (route) =>
    route.fulfill({ json: { template, bos_token: '', eos_token: '' } }),
  );
  await demo.open(ownServer, { maxNewTokens: 8 }, 'chat');
  const { page } = demo;
  await expect(page.locator('#chat-note')).toHaveText(/has a chat template/);
  const prompt = page.getByLabel('Your message');
  const story = 'Once upon a time there was a little girl who lived in a house by the sea. '.repeat(4);
  await prompt.fill(story);
  const before = await tokensRead(ownServer.url);
  await demo.run('Send');
  await expect(page.locator('#output')).toContainText(/You: Once upon a time[^]*Model:\s+\S/);
  await expect(prompt).toHaveValue('');
  const first = (await tokensRead(ownServer.url)) - before;

  await prompt.fill('And then?');
  await demo.run('Send');
  await expect(page.locator('#output')).toContainText(/You: And then\?\s+Model:\s+\S/);
  const second = (await tokensRead(ownServer.url)) - before - first;
  expect(second).toBeLessThan(first / 2);

  // A text again, of which the conversation is no part.
  await page.getByRole('link', { name: 'Laboratory' }).click();
  await page.getByLabel('Prompt').fill('The old man');
  await demo.run();
  await expect(page.locator('#output')).not.toContainText('You:');
});

test('a model without a form for conversations goes on with one story, and the page says so', async ({
  demo,
  server,
}) => {
  await demo.open(server, { maxNewTokens: 8, prompt: 'Once upon a time' }, 'chat');
  const { page } = demo;
  await expect(page.locator('#chat-note')).toHaveText(/has no chat template: it continues stories/);
  await demo.run('Send');
  const first = await demo.text();
  await page.getByLabel('Your message').fill('The wolf');
  await demo.run('Send');
  await expect(page.locator('#output .given')).toHaveText(`Once upon a time${first.trimEnd()} The wolf`);
  await page.getByRole('button', { name: 'Start over' }).click();
  await page.getByLabel('Your message').fill('A king');
  await demo.run('Send');
  await expect(page.locator('#output .given')).toHaveText('A king');
});
