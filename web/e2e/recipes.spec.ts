// The recipes run as they stand in docs/recipes.md, and beside them what only the package's own API can be asked.

import path from 'node:path';
import type { Page } from '@playwright/test';
import type * as Package from '../src/outrider/index.js';
import { expect, test } from './fixtures.js';
import { bare, buildRecipes, readRecipes, startHost } from './recipes.js';
import type { Recipe } from './recipes.js';
import { Server } from './server.js';

const repository = path.resolve(import.meta.dirname, '../..');
let recipes: Recipe[];
let server: Server;

test.beforeAll(async ({}, info) => {
  test.setTimeout(120_000);
  recipes = await readRecipes();
  const pages = await buildRecipes([...recipes, bare], info.outputPath('recipes'));
  server = await Server.start([], pages);
});

test.afterAll(async () => {
  await server?.kill();
});

const text = /[a-z]{3}/;

/** Opens the recipe of this name; an uncaught error fails the test. */
async function open(page: Page, name: string): Promise<void> {
  await page.goto(`${server.url}/${name}.html`);
}

/** The page with a loaded instance. */
async function openBare(page: Page): Promise<void> {
  await open(page, 'bare');
  await expect(page.locator('#ready')).toHaveText('ready');
}

test.beforeEach(({ page }) => {
  const errors: Error[] = [];
  page.on('pageerror', (error) => errors.push(error));
  page.once('close', () => expect(errors, 'uncaught errors on the page').toEqual([]));
});

/** The expected result of each recipe; a new recipe fails until it is here. */
const shows: Record<string, (page: Page) => Promise<void>> = {
  'an-answer-as-json': async (page) => {
    await expect(page.locator('#cat li')).toHaveText([/^name: .{0,12}$/, /^color: (black|white)$/]);
  },
  'stream-a-text-into-a-page': async (page) => {
    await expect(page.locator('#status')).toHaveText('Ready');
    // Over a slow link: else the text is there before it can be stopped.
    await page.evaluate(() => {
      const post = Worker.prototype.postMessage;
      const link = { uplinkBitsPerSecond: null, downlinkBitsPerSecond: 8000, roundTripMs: 0 };
      Worker.prototype.postMessage = function (this: Worker, message: { type: string }) {
        if (message.type === 'generate') post.call(this, { type: 'link', link });
        post.call(this, message);
      };
      const button = (id: string) => document.querySelector<HTMLButtonElement>(`#${id}`);
      const observer = new MutationObserver(() => {
        button('stop')?.click();
        observer.disconnect();
      });
      button('write')?.click();
      observer.observe(document.querySelector('#text') ?? document, { childList: true });
    });
    await expect(page.locator('#status')).toHaveText(/^cancelled: \d+ tokens, \d+ guessed here in time, \d+ forward/);
    await expect(page.locator('#text')).not.toHaveText('');
    // The next text may take the place of the one that runs.
    await page.getByRole('button', { name: 'Write' }).click();
    await page.getByRole('button', { name: 'Write' }).click();
    await expect(page.locator('#status')).toHaveText(/^(length|eos|stop): \d+ tokens/, { timeout: 30_000 });
  },
  'chat-with-tools': async (page) => {
    await expect(page.locator('#tokens')).toHaveText(/^\d\d tokens$/);
    await expect(page.locator('#said li')).toHaveText([/^user: What is/, /^assistant: [^]*[a-z]{3}/]);
  },
  'resume-after-a-reload': async (page) => {
    // The text is written faster than a page reloads: its first state takes the place of the last.
    await page.addInitScript(() => {
      const setItem = Storage.prototype.setItem;
      Storage.prototype.setItem = function (this: Storage, key, value) {
        if (this.getItem('first') === null) setItem.call(this, 'first', value);
        setItem.call(this, key, value);
      };
    });
    await page.reload();
    await expect(page.locator('#status')).toHaveText('whole');
    const whole = await page.locator('#text').textContent();
    const known = await page.evaluate(() => {
      const first = sessionStorage.getItem('first') ?? '';
      sessionStorage.setItem('text', first);
      return (JSON.parse(first) as Package.SuspendedGeneration).tokens.map(({ text }) => text).join('');
    });
    expect(known.length).toBeLessThan(whole?.length ?? 0);
    await page.reload();
    await expect(page.locator('#status')).toHaveText('resumed');
    expect(await page.locator('#text').textContent()).toBe(whole);
  },
  'draft-with-a-model-of-ones-own': async (page) => {
    await expect(page.locator('#kept')).toHaveText(/^http:\S+\/pair\/draft: \d{6,} bytes$/);
    await expect(page.locator('#draft')).toHaveText(/^\d{6,7} bytes$/);
    await page.locator('#file').setInputFiles(path.join(repository, 'pair/target/target-f16.gguf'));
    await expect(page.locator('#draft')).toHaveText(/^\d{8} bytes$/, { timeout: 60_000 });
    await expect(page.locator('#text')).toHaveText(text);
    await page.getByRole('button', { name: 'Forget' }).click();
    await expect(page.locator('#kept')).toHaveText('');
  },
  'in-react': async (page) => {
    await page.getByRole('button', { name: 'Write' }).click();
    await expect(page.locator('footer')).toHaveText(/^\d+ forward passes$/);
    await expect(page.locator('p')).toHaveText(text);
  },
  'a-chat-as-an-element': async (page) => {
    await page.getByRole('textbox', { name: 'Message' }).fill('Hello');
    await page.keyboard.press('Enter');
    await expect(page.getByRole('log').locator('p').last()).toHaveText(/^Assistant: .*[a-z]{3}/s);
    await expect(page.locator('#said')).toHaveText(/^(user|assistant)$/, { timeout: 30_000 });
  },
  'log-probabilities': async (page) => {
    await expect(page.locator('tr')).toHaveCount(16);
    await expect(
      page
        .locator('td:nth-child(3)')
        .filter({ hasText: /^-\d+\.\d{3}$/ })
        .first(),
    ).toBeVisible();
    await expect(
      page
        .locator('td:nth-child(4)')
        .filter({ hasText: /\d\.\d\d\/\d\.\d\d/ })
        .first(),
    ).toBeVisible();
  },
  'in-the-shape-of-openais-client': async (page) => {
    await expect(page.locator('#text')).toHaveText(/[a-z]{3}.* … .*[a-z]{3}/s);
    const usage = JSON.parse((await page.locator('#usage').textContent()) ?? '') as Package.CompletionUsage;
    expect(usage.completion_tokens).toBeGreaterThan(0);
    expect(usage.total_tokens).toBe(usage.prompt_tokens + usage.completion_tokens);
    expect(usage.outrider.server_passes).toBeGreaterThan(0);
  },
  'with-a-client-of-openais-api': async (page) => {
    await expect(page.locator('li')).toHaveText([text, text, text, text]);
    // The text of a seed is the server's own.
    const [messages, options] = [[{ role: 'user', content: 'Tell me a story.' }], { max_tokens: 32, seed: 5 }];
    const answer = await page.request.post(`${server.url}/v1/chat/completions`, { data: { messages, ...options } });
    const { choices, usage } = (await answer.json()) as Package.ChatCompletion;
    await expect(page.locator('#text')).toHaveText(choices[0]?.message.content ?? '', { useInnerText: false });
    const { outrider, ...tokens } = JSON.parse((await page.locator('#usage').textContent()) ?? '') as typeof usage;
    expect(tokens).toEqual(usage);
    expect(outrider.server_passes).toBeGreaterThan(0);
    const written = await page.locator('li').allTextContents();
    for (const [index, prompt] of ['Once upon a time', 'The fox'].entries()) {
      const data = { prompt, ...options, n: 2 };
      const own = (await (
        await page.request.post(`${server.url}/v1/completions`, { data })
      ).json()) as Package.Completion;
      expect(written.slice(2 * index, 2 * index + 2)).toEqual(own.choices.map(({ text }) => text));
    }
  },
  'usechat-of-the-ai-sdk': async (page) => {
    const send = page.getByRole('button', { name: 'Send' });
    for (const [turn, said] of ['Once upon a time', 'And then?'].entries()) {
      await page.getByLabel('Message').fill(said);
      await send.click();
      await expect(page.locator('[data-role="user"]').nth(turn)).toHaveText(said);
      await expect(page.locator('[data-role="assistant"]').nth(turn)).toHaveText(/[a-z]{3}.* \d+ forward passes$/s);
      await expect(send).toBeEnabled();
    }
    await expect(page.locator('footer')).toHaveText('');
    // An error is not masked.
    await page.getByLabel('Message').fill('long '.repeat(2000));
    await send.click();
    await expect(page.locator('footer')).toHaveText(/ 512 tokens|at most \d+ fit/);
  },
  'where-no-draft-model-can-run': async (page) => {
    await expect(page.locator('#text')).toHaveText(text);
    await expect(page.locator('#mode')).toHaveText('draft ');
  },
  'headers-of-the-page': async (page) => {
    await expect(page.locator('#engine')).toHaveText(/, isolated: true$/);
    await expect(page.locator('#text')).toHaveText(text);
  },
};

test('every recipe is run', () => {
  expect(recipes.map(({ name }) => name).sort()).toEqual(Object.keys(shows).sort());
});

for (const [name, show] of Object.entries(shows)) {
  test(`recipe: ${name}`, async ({ page }) => {
    const named = Object.entries(recipes.find((recipe) => recipe.name === name)?.headers ?? {});
    if (named.length === 0) {
      await open(page, name);
      return await show(page);
    }
    // The host under test in place of the one of the example.
    const host = await startHost(server.url, (url) =>
      Object.fromEntries(
        named.map(([name, value]) => [
          name.toLowerCase(),
          value.replace('wss://example.com', url.replace('http', 'ws')),
        ]),
      ),
    );
    try {
      await page.goto(`${host.url}/${name}.html`);
      await show(page);
    } finally {
      await page.goto('about:blank');
      host.close();
    }
  });
}

test('without an engine the server writes alone, the same text of the same seed', async ({ page }) => {
  const name = 'where-no-draft-model-can-run';
  await open(page, name);
  await expect(page.locator('#mode')).toHaveText('draft ');
  const written = () => page.locator('#text').textContent();
  let drafted: string | null = null;
  // It is whole once it grows no more.
  await expect(async () => {
    const before = await written();
    await page.waitForTimeout(1000);
    drafted = await written();
    expect(drafted).toBe(before);
    expect(drafted?.length ?? 0).toBeGreaterThan(60);
  }).toPass();
  await page.route('**/*.wasm', (route) => route.fulfill({ status: 404 }));
  await open(page, name);
  await expect(page.locator('#mode')).toHaveText('server wasm-failed');
  await expect(page.locator('#text')).toHaveText(drafted ?? '');
  // A policy that forbids workers is no more of an obstacle.
  await page.unrouteAll();
  await page.route('**/*.html', async (route) => {
    const response = await route.fetch();
    const policy = "worker-src 'none'";
    await route.fulfill({ response, headers: { ...response.headers(), 'content-security-policy': policy } });
  });
  await open(page, name);
  await expect(page.locator('#mode')).toHaveText('server worker-crashed');
  await expect(page.locator('#text')).toHaveText(drafted ?? '');
});

for (const options of [
  { scheme: 'ahead', temperature: 0.7 },
  { scheme: 'k-sqs', temperature: 0 },
] as const) {
  test(`a stop string ends the text, wherever tokens begin: ${JSON.stringify(options)}`, async ({ page }) => {
    await openBare(page);
    const found = await page.evaluate(async (options) => {
      const run = async (stop: string[]) => {
        const generation = window.outrider.generate('Once upon a time', {
          ...options,
          maxNewTokens: 40,
          seed: 7,
          stop,
        });
        const texts: string[] = [];
        for await (const { text } of generation) texts.push(text);
        return { texts, summary: await generation.summary };
      };
      const whole = await run([]);
      const middle = 20;
      const [before = '', after = ''] = [whole.texts[middle], whole.texts[middle + 1]];
      const stop = `${before.slice(-2)}${after.slice(0, 2)}`;
      const stopped = await run([stop, 'no such text']);
      // What may be the beginning of a stop string at the end is text.
      const last = await run([`${whole.summary.text.slice(-3)}§`]);
      return { whole: whole.summary.text, stop, stopped, last };
    }, options);
    const { whole, stop, stopped, last } = found;
    expect(stop.length).toBeGreaterThan(2);
    expect(stopped.summary.text).toBe(whole.slice(0, whole.indexOf(stop)));
    expect(stopped.summary.finish).toBe('stop');
    expect(stopped.texts.join('')).toBe(stopped.summary.text);
    expect(last.summary.text).toBe(whole);
    expect(last.texts.join('')).toBe(whole);
  });
}

test('leaving a loop early, the next generation begins at once', async ({ page }) => {
  await openBare(page);
  const finishes = await page.evaluate(async () => {
    const { outrider } = window;
    const first = outrider.generate('Once upon a time', { maxNewTokens: 400, scheme: 'k-sqs' });
    for await (const _ of first) break;
    const second = outrider.generate('One day', { maxNewTokens: 4 });
    const texts: string[] = [];
    for await (const { text } of second) texts.push(text);
    return [(await first.summary).finish, (await second.summary).finish, texts.join('')];
  });
  expect(finishes.slice(0, 2)).toEqual(['cancelled', 'length']);
  expect(finishes[2]).toMatch(text);
});

test('a page that requires Trusted Types and does not allow the package’s learns what to allow', async ({ page }) => {
  await page.route('**/*.html', async (route) => {
    const response = await route.fetch();
    const policy = "require-trusted-types-for 'script'; trusted-types other";
    await route.fulfill({ response, headers: { ...response.headers(), 'content-security-policy': policy } });
  });
  const said = page.waitForEvent('console', (message) => message.text().includes('trusted-types outrider'));
  await open(page, 'bare');
  await said;
});

test('tokens are those that a prompt is read as', async ({ page }) => {
  await openBare(page);
  const found = await page.evaluate(async () => {
    const { outrider } = window;
    const messages = [{ role: 'user', content: 'Hello there' }] as const;
    const read = async (prompt: string | typeof messages) =>
      (await outrider.generate(prompt, { maxNewTokens: 1 }).summary).promptTokenIds;
    const told = [await outrider.tokenize('Once upon a time'), await outrider.tokenize(messages)];
    const counted = await outrider.countTokens(messages);
    const asRead = [await read('Once upon a time'), await read(messages)];
    return { told, asRead, counted, text: await outrider.detokenize(told[0] ?? []) };
  });
  expect(found.told).toEqual(found.asRead);
  expect(found.counted).toBe(found.told[1]?.length);
  expect(found.text.trim()).toBe('Once upon a time');
});

test('log-probabilities are the server’s', async ({ page }) => {
  await openBare(page);
  const sampling = { temperature: 1, topP: 1 };
  const { tokens, prompt } = await page.evaluate(async (sampling) => {
    const generation = window.outrider.generate('Once upon a time', {
      ...{ ...sampling, evidence: true, maxNewTokens: 24, seed: 4 },
    });
    const tokens: Package.Token[] = [];
    for await (const token of generation) tokens.push(token);
    return { tokens, prompt: (await generation.summary).promptTokenIds };
  }, sampling);
  expect(tokens.length).toBeGreaterThan(8);
  const judged = tokens.flatMap((token, index) => (token.evidence?.logprob == null ? [] : [index]));
  expect(judged.length).toBeGreaterThan(4);
  for (const { id, origin, evidence } of tokens) {
    expect(evidence?.logprob === null).toBe(origin === 'bonus');
    const candidates = evidence?.candidates ?? [];
    expect(candidates.length).toBeLessThanOrEqual(8);
    expect(candidates.map(({ p }) => p)).toEqual(candidates.map(({ p }) => p).sort((a, b) => (b ?? 0) - (a ?? 0)));
    const itself = candidates.find((candidate) => candidate.id === id)?.p;
    if (itself != null) expect(Math.exp(evidence?.logprob ?? 0)).toBeCloseTo(itself, 9);
  }
  // The API, which computes them by itself, at two of these positions.
  for (const index of [judged[1] ?? 0, judged.at(-1) ?? 0]) {
    const before = [...prompt, ...tokens.slice(0, index).map(({ id }) => id)];
    const body = { prompt: before, max_tokens: 1, logprobs: 5, temperature: 1, seed: 1 };
    const answer = await page.request.post(`${server.url}/v1/completions`, { data: body });
    const { choices } = (await answer.json()) as {
      choices: { logprobs: { top_logprobs: Record<string, number>[] } }[];
    };
    const told = choices[0]?.logprobs.top_logprobs[0] ?? {};
    const likeliest = tokens[index]?.evidence?.candidates.slice(0, 3) ?? [];
    expect(likeliest.length).toBe(3);
    for (const { text, p } of likeliest) expect(Math.log(p ?? 0)).toBeCloseTo(told[text] ?? 0, 2);
  }
});

test('calls of tools are read in what was written', async ({ page }) => {
  await openBare(page);
  const template = '{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}<tool_call>';
  const pieces = await page.evaluate(async (template) => {
    const { Outrider } = window.api;
    const chat = URL.createObjectURL(new Blob([JSON.stringify({ template })]));
    const outrider = await Outrider.load({ chat });
    const tools = [{ type: 'function', function: { name: 'weather' } }] as const;
    const prompt = [{ role: 'user', content: 'Well?' }] as const;
    const generation = outrider.generate(prompt, { tools, maxNewTokens: 200, scheme: 'k-sqs' });
    await generation.rounds().next();
    const state = generation.suspend();
    await generation.summary;
    if (!state) throw new Error('it was suspended');
    // The built-in model calls nothing: it goes on behind a text that does.
    const text = 'I ask.\n<tool_call>{"name": "weather", "arguments": {"place": "Bern"}}</tool_call>';
    const ids = await outrider.tokenize(text);
    const tokens = ids.map((id) => ({ id, text: '', origin: 'cloud' }) as const);
    const request = { ...state.request, maxNewTokens: ids.length + 2 };
    const { pieces } = await outrider.resume({ ...state, tokens, request }).summary;
    await outrider.close();
    return pieces ?? [];
  }, template);
  expect(pieces.filter(({ type }) => type === 'call')).toEqual([
    { type: 'call', name: 'weather', arguments: '{"place": "Bern"}' },
  ]);
  expect(pieces[0]).toMatchObject({ type: 'text' });
});

test('what the engine gives is what the types say', async ({ page }) => {
  await openBare(page);
  const given = await page.evaluate(async () => {
    const { outrider } = window;
    const claims: Package.Claim[] = [];
    const generation = outrider.generate('Once', { evidence: true, maxNewTokens: 8 });
    const rounds: Package.Round[] = [];
    for await (const round of generation.rounds()) {
      rounds.push(round);
      const claim = generation.suspend()?.claim;
      if (claim) claims.push(claim);
    }
    const { tokens, round } = rounds[0] ?? {};
    const [token] = tokens ?? [];
    const { session, model } = outrider;
    const summary = await generation.summary;
    const candidate = token?.evidence?.candidates[0];
    const objects = { session, model, summary, round, token, candidate, claim: claims[0], given: rounds[0] };
    return Object.fromEntries(
      Object.entries({ ...objects, evidence: token?.evidence }).map(([name, of]) => [
        name,
        Object.keys(of ?? {}).sort(),
      ]),
    );
  });
  type Names<T> = { [K in keyof T as undefined extends T[K] ? never : K]: true };
  const session: Names<Package.SessionInfo> = {
    ...{ contextLength: true, maxDraftTokens: true, maxInFlight: true, maxGuesses: true, maxBranches: true },
    ...{ ownDraws: true, fewestPasses: true, vocabSize: true },
  };
  const model: Names<Package.ModelInfo> = {
    ...{ vocabSize: true, contextLength: true, weightBytes: true, memoryBytes: true, heads: true },
  };
  const token: Names<Required<Package.Token>> = { id: true, text: true, origin: true, evidence: true };
  const evidence: Names<Package.TokenEvidence> = { logprob: true, bits: true, candidates: true };
  const candidate: Names<Package.Candidate> = { id: true, text: true, q: true, p: true };
  const claim: Names<Package.Claim> = { session: true, secret: true, attempts: true, generation: true };
  const round: Names<Package.Round> = { tokens: true, statistics: true, round: true };
  const summary: Names<Omit<Package.Summary, keyof Package.Statistics>> = {
    ...{ seed: true, text: true, promptTokens: true, finish: true, promptTokenIds: true, tokenIds: true },
  };
  const named = { session, model, token, evidence, candidate, claim, given: round };
  for (const [name, names] of Object.entries(named)) expect(given[name], name).toEqual(Object.keys(names).sort());
  expect(given['summary']).toEqual(expect.arrayContaining(Object.keys(summary)));
});

test('the server writes at once, and the draft model joins in the middle of the text, which is the same', async ({
  page,
}) => {
  await openBare(page);
  const [whole, joined] = await page.evaluate(async () => {
    const options = { seed: 5, temperature: 0.7, maxNewTokens: 60 };
    const whole = await window.outrider.generate('Once upon a time', options).summary;
    // Of the server's stream only the beginning arrives, so that there is a middle to join in.
    const { fetch } = window;
    window.fetch = async (...asked) => {
      const response = await fetch(...asked);
      if (!String(asked[0]).endsWith('/v1/completions')) return response;
      let isBegun = false;
      const beginning = new TransformStream<Uint8Array, Uint8Array>({
        start: (to) => asked[1]?.signal?.addEventListener('abort', () => to.error(new DOMException('', 'AbortError'))),
        transform(chunk, to) {
          if (!isBegun) to.enqueue(chunk.subarray(0, 900));
          isBegun = true;
        },
        flush: () => new Promise(() => {}),
      });
      return new Response(response.body?.pipeThrough(beginning) ?? null, response);
    };
    const outrider = await window.api.Outrider.load();
    const mode = outrider.mode;
    const generation = outrider.generate('Once upon a time', options);
    const summary = await generation.summary;
    await outrider.close();
    return [
      { text: whole.text, ids: whole.tokenIds },
      { text: summary.text, ids: summary.tokenIds, tokens: summary.tokens, mode, later: outrider.mode },
    ] as const;
  });
  expect({ text: joined.text, ids: joined.ids }).toEqual(whole);
  expect(joined).toMatchObject({ mode: 'server', later: 'draft', tokens: 60 });
});
