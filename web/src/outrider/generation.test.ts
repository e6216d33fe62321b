import { expect, test } from 'vitest';
import type { GenerateRequest, Guess, Round } from './edge.js';
import { emptySummary, Generation } from './generation.js';
import type { GenerationEvent } from './generation.js';

const request = { seed: 1 } as GenerateRequest;
const guess = (text: string, offline = false): Guess => ({ ids: [1], text, chance: 0.9, offline });
const round = (text: string, more: Partial<Round> = {}): Round => ({
  tokens: [{ id: 1, text, origin: 'cloud' }],
  statistics: emptySummary,
  round: null,
  ...more,
});
const textOf = ({ tokens }: Round): string => tokens.map(({ text }) => text).join('');

/** The text on the page after each event: the confirmed one, and the guesses after it in brackets. */
async function seen(events: AsyncIterable<GenerationEvent>): Promise<string[]> {
  const views: string[] = [];
  let confirmed = '';
  for await (const event of events) {
    if (event.type !== 'guess') confirmed += textOf(event.round);
    views.push(event.guess ? `${confirmed}[${event.guess.text}]` : confirmed);
  }
  return views;
}

const settled = () => new Promise((resolve) => setTimeout(resolve));

test('guesses are settled by the rounds that confirm or replace them', async () => {
  const generation = new Generation(request, () => {});
  const types: string[] = [];
  const views = seen(
    (async function* () {
      for await (const event of generation.events()) {
        types.push(event.type);
        yield event;
      }
    })(),
  );
  const steps = [
    () => generation.guess(guess(' one two')),
    () => generation.add(round(' one', { guess: guess(' two') })),
    () => generation.guess(guess(' two three', true)),
    () => generation.add(round(' four', { withdrawn: 2 })),
    () => generation.finish(emptySummary),
  ];
  for (const step of steps) {
    step();
    await settled();
  }
  expect(await views).toEqual(['[ one two]', ' one[ two]', ' one[ two three]', ' one four']);
  expect(types).toEqual(['guess', 'confirm', 'guess', 'replace']);
});

test('the tokens and rounds of a generation are confirmed ones only', async () => {
  const generation = new Generation(request, () => {});
  const texts = (async () => {
    const found: string[] = [];
    for await (const { text } of generation) found.push(text);
    return found;
  })();
  generation.guess(guess(' wrong'));
  await settled();
  generation.add(round(' right', { withdrawn: 1 }));
  generation.guess(guess(' wrong again'));
  await settled();
  expect(generation.suspend()).toBeNull();
  generation.finish(emptySummary);
  expect(await texts).toEqual([' right']);
});

test('an iteration that starts late sees every round and no guess that has passed', async () => {
  const generation = new Generation(request, () => {});
  generation.guess(guess(' old'));
  generation.add(round(' a'));
  generation.add(round(' b'));
  generation.guess(guess(' c'));
  generation.guess(guess(' c d'));
  const views = seen(generation.events());
  await settled();
  generation.finish(emptySummary);
  expect(await views).toEqual([' a', ' a b', ' a b[ c d]']);
});

test('a reader is told of the guesses that it has seen, however late it reads', async () => {
  const generation = new Generation(request, () => {});
  const events = generation.events();
  const next = async (): Promise<object> => {
    const { type, guess, ...more } = (await events.next()).value as GenerationEvent & { withdrawn?: number };
    return { type, guess: guess?.text ?? null, ...('withdrawn' in more && { withdrawn: more.withdrawn }) };
  };
  const guesses = (ids: number[], text: string): Guess => ({ ...guess(text), ids });
  const writes = (id: number, text: string, more: Partial<Round> = {}): void =>
    generation.add({ ...round(text, more), tokens: [{ id, text, origin: 'cloud' }] });

  // Guesses that came and went before it read.
  generation.guess(guesses([5, 6], ' five six'));
  writes(1, ' one', { withdrawn: 2 });
  expect(await next()).toEqual({ type: 'confirm', guess: null });
  // It has seen other guesses than the last ones, which the text contradicts, too, or alone, or does not.
  generation.guess(guesses([2, 3], ' two three'));
  expect(await next()).toEqual({ type: 'guess', guess: ' two three' });
  generation.guess(guesses([4, 5, 6], ' four five six'));
  writes(2, ' two', { withdrawn: 3 });
  expect(await next()).toEqual({ type: 'confirm', guess: null });
  generation.guess(guesses([3, 4], ' three four'));
  expect(await next()).toEqual({ type: 'guess', guess: ' three four' });
  generation.guess(guesses([5, 6], ' five six'));
  writes(5, ' five', { guess: guesses([6], ' six') });
  expect(await next()).toEqual({ type: 'replace', guess: ' six', withdrawn: 2 });
  // It has seen the last guesses.
  writes(7, ' seven', { withdrawn: 1 });
  expect(await next()).toEqual({ type: 'replace', guess: null, withdrawn: 1 });
});

test('leaving the events early stops the generation', async () => {
  let stops = 0;
  const generation = new Generation(request, () => (stops += 1));
  generation.guess(guess(' a'));
  for await (const { type } of generation.events()) {
    expect(type).toBe('guess');
    break;
  }
  expect(stops).toBe(1);
  generation.add(round(' a'));
  for await (const shown of generation.rounds()) {
    expect(textOf(shown)).toBe(' a');
    break;
  }
  expect(stops).toBe(2);
});
