// The chat: answers beside their twin, a history that survives a reload, and a model without a chat template.

import { expect, test } from './fixtures.js';
import type { Demo } from './fixtures.js';

const template = [
  '{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}',
  '{% if add_generation_prompt %}<assistant>{% endif %}',
].join('');

/** Gives the page a chat template, which the built-in models have not. */
async function withTemplate(demo: Demo): Promise<void> {
  await demo.page.route('**/pair/chat.json', (route) =>
    route.fulfill({ json: { template, bos_token: '', eos_token: '' } }),
  );
}

/** Waits until the chat does nothing. */
async function idle(demo: Demo): Promise<void> {
  await expect(demo.page.locator('#chat')).toHaveAttribute('data-phase', 'idle', { timeout: 60_000 });
  await expect(demo.alert).toHaveText('');
}

/** Sends a message and waits for its answer and the twin. */
async function say(demo: Demo, said: string): Promise<void> {
  await demo.page.getByLabel('Your message').fill(said);
  // The chat is busy as soon as the click has been handled.
  await demo.page.getByRole('button', { name: 'Send' }).click();
  await idle(demo);
}

/** Tokens that the server's models have read, and how much text that was not written by them. */
async function tokensRead(url: string): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  return Number(/^outrider_tokens_read_total\S* (\S+)/m.exec(metrics)?.[1]);
}

test('a conversation goes on where it was, and what was read is not read again', async ({ demo, ownServer }) => {
  await withTemplate(demo);
  await demo.open(ownServer, { maxNewTokens: 8 }, 'chat');
  const { page } = demo;
  await expect(page.locator('#chat-note')).toHaveText(/remembers the conversation/);
  const story = 'Once upon a time there was a little girl who lived in a house by the sea. '.repeat(4);
  const before = await tokensRead(ownServer.url);
  await say(demo, story);
  await expect(page.locator('.question')).toHaveCount(1);
  await expect(page.locator('.answer .bubble')).toHaveText(/\S/);
  await expect(page.getByLabel('Your message')).toHaveValue('');
  const first = (await tokensRead(ownServer.url)) - before;
  await say(demo, 'And then?');
  await expect(page.locator('.answer')).toHaveCount(2);
  const second = (await tokensRead(ownServer.url)) - before - first;
  expect(second).toBeLessThan(first / 2);

  // A text again, of which the conversation is no part.
  await page.getByRole('link', { name: 'Laboratory' }).click();
  await page.getByLabel('Prompt').fill('The old man');
  await demo.run();
  await expect(page.locator('#output')).not.toContainText('You:');
});

test('an answer does not wait for the draft model, which joins later', async ({ demo, server }) => {
  const { page } = demo;
  let send = (): void => {};
  const asked = new Promise<void>((resolve) => (send = resolve));
  await page.route('**/pair/draft', async (route) => {
    await asked;
    await route.continue();
  });
  let answer = (): void => {};
  const loaded = new Promise<void>((resolve) => (answer = resolve));
  await page.route('**/v1/info', async (route) => {
    await loaded;
    await route.continue();
  });
  await page.goto(`${server.url}/?maxNewTokens=24#chat`);
  // Before the server has answered anything.
  await page.getByLabel('Your message').fill('The old man went');
  await page.getByRole('button', { name: 'Send' }).click();
  await expect(page.locator('#chat-status')).toHaveText('Your message is sent as soon as the server answers.');
  answer();
  await expect(page.locator('#chat')).toHaveAttribute('data-phase', 'answering');
  await idle(demo);
  await expect(page.locator('.answer .bubble')).toHaveText(/\S/);
  await expect(page.locator('#twin-sentence')).toHaveText(
    'The server wrote this answer alone; an answer with drafts has a twin.',
  );
  send();
  await expect(page.locator('#load-text')).toHaveText(/^Draft ready/, { timeout: 60_000 });
  await say(demo, 'The old man went');
  await expect(page.locator('#twin-sentence')).toHaveText(/^The same text, word for word/);
});

test('an answer has a twin of the same words, and three numbers', async ({ demo, server }) => {
  const { page } = demo;
  await demo.open(server, { maxNewTokens: 48, temperature: 0 }, 'chat');
  await page.getByRole('button', { name: 'The old man went to the river and' }).click();
  await idle(demo);
  await expect(page.locator('#twin-sentence')).toHaveText(
    /^The same text, word for word\. (Drafting was|No pass was saved|Too few passes)/,
  );
  const textOf = async (place: string) => (await page.locator(place).innerText()).replace(/\s+/g, ' ').trim();
  const answer = await textOf('.answer .bubble');
  expect(await textOf('#twin-text')).toBe(answer);
  await expect(page.locator('#gain-speed-note')).toHaveText(/^([\d.]+ ×|as) the server alone$/);
  await expect(page.locator('#gain-passes')).toHaveText(/^\d+$/);
  await expect(page.locator('#gain-time')).toHaveText(/s$/);
  // What is read aloud is the confirmed text, each sentence once.
  expect(await textOf('#chat-spoken')).toBe(answer);
});

test('a chat survives a reload; messages are edited, answers written again, and all is forgotten', async ({
  demo,
  server,
}) => {
  const { page } = demo;
  await withTemplate(demo);
  await demo.open(server, { maxNewTokens: 12 }, 'chat');
  await say(demo, 'Hello');
  const first = await page.locator('.answer .bubble').textContent();
  await page.reload();
  await demo.ready();
  await expect(page.locator('.question .bubble')).toHaveText('You: Hello', { useInnerText: false });
  await expect(page.locator('.answer .bubble')).toHaveText(first ?? '', { useInnerText: false });

  await page.getByRole('button', { name: 'Regenerate' }).click();
  await idle(demo);
  await expect(page.locator('.answer')).toHaveCount(1);

  await say(demo, 'And?');
  await page.getByRole('button', { name: 'Edit message 1' }).click();
  await expect(page.getByLabel('Your message')).toHaveValue('Hello');
  await page.keyboard.press('Escape');
  await expect(page.getByLabel('Your message')).toHaveValue('');
  await page.getByRole('button', { name: 'Edit message 1' }).click();
  await say(demo, 'Good morning');
  await expect(page.locator('.question')).toHaveCount(1);
  await expect(page.locator('.question .bubble')).toContainText('Good morning');

  await page.getByRole('button', { name: 'New chat' }).click();
  await expect(page.locator('.question')).toHaveCount(0);
  await expect(page.locator('#starters')).toBeVisible();
  await page.reload();
  await demo.ready();
  await expect(page.locator('.question')).toHaveCount(0);
});

test('an answer goes on after a reload in its middle, and stops when asked to', async ({ demo, server }) => {
  const { page } = demo;
  await demo.open(server, { maxNewTokens: 128, temperature: 0, roundTrip: 200, scheme: 'k-sqs' }, 'chat');
  await page.getByLabel('Your message').fill('Once upon a time');
  await page.keyboard.press('Enter');
  await expect(page.locator('.answer .bubble')).toHaveText(/\S+ \S+ \S+/);
  await page.reload();
  await expect(page.locator('#chat')).toHaveAttribute('data-phase', 'answering', { timeout: 60_000 });
  await expect(page.locator('.answer .bubble')).toHaveText(/\S+ \S+ \S+ \S+/);
  await page.getByRole('button', { name: 'Stop' }).click();
  await idle(demo);
  await expect(page.locator('.costs')).toHaveText(/stopped$/);
  await expect(page.getByLabel('Your message')).toBeFocused();
});

test('a model without a form for conversations goes on with one story, and the page says so', async ({
  demo,
  server,
}) => {
  await demo.open(server, { maxNewTokens: 8 }, 'chat');
  const { page } = demo;
  await expect(page.locator('#chat-note')).toHaveText(/This model continues stories/);
  await say(demo, 'Once upon a time');
  const first = await demo.text();
  await say(demo, 'The wolf');
  await expect(page.locator('#output .given')).toHaveText(`Once upon a time${first.trimEnd()} The wolf`, {
    useInnerText: false,
  });
  await page.getByRole('button', { name: 'New chat' }).click();
  await say(demo, 'A king');
  await expect(page.locator('#output .given')).toHaveText('A king', { useInnerText: false });
});

for (const [width, height] of [
  [1280, 800],
  [390, 844],
] as const) {
  test(`the first screen has the chat and the three numbers at ${width} × ${height}`, async ({ demo, server }) => {
    const { page } = demo;
    await page.setViewportSize({ width, height });
    await demo.open(server, {}, 'chat');
    const ids = ['message', 'send', 'gain-speed', 'gain-passes', 'gain-time', 'chat-status'].map((id) => `#${id}`);
    // A browser scrolls to the element that has the name of the view unless the page prevents it.
    for (const part of ['.masthead > p', '#views', ...ids]) {
      await expect(page.locator(part)).toBeInViewport({ ratio: 1 });
    }
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    await page.getByLabel('Your message').fill('Once upon a time');
    await page.keyboard.press('Enter');
    await expect(page.locator('.costs')).toHaveText(/tokens/, { timeout: 60_000 });
    await expect(page.locator('.costs')).toBeInViewport();
  });
}

test('the end of the chat stays in view, also where the page needs its place, unless the reader has scrolled up', async ({
  demo,
  server,
}) => {
  const { page } = demo;
  await page.addInitScript(() => {
    // Empty documents before the page have no storage.
    if (location.protocol === 'about:') return;
    const turn = { said: 'And then?', answer: 'They went on. '.repeat(40), costs: '2 tokens in 2 passes' };
    localStorage.setItem('outrider.chat', JSON.stringify([turn, turn, turn]));
  });
  await page.setViewportSize({ width: 390, height: 844 });
  await demo.open(server, {}, 'chat');
  const end = page.locator('.costs').last();
  await expect(end).toBeInViewport({ ratio: 1 });
  await page.setViewportSize({ width: 390, height: 760 });
  await expect(end).toBeInViewport({ ratio: 1 });
  await page.setViewportSize({ width: 390, height: 844 });
  await page.route('**/pair/draft', (route) => route.fulfill({ status: 404 }));
  await page.reload();
  await expect(demo.alert).toHaveText(/./, { timeout: 30_000 });
  await expect(end).toBeInViewport({ ratio: 1 });
  const log = page.locator('#chat-log');
  await log.evaluate((log) => log.scrollTo(0, 0));
  await page.setViewportSize({ width: 390, height: 760 });
  await expect(end).not.toBeInViewport();
  expect(await log.evaluate((log) => log.scrollTop)).toBe(0);
});

test('a long chat scrolls inside its panel alone, and is printed whole', async ({ demo, server }) => {
  const { page } = demo;
  await page.addInitScript(() => {
    // Empty documents before the page have no storage.
    if (location.protocol === 'about:') return;
    const turn = { said: 'And then?', answer: 'They went on. '.repeat(40), costs: '2 tokens in 2 passes' };
    localStorage.setItem('outrider.chat', JSON.stringify(Array.from({ length: 8 }, () => turn)));
  });
  await demo.open(server, {}, 'chat');
  for (const [width, height] of [
    [1280, 800],
    [390, 844],
  ] as const) {
    await page.setViewportSize({ width, height });
    const empty = await page.evaluate(() => {
      const { scrollHeight } = document.documentElement;
      return scrollHeight - Math.max(innerHeight, document.body.getBoundingClientRect().bottom + scrollY);
    });
    expect(empty, `empty height at ${width} × ${height}`).toBeLessThanOrEqual(1);
  }
  await page.emulateMedia({ media: 'print' });
  const hidden = await page.locator('#chat-log').evaluate((log) => log.scrollHeight - log.clientHeight);
  expect(hidden).toBeLessThanOrEqual(1);
});

test('the chat leaves a text of another view alone, and can stop it', async ({ demo, server }) => {
  const { page } = demo;
  await demo.open(server, { maxNewTokens: 256, scheme: 'k-sqs', roundTrip: 300 });
  await demo.start();
  await demo.waitForTokens(2);
  // Escape closes the card alone.
  await page.locator('#output [data-token-id]').first().hover();
  await page.keyboard.press('Escape');
  await expect(page.locator('#token-card')).toBeHidden();
  await expect(demo.main).toHaveAttribute('data-state', 'generating');
  await demo.set('temperature', 0.5);

  await page.getByRole('link', { name: 'Chat' }).click();
  await page.getByLabel('Your message').fill('Once upon a time');
  await page.keyboard.press('Enter');
  await expect(demo.alert).toHaveText('Another text is being written. Stop it, then try again.');
  await expect(page.getByLabel('Your message')).toHaveValue('Once upon a time');
  await expect(page.locator('.question')).toHaveCount(0);
  await page.getByRole('button', { name: 'Stop' }).click();
  await expect(demo.main).toHaveAttribute('data-finish', 'cancelled');
  await expect(page.getByRole('button', { name: 'Stop' })).toBeHidden();

  // The address has the settings of now, and the run has its own.
  await page.goBack();
  await expect(page).toHaveURL(/temperature=0\.5.*#laboratory$/);
  const settings = page.locator('#runs-table a');
  await expect(settings).toHaveAttribute('href', /roundTrip=300/);
  await expect(settings).not.toHaveAttribute('href', /temperature/);
});

test('Continue goes on with the text that is shown, whichever view wrote it', async ({ demo, server }) => {
  const { page } = demo;
  await demo.open(server, { maxNewTokens: 8, seed: 3 });
  await demo.run();
  await page.getByRole('link', { name: 'Chat' }).click();
  await say(demo, 'The old man');
  await page.getByRole('link', { name: 'Laboratory' }).click();
  const shown = `The old man${await demo.text()}`;
  await demo.run('Continue');
  await expect(page.locator('#output .given')).toHaveText(shown, { useInnerText: false });
});

test('HTML in a text does nothing', async ({ demo, server }) => {
  const { page } = demo;
  await page.addInitScript(() => {
    // Empty documents before the page have no storage.
    if (location.protocol === 'about:') return;
    const answer = '<img src=x onerror="window.hurt = 1"><script>window.hurt = 1</script>[a](javascript:hurt=1) **b**';
    localStorage.setItem('outrider.chat', JSON.stringify([{ said: '<b onclick="hurt=1">x</b>', answer }]));
  });
  await demo.open(server, {}, 'chat');
  await expect(page.locator('.answer strong')).toHaveText('b');
  await expect(page.locator('.answer :is(img, script), .answer [href^="javascript"], .question b')).toHaveCount(0);
  expect(await page.evaluate(() => 'hurt' in window)).toBe(false);
});
