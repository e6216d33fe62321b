import { expect, test } from 'vitest';
import { choiceDefaults, policyDefaults } from '../outrider/index.js';
import type { Mode, Statistics } from '../outrider/index.js';
import { liveCounters, readCounter } from './counters.js';
import type { RunChoices } from './counters.js';

const statistics = {
  tokens: 9,
  judged: 4,
  passed: 3,
  streamed: 0,
  optimalDraftLength: 6,
  costRatio: 0.1,
  acceptanceRate: 0.5,
  meanDroppedMass: 0.000_52,
  droppedMassBound: 0.034,
  followUps: 2,
  wasted: 6,
  downlinkBytesPerRejection: 28.5,
} as Statistics;

/** The counters that have a value. */
function shown(choices: Partial<RunChoices>, mode: Mode = 'speculative', of = statistics): string[] {
  const all = { ...choiceDefaults, ...policyDefaults, adaptiveMode: false, maxInFlight: 1 };
  const chosen = { ...all, isAhead: false, ...choices };
  return liveCounters
    .filter((counter) => Number.isFinite(readCounter(counter, of, mode, chosen)))
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

test('what concerns a gate, a stop rule or AS² is shown under these', () => {
  const always = ['acceptanceRate', 'tokens'];
  expect(shown({ gate: 'token-cascade' })).toEqual([...always, 'passed']);
  expect(shown({ adaptiveMode: true })).toEqual([...always, 'streamed']);
  expect(shown({ stopRule: 'odld' })).toEqual([...always, 'optimalDraftLength', 'costRatio']);
  expect(shown({ rule: 'opt', stopRule: 'bild' })).toEqual(always);
});

test('what came in time is shown where drafts are made ahead, and nothing of rounds', () => {
  const ahead = { ...statistics, inTime: 3, rounds: 0, drafted: 12, uplinkBitsPerDraftedToken: 0, roundTripMs: 0 };
  expect(shown({ isAhead: true }, 'speculative', ahead)).toEqual(['acceptanceRate', 'tokens', 'inTime']);
});

test('what was wasted is shown where rounds may be in flight', () => {
  expect(shown({ maxInFlight: 2 })).toEqual(['acceptanceRate', 'tokens', 'wasted']);
});

test('a share of nothing is no value', () => {
  expect(shown({}, 'speculative', { ...statistics, judged: 0 })).toEqual(['tokens']);
});

test('the server alone has none of it', () => {
  expect(shown({ scheme: 'c-sqs', gate: 'sprinter', adaptiveMode: true }, 'cloud-only')).toEqual(['tokens']);
});

test('null is no value', () => {
  const early = { ...statistics, downlinkBytesPerRejection: null };
  expect(shown({ scheme: 'dssd' }, 'speculative', early)).not.toContain('downlinkBytesPerRejection');
});
