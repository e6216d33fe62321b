import { expect, test } from 'vitest';
import type { Summary } from '../outrider/index.js';
import { gainSentence, reasonNotToCompare, speedWords } from './gain.js';
import type { Measured } from './gain.js';
import { linkPresets } from './settings.js';

const summary = (tokens: number, elapsedMs: number, serverPasses: number, bytes: number): Summary =>
  ({
    ...{ tokens, elapsedMs, serverPasses, uplinkBits: 4 * bytes, downlinkBits: 4 * bytes },
    tokensPerSecond: (1000 * tokens) / elapsedMs,
  }) as Summary;

test('time, forward passes and bytes stand in one sentence', () => {
  expect(gainSentence('Draft ahead', summary(128, 1000, 60, 2000), summary(128, 2000, 128, 1400))).toBe(
    'Draft ahead was 2.00 times as fast as the server alone on the same link: 1.00 s instead of 2.00 s for 128 tokens, ' +
      '60 instead of 128 forward passes, 2 kB instead of 1.4 kB sent.',
  );
});

test('texts of different lengths are compared by the token', () => {
  expect(gainSentence('Drafting', summary(100, 1000, 40, 2000), summary(50, 1000, 50, 500))).toBe(
    'Drafting was 2.00 times as fast as the server alone on the same link: 10 ms instead of 20 ms a token, ' +
      '0.40 instead of 1.00 forward passes, 20 B instead of 10 B sent.',
  );
});

test('what is slower is called that, and what is within the noise neither', () => {
  expect(speedWords(0.5)).toBe('slower than the server alone (50 % of its speed)');
  expect(speedWords(1.04)).toBe('about as fast as the server alone');
  expect(speedWords(0.96)).toBe('about as fast as the server alone');
});

test('only texts on one link that stayed the same are compared', () => {
  const [open, , satellite] = linkPresets.map(({ link }) => link);
  const on = (link: typeof open, isSteady = true) => ({ summary: {}, link, isSteady }) as Measured;
  expect(reasonNotToCompare(on(open), on(open))).toBeNull();
  expect(reasonNotToCompare(on(satellite), on(open))).toMatch(/different links/);
  expect(reasonNotToCompare(on(open), on(open, false))).toMatch(/link changed/);
  const asked = { prompt: 'a', seed: 1, temperature: 0.7 };
  const run = (given: object) => ({ ...on(open), asked: { ...asked, ...given } });
  expect(reasonNotToCompare(run({}), run({}))).toBeNull();
  expect(reasonNotToCompare(run({}), run({ prompt: 'b', seed: 2 }))).toBe(
    'The two texts differ in prompt and seed and cannot be compared.',
  );
});
