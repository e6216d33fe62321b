import { expect, test } from 'vitest';
import type { Statistics } from '../outrider/index.js';
import { emptySummary } from '../outrider/generation.js';
import { carriedOn } from './carried.js';

const part = (given: Partial<Statistics>): Statistics => ({ ...emptySummary, ...given });

test('a text in two parts is counted as one', () => {
  const before = part({
    ...{ tokens: 30, elapsedMs: 1000, serverPasses: 10, uplinkBits: 3000, drafted: 40, judged: 36 },
    ...{ accepted: 20, uplinkBitsPerDraftedToken: 75, firstTokenMs: 80, rounds: 10, roundTripMs: 5 },
  });
  const now = part({
    ...{ tokens: 10, elapsedMs: 1000, serverPasses: 10, uplinkBits: 1000, drafted: 10, judged: 4 },
    ...{ accepted: 0, uplinkBitsPerDraftedToken: 100, firstTokenMs: 20, rounds: 10, roundTripMs: 7 },
  });
  expect(carriedOn(before, now)).toMatchObject({
    ...{ tokens: 40, elapsedMs: 2000, tokensPerSecond: 20, serverPasses: 20, serverPassesPerToken: 0.5 },
    ...{ uplinkBits: 4000, uplinkBitsPerToken: 100, drafted: 50, acceptanceRate: 0.5, tokensPerRound: 2 },
    ...{ uplinkBitsPerDraftedToken: 80, firstTokenMs: 80, roundTripMs: 7 },
  });
});

test('with nothing before, nothing is changed', () => {
  const now = part({ tokens: 3 });
  expect(carriedOn(null, now)).toBe(now);
});
