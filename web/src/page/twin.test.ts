import { expect, test } from 'vitest';
import type { Round, Summary } from '../outrider/index.js';
import { costsOf, gainOf, TextTimes, twinSentence } from './twin.js';

const times = (...rounds: [tokens: number, elapsedMs: number, serverPasses: number][]): TextTimes => {
  const made = new TextTimes();
  for (const [tokens, elapsedMs, serverPasses] of rounds) {
    made.add({ statistics: { tokens, elapsedMs, serverPasses } as Round['statistics'] });
  }
  return made;
};
const text = (...tokenIds: number[]): Summary =>
  ({ tokenIds, tokens: tokenIds.length, serverPasses: 1, finish: 'eos' }) as Summary;

test('a speed leaves the first tokens out, for which the prompt was read', () => {
  expect(times([1, 5000, 1]).tokensPerSecond).toBeNaN();
  expect(times([1, 5000, 1], [21, 6000, 11]).tokensPerSecond).toBe(20);
  expect(times([1, 5000, 1], [21, 6000, 11]).passesSaved).toBe(10);
  expect(times().passesSaved).toBeNaN();
});

test('what is gained is known after the twin, passes at once', () => {
  const answer = times([1, 500, 1], [41, 1500, 21]);
  const alone = times([1, 100, 1], [41, 2100, 41]);
  expect(gainOf(answer, times(), false)).toEqual({
    speed: ['40.0', 'now'],
    passes: ['20', 'of 41: 49 %'],
    time: ['–', 'known after the twin'],
  });
  expect(gainOf(answer, alone, true)).toMatchObject({
    speed: ['40.0', '2.00 × the server alone'],
    time: ['1.02 s', 'less to wait'],
  });
  expect(gainOf(alone, alone, true)).toMatchObject({ time: ['0 s', 'no difference'], passes: ['0', 'of 41: 0 %'] });
  const slow = times([1, 500, 1], [41, 2500, 31]);
  expect(gainOf(slow, answer, true)).toMatchObject({
    time: ['0 s', 'took 1.02 s more'],
    passes: ['10', 'of 41: 24 %'],
  });
  // No pass was saved, so the difference is the machine's.
  expect(gainOf(times([1, 100, 1], [41, 1100, 41]), alone, true)).toMatchObject({
    speed: ['40.0', 'as the server alone'],
    time: ['0 s', 'no difference'],
  });
});

test('the sentence about two texts says first whether they are the same', () => {
  expect(twinSentence(text(1, 2), text(1, 2), 2, true)).toBe(
    'The same text, word for word. Drafting was 2.00 times as fast as the server alone.',
  );
  expect(twinSentence(text(1, 2), text(1, 3), Number.NaN, true)).toMatch(/^The two texts differ, .*draws\.$/);
  expect(twinSentence(text(1, 2), text(1, 3), 1, false)).toMatch(
    /^Another text .*about as fast as the server alone\.$/,
  );
});

test('a text that saved no pass is not called faster', () => {
  const answer = { ...text(1, 2), serverPasses: 2 };
  expect(twinSentence(answer, text(1, 2), 1.4, true)).toBe(
    'The same text, word for word. No guess came in time to save a pass.',
  );
});

test('an answer’s costs name its end where it was cut short', () => {
  const written = times([1, 500, 1], [41, 1500, 21]);
  expect(costsOf({ ...text(1, 2, 3), finish: 'eos' }, written)).toBe('3 tokens · 40.0 tokens/s · 20 passes saved');
  expect(costsOf({ ...text(1), finish: 'length' }, times([1, 500, 1]))).toBe('1 token · ended at the length limit');
});
