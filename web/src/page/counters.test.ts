import { expect, test } from 'vitest';
import { choiceDefaults } from '../outrider/index.js';
import type { Choices, Mode, Statistics } from '../outrider/index.js';
import { liveCounters, readCounter } from './counters.js';

const statistics = {
  tokens: 9,
  acceptanceRate: 0.5,
  meanDroppedMass: 0.000_52,
  droppedMassBound: 0.034,
  followUps: 2,
  downlinkBytesPerRejection: 28.5,
} as Statistics;

/** The counters that have a value. */
function shown(choices: Partial<Choices>, mode: Mode = 'speculative', of = statistics): string[] {
  const all = { ...choiceDefaults, ...choices };
  return liveCounters
    .filter((counter) => readCounter(counter, of, mode, all).value !== '')
    .map(({ name }) => name);
}

test('what concerns one scheme is shown under no other', () => {
  const always = ['acceptanceRate', 'tokens'];
  expect(shown({})).toEqual(always);
  expect(shown({ scheme: 'coupled' })).toEqual(always);
  expect(shown({ scheme: 'c-sqs' })).toEqual([...always, 'meanDroppedMass', 'droppedMassBound']);
  expect(shown({ scheme: 'dssd' })).toEqual([...always, 'followUps', 'downlinkBytesPerRejection']);
  expect(shown({ scheme: 'dssd', downlink: 'full' })).toEqual([...always, 'downlinkBytesPerRejection']);
});

test('the server alone has none of it', () => {
  expect(shown({ scheme: 'c-sqs' }, 'cloud-only')).toEqual(['tokens']);
});

test('null is no value', () => {
  const early = { ...statistics, downlinkBytesPerRejection: null };
  expect(shown({ scheme: 'dssd' }, 'speculative', early)).not.toContain('downlinkBytesPerRejection');
});
