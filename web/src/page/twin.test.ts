import { expect, test } from 'vitest';
import type { Summary } from '../outrider/index.js';
import { costsOf, gainOf, twinSentence } from './twin.js';

const costs = (tokens: number, elapsedMs: number, serverPasses: number, firstTokenMs = 0): Summary =>
  ({
    ...{ tokens, elapsedMs, firstTokenMs, serverPasses },
    ...{ tokensPerSecond: (1000 * tokens) / elapsedMs, finish: 'eos' },
  }) as Summary;
const text = (elapsedMs: number, serverPasses: number, ...tokenIds: number[]): Summary => ({
  ...costs(10 * tokenIds.length, elapsedMs, serverPasses),
  tokenIds,
});

test('what is gained is known after the twin, passes at once', () => {
  const answer = costs(40, 1000, 21);
  expect(gainOf(answer)).toEqual({
    speed: ['40.0', 'now'],
    passes: ['–', '21 used for 40 tokens'],
    time: ['–', 'known after the twin'],
  });
  expect(gainOf(answer, costs(40, 2000, 41))).toEqual({
    speed: ['40.0', '2.00 × the server alone'],
    passes: ['20', '21 instead of 41'],
    time: ['1.00 s', 'less to wait'],
  });
  expect(gainOf(answer, answer)).toMatchObject({ time: ['0 s', 'no difference'], passes: ['0', '21 like the twin'] });
});

test('an answer that gets no twin does not wait for one, and before its first token there is nothing', () => {
  expect(gainOf(costs(40, 1000, 21), null, false)).toEqual({
    speed: ['40.0', 'of this answer'],
    passes: ['–', '21 used for 40 tokens'],
    time: ['–', 'not compared'],
  });
  expect(gainOf(costs(0, 0, 0), null, false)).toEqual(gainOf(null));
  expect(gainOf(null).speed[0]).toBe('–');
});

test('times are whole: tokens that come in a burst after the first make no answer fast or slow', () => {
  // Both waited for the link, then had all but the first token within milliseconds.
  const [answer, alone] = [costs(48, 280, 30), costs(48, 285, 48)];
  expect(gainOf(answer, alone)).toMatchObject({
    speed: ['171', 'as the server alone'],
    time: ['0 s', 'no difference'],
  });
  expect(twinSentence({ ...answer, tokenIds: [] }, { ...alone, tokenIds: [] }, true)).toMatch(/about as fast/);
  expect(costsOf(answer)).toBe('48 tokens in 30 passes · 171 tokens/s');
});

test('a few milliseconds are no difference, however short the text', () => {
  expect(gainOf(costs(48, 48, 27), costs(48, 28, 48))).toMatchObject({
    speed: ['1000', 'as the server alone'],
    time: ['0 s', 'no difference'],
  });
});

test('two or three tokens have no speed', () => {
  expect(gainOf(costs(2, 900, 1), costs(2, 300, 2)).time).toEqual(['0 s', 'no difference']);
});

test('texts of different lengths are compared by the token', () => {
  expect(gainOf(costs(20, 500, 10), costs(40, 2000, 40))).toMatchObject({
    speed: ['40.0', '2.00 × the server alone'],
    time: ['500 ms', 'less to wait'],
  });
});

test('a server that drafts itself saves passes alone, and only the rest is the page’s', () => {
  const [answer, alone] = [costs(40, 1000, 31), costs(40, 1500, 25)];
  expect(gainOf(answer, alone)).toMatchObject({
    speed: ['40.0', 'as the server alone'],
    passes: ['0', '31 instead of 25'],
    time: ['0 s', 'no difference'],
  });
  expect(gainOf(alone, answer)).toMatchObject({
    speed: ['26.7', '0.67 × the server alone'],
    passes: ['6', '25 instead of 31'],
    time: ['0 s', 'took 500 ms more'],
  });
});

test('a text that saved no pass is as fast as the server alone, or slower', () => {
  const alone = costs(40, 2000, 41);
  expect(gainOf(costs(40, 4000, 41), alone)).toMatchObject({
    time: ['0 s', 'took 2.00 s more'],
    speed: ['10.0', '0.50 × the server alone'],
  });
  // No pass was saved, so the difference is the machine's.
  expect(gainOf(costs(40, 1000, 41), alone)).toMatchObject({
    speed: ['40.0', 'as the server alone'],
    time: ['0 s', 'no difference'],
  });
});

test('the sentence about two texts says first whether they are the same', () => {
  expect(twinSentence(text(1000, 1, 1, 2), text(2000, 2, 1, 2), true)).toBe(
    'The same text, word for word. Drafting was 2.00 times as fast as the server alone.',
  );
  expect(twinSentence(text(1000, 1, 1, 2), text(0, 2, 1, 3), true)).toMatch(/^The two texts differ, .*draws\./);
  expect(twinSentence(text(1000, 1, 1, 2), text(1000, 2, 1, 3), false)).toMatch(
    /^Another text .*about as fast as the server alone\.$/,
  );
});

test('a text that saved no pass is not called faster', () => {
  for (const passes of [2, 1]) {
    expect(twinSentence(text(1000, 2, 1, 2), text(1400, passes, 1, 2), true)).toBe(
      'The same text, word for word. No pass was saved: the server wrote as fast without guesses.',
    );
  }
  expect(twinSentence(text(2000, 2, 1, 2), text(1000, 2, 1, 2), true)).toBe(
    'The same text, word for word. Drafting was slower than the server alone (50 % of its speed).',
  );
});

test('an answer’s costs name its end where it was cut short', () => {
  expect(costsOf(costs(40, 1000, 1))).toBe('40 tokens in 1 pass · 40.0 tokens/s');
  expect(costsOf({ ...costs(1, 500, 1), text: '' })).toBe(
    '1 token in 1 pass · 2.00 tokens/s · the model ended without a text',
  );
  expect(costsOf({ ...costs(1, 500, 1), finish: 'length' })).toBe(
    '1 token in 1 pass · 2.00 tokens/s · ended at the length limit',
  );
});

test('reading the prompt, which the twin finds read, is not the draft’s slowness', () => {
  const [answer, alone] = [costs(15, 190, 15, 150), costs(15, 60, 15, 15)];
  expect(gainOf(answer, alone).time).toEqual(['0 s', 'no difference']);
  expect(gainOf(costs(40, 1150, 21, 150), costs(40, 2000, 40, 15)).time).toEqual(['985 ms', 'less to wait']);
});
