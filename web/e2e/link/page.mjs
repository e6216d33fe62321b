// What measurements over emulated links share: the npm package in a page of its server.

/** A page of the server's origin with the package and the draft model loaded. */
export async function openPage(browser, url) {
  const page = await browser.newPage();
  // Any page of the server's origin will do.
  await page.goto(`${url}/healthz`);
  await page.evaluate(async () => {
    const { Outrider } = await import('/outrider.js');
    globalThis.outrider = await Outrider.load();
    if ((await globalThis.outrider.ready) !== 'draft') throw new Error('the draft model has not joined');
  });
  return page;
}

/** One generation over one link; gives its summary, with the time that all rounds waited for their verdicts. */
export function generate(page, prompt, options, link) {
  return page.evaluate(
    async ([prompt, options, link]) => {
      globalThis.outrider.setLink(link);
      const generation = globalThis.outrider.generate(prompt, options);
      let waitMs = 0;
      for await (const { round } of generation.rounds()) waitMs += round?.roundTripMs ?? 0;
      return { ...(await generation.summary), waitMs };
    },
    [prompt, options, link],
  );
}

/** A link that is the same in both directions. */
export function symmetric(bitsPerSecond, roundTripMs) {
  return { uplinkBitsPerSecond: bitsPerSecond, downlinkBitsPerSecond: bitsPerSecond, roundTripMs };
}

/** Those numbers of a generation. */
export function pick(summary, keys) {
  return Object.fromEntries(keys.map((key) => [key, summary[key]]));
}

export const prompts = [
  'Once upon a time there was a little',
  'The old man went to the river and',
  'A girl and her dog found',
];

/** Conversations of one question each, those of `bench/src/chat.rs`. */
export const questions = [
  'What is photosynthesis?',
  'How do I make a cup of tea?',
  'Explain what a compiler does.',
  'Give me three tips for learning a language.',
  'Why is the sky blue?',
  'What is the difference between a list and a tuple in Python?',
  'Write a short poem about the sea.',
  'How does a bicycle stay upright?',
  'What should I pack for a hike in the mountains?',
  'Who was Marie Curie?',
].map((content) => [{ role: 'user', content }]);
