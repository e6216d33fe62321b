// The package on pages without a bundler, served beside what `npm run package` makes: examples/page, and README's lines.

import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { build } from 'vite';
import { violations } from './axe.js';
import { expect, test } from './fixtures.js';
import { Server } from './server.js';

const repository = path.resolve(import.meta.dirname, '../..');
let folder: string;
let server: Server;

test.beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'outrider-'));
  const outDir = path.join(folder, 'outrider');
  const root = path.join(repository, 'web');
  // Of the four builds of the engine, those that the tests have made.
  process.env.OUTRIDER_SOME_BUILDS = '1';
  await build({ root, mode: 'package', logLevel: 'warn', build: { outDir, emptyOutDir: true } });
  server = await Server.start([], folder);
});

test.afterAll(async () => {
  await server?.kill();
  await rm(folder, { recursive: true });
});

test('a plain page drafts with the package', async ({ page }) => {
  await copyFile(path.join(repository, 'examples/page/index.html'), path.join(folder, 'index.html'));
  await page.goto(server.url);
  await expect(page.locator('#status')).toHaveText(/^Ready: /);
  await page.getByRole('button', { name: 'Generate' }).click();
  await expect(page.locator('#status')).toHaveText(/^\d+ tokens, \d+ guessed here in time; \d+ forward passes/);
  expect(await page.locator('#text').textContent()).toMatch(/[a-z]{3}/);
  // By default drafts are made ahead of the server.
  expect(await page.locator('#text [data-origin]').count()).toBeGreaterThan(0);
  expect(await page.locator('#text').locator('[data-origin="resampled"], [data-origin="bonus"]').count()).toBe(0);
  // A text takes the place of the one that is being written, and the same seed writes the same.
  const written = (await page.locator('#text').textContent()) ?? '';
  await page.locator('button').evaluate(async (button: HTMLButtonElement) => {
    button.click();
    const text = document.querySelector('#text')!;
    await new Promise<void>((resolve) =>
      new MutationObserver(() => text.firstChild && resolve()).observe(text, { childList: true }),
    );
    button.click();
  });
  await expect(page.locator('#text')).toHaveText(written, { useInnerText: false });
  await page.waitForTimeout(500);
  expect(await page.locator('#text').textContent()).toBe(written);
});

test('README’s lines run as they are', async ({ page }) => {
  const readme = await readFile(path.join(repository, 'README.md'), 'utf8');
  const lines = /```ts\n([^]*?)```/.exec(readme)?.[1]?.replace("'outrider'", "'./outrider/outrider.js'");
  const here = lines?.replace('http://127.0.0.1:8787', server.url);
  const script = `${here}document.title = \`\${tokens} \${serverPasses}\`;`;
  await writeFile(path.join(folder, 'readme.html'), `<body><script type="module">${script}</script></body>`);
  await page.goto(`${server.url}/readme.html`);
  await expect(page).toHaveTitle(/^\d+ \d+$/);
  expect(await page.locator('body').textContent()).toMatch(/[a-z]{3}/);
});

test('a chat element answers, by keyboard and without a broken rule of accessibility', async ({ page }) => {
  const script = `import './outrider/chat-element.js';
    const chat = document.querySelector('outrider-chat');
    chat.generateOptions = { maxNewTokens: 400, seed: 5, temperature: 0 };
    for (const type of ['message', 'error']) chat.addEventListener(type, ({ detail }) => (chat.title += type[0]));`;
  await writeFile(
    path.join(folder, 'chat.html'),
    `<!doctype html><html lang="en"><title>Chat</title><main><h1>Chat</h1><outrider-chat label="Tales" system="Tell a tale.">
     </outrider-chat></main><script type="module">${script}</script></html>`,
  );
  await page.goto(`${server.url}/chat.html`);
  const log = page.getByRole('log', { name: 'Tales' });
  const input = page.getByRole('textbox', { name: 'Message' });
  const send = page.getByRole('button', { name: 'Send' });
  const chat = page.locator('outrider-chat');
  const messages = () => chat.evaluate((chat) => (chat as HTMLElementTagNameMap['outrider-chat']).messages);
  expect(await violations(page)).toEqual([]);
  await input.fill('A fox');
  await input.press('Shift+Enter');
  await input.pressSequentially('and a hen');
  // The whole answer may come before a test looks a second time.
  const busy = log.evaluate(
    (log) =>
      new Promise<true>((resolve) => {
        const observer = new MutationObserver(([record]) => {
          if (record?.oldValue === 'true' || log.getAttribute('aria-busy') === 'true') resolve(true);
        });
        observer.observe(log, { attributeFilter: ['aria-busy'], attributeOldValue: true });
      }),
  );
  await input.press('Enter');
  expect(await busy).toBe(true);
  await expect(log.locator('p').last()).toHaveText(/^Assistant: .*[a-z]{3}/s);
  await input.press('Escape');
  await expect(send).toBeVisible();
  await expect(log).toHaveAttribute('aria-busy', 'false');
  await expect(log.locator('p').first()).toHaveText('You: A fox\nand a hen');
  const [asked, answered] = await messages();
  expect(asked).toEqual({ role: 'user', content: 'A fox\nand a hen' });
  expect(await log.locator('p').last().textContent()).toBe(`Assistant: ${String(answered?.content)}`);
  expect(await violations(page)).toEqual([]);
  await expect(input).toBeFocused();

  // A reader who has scrolled up stays there while an answer grows, and Escape ends it from the log, too.
  const tops = log.evaluate(
    (log) =>
      new Promise<number[]>((resolve) => {
        const tops: number[] = [];
        log.style.maxHeight = '3rem';
        const observer = new MutationObserver(() => {
          if (log.scrollHeight < 2 * log.clientHeight || !log.lastElementChild?.textContent?.startsWith('Assistant: '))
            return;
          if (tops.push(log.scrollTop) === 1) log.scrollTop = 0;
          if (tops.length < 4) return;
          observer.disconnect();
          log.focus();
          log.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true, composed: true }));
          resolve(tops);
        });
        observer.observe(log, { childList: true, subtree: true });
      }),
  );
  await input.fill('And then?');
  await input.press('Enter');
  expect((await tops).slice(1)).toEqual([0, 0, 0]);
  await expect(send).toBeVisible();
  expect(String((await messages()).at(-1)?.content).length).toBeLessThan(400);
  await chat.evaluate((chat) => {
    const element = chat as HTMLElementTagNameMap['outrider-chat'];
    element.messages = element.messages.slice(0, 2);
    element.title = 'mm';
  });

  // Options that are refused are an error, and the text comes back.
  await chat.evaluate((chat) => Object.assign(chat, { generateOptions: { temperature: -1 } }));
  await input.fill('Again');
  await send.click();
  await expect(page.getByRole('alert')).toHaveText(/^temperature must be/);
  await expect(input).toHaveValue('Again');
  await expect(log.locator('p')).toHaveCount(2);
  expect(await violations(page)).toEqual([]);
  await expect(chat).toHaveAttribute('title', 'mme');

  // A conversation that is set is shown; an element that is moved goes on.
  await chat.evaluate((chat) => {
    const hello = [{ role: 'user', content: 'Hello' }];
    Object.assign(chat, { generateOptions: { maxNewTokens: 8 }, messages: hello });
    document.body.append(chat);
  });
  await expect(log.locator('p')).toHaveText('You: Hello');
  await send.click();
  await expect(log.locator('p').last()).toHaveText(/^Assistant: .*[a-z]{2}/s);
  await expect.poll(async () => (await messages()).length).toBe(3);
});
