// What every project here does with the package: a text of a few tokens, shown with the ids of its tokens.

import { Outrider } from 'outrider';

export async function run() {
  const { dataset } = document.body;
  const given = new URLSearchParams(location.search);
  try {
    const options = Object.fromEntries(
      ['server', 'wasmUrl', 'workerUrl'].map((name) => [name, given.get(name) ?? undefined]),
    );
    // What does not draft here is to be seen.
    const outrider = await Outrider.load({ wait: 'draft', ...options, fallback: 'none' });
    dataset.build = outrider.engine.build;
    dataset.failed = JSON.stringify(outrider.engine.failed);
    const ids = [];
    for await (const token of outrider.generate('Once upon a time', { temperature: 0, maxNewTokens: 12 }))
      ids.push(token.id);
    dataset.ids = ids.join();
    await outrider.close();
  } catch (error) {
    dataset.error = `${error.code}: ${error.message}`;
  }
  // For browsers that nobody looks into.
  if (given.has('tell')) await fetch(`/told?${new URLSearchParams({ ...dataset })}`);
}
