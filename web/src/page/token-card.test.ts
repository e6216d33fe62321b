import { expect, test } from 'vitest';
import type { Round, Token } from '../outrider/index.js';
import { barsOf, cardOf } from './token-card.js';

const record = { round: 2, drafted: [1, 2, 3, 4], accepted: 3, payloadBits: 1488, roundTripMs: 21 };
const answer = (round: object | null, tokens: Token[]): Round =>
  ({ tokens, statistics: {}, round }) as unknown as Round;
const plain: Token = { id: 7, text: ' fox', origin: 'accepted' };
const told = {
  ...plain,
  evidence: {
    ...{ logprob: Math.log(0.25), bits: 372 },
    candidates: [
      { id: 9, text: ' dog', q: 0.5, p: 0.1 },
      { id: 7, text: ' fox', q: 0.25, p: 0.25 },
      { id: 3, text: ' cat', q: null, p: 0.2 },
    ],
  },
} as Token;

test('a token of a round tells of it', () => {
  expect(cardOf({ token: plain, round: answer(record, [plain]), answer: 3 })).toEqual({
    title: '␣fox',
    lines: [
      'Accepted: drafted here, accepted by the server.',
      'Round 3: 3 of 4 drafts accepted.',
      'A draft of this round took 372 bits.',
      'The answer came after 21 ms.',
    ],
    candidates: [],
  });
});

test('a token without rounds tells which answer it came with', () => {
  const late: Token = { ...plain, origin: 'late' };
  expect(cardOf({ token: late, round: answer(null, [late]), answer: 5 }).lines).toEqual([
    'Late: the server’s, guessed here too late.',
    'Answer 5 of the server, of 1 token.',
  ]);
});

test('what the server and the draft model thought is told where it is known', () => {
  const card = cardOf({ token: told, round: answer(record, [told]), answer: 1 });
  expect(card.lines.slice(-2)).toEqual([
    'Its draft took 372 bits.',
    'The large model gave it probability 0.25 (log -1.39).',
  ]);
  expect(card.candidates).toHaveLength(3);
});

test('a sparse distribution is drawn of what was sent: no bar for what was not', () => {
  expect(barsOf(told)).toEqual([
    { text: ' dog', height: 1, chosen: false },
    { text: ' fox', height: 0.5, chosen: true },
  ]);
  expect(barsOf(plain)).toEqual([]);
});
