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
const alone = (...tokenIds: number[]): Summary => ({ ...text(...tokenIds), serverPasses: tokenIds.length });

test('a speed leaves the first tokens out, for which the prompt was read', () => {
  expect(times([1, 5000, 1]).tokensPerSecond).toBeNaN();
  expect(times([1, 5000, 1], [21, 6000, 11]).tokensPerSecond).toBe(20);
});

test('what is gained is known after the twin, passes at once', () => {
  const answer = times([1, 500, 1], [41, 1500, 21]);
  const alone = times([1, 100, 1], [41, 2100, 41]);
  expect(gainOf(answer, times(), false)).toEqual({
    speed: ['40.0', 'now'],
    passes: ['–', '21 used for 41 tokens'],
    time: ['–', 'known after the twin'],
  });
  expect(gainOf(answer, alone, true)).toMatchObject({
    speed: ['40.0', '2.00 × the server alone'],
    passes: ['20', '21 instead of 41'],
    time: ['1.02 s', 'less to wait'],
  });
  expect(gainOf(alone, alone, true)).toMatchObject({
    time: ['0 s', 'no difference'],
    passes: ['0', '41 like the twin'],
  });
});

test('a server that drafts itself saves passes alone, and only the rest is the page’s', () => {
  const answer = times([1, 500, 1], [41, 1500, 31]);
  const alone = times([1, 100, 1], [41, 1600, 25]);
  expect(gainOf(answer, alone, true)).toMatchObject({
    speed: ['40.0', 'as the server alone'],
    passes: ['0', '31 instead of 25'],
    time: ['0 s', 'no difference'],
  });
  expect(gainOf(alone, answer, true)).toMatchObject({
    speed: ['26.7', '0.67 × the server alone'],
    passes: ['6', '25 instead of 31'],
    time: ['0 s', 'took 512 ms more'],
  });
});

test('a text that saved no pass is as fast as the server alone, or slower', () => {
  const alone = times([1, 100, 1], [41, 2100, 41]);
  const slow = times([1, 500, 1], [41, 4500, 41]);
  expect(gainOf(slow, alone, true)).toMatchObject({
    time: ['0 s', 'took 2.05 s more'],
    speed: ['10.0', '0.50 × the server alone'],
  });
  // No pass was saved, so the difference is the machine's.
  expect(gainOf(times([1, 100, 1], [41, 1100, 41]), alone, true)).toMatchObject({
    speed: ['40.0', 'as the server alone'],
    time: ['0 s', 'no difference'],
  });
});

test('the sentence about two texts says first whether they are the same', () => {
  expect(twinSentence(text(1, 2), alone(1, 2), 2, true)).toBe(
    'The same text, word for word. Drafting was 2.00 times as fast as the server alone.',
  );
  expect(twinSentence(text(1, 2), alone(1, 3), Number.NaN, true)).toMatch(/^The two texts differ, .*draws\.$/);
  expect(twinSentence(text(1, 2), alone(1, 3), 1, false)).toMatch(
    /^Another text .*about as fast as the server alone\.$/,
  );
});

test('a text that saved no pass is not called faster', () => {
  const answer = { ...text(1, 2), serverPasses: 2 };
  for (const twin of [alone(1, 2), text(1, 2)]) {
    expect(twinSentence(answer, twin, 1.4, true)).toBe(
      'The same text, word for word. No pass was saved: the server wrote as fast without guesses.',
    );
  }
  expect(twinSentence(answer, alone(1, 2), 0.5, true)).toBe(
    'The same text, word for word. Drafting was slower than the server alone (50 % of its speed).',
  );
});

test('an answer’s costs name its end where it was cut short', () => {
  const written = times([1, 500, 1], [41, 1500, 21]);
  expect(costsOf({ ...text(1, 2, 3), finish: 'eos' }, written)).toBe('3 tokens in 1 pass · 40.0 tokens/s');
  expect(costsOf({ ...text(1), finish: 'length' }, times([1, 500, 1]))).toBe(
    '1 token in 1 pass · ended at the length limit',
  );
});
