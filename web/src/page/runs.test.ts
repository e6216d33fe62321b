import { expect, test } from 'vitest';
import { columns, fileName, jsonOf, remembered } from './runs.js';
import type { RunRecord } from './runs.js';
import { linkPresets } from './settings.js';

const run = (given: object = {}): RunRecord =>
  ({
    at: '2026-01-02T03:04:05.678Z',
    ...{ mode: 'speculative', choices: { scheme: 'k-sqs' }, isSteady: true, link: linkPresets[1]?.link },
    summary: { tokens: 64, tokensPerSecond: 40, serverPasses: 24, uplinkBits: 8000, downlinkBits: 800 },
    ...given,
  }) as RunRecord;
const row = (run: RunRecord): string[] => columns.map(({ of }) => of(run));

test('a row says how a text was written, on what, and what it cost', () => {
  expect(row(run())).toEqual(['Rounds, K-SQS', '4G', '64', '40.0', '24', '1.1 kB']);
  expect(row(run({ mode: 'cloud-only' }))[0]).toBe('The server alone');
  expect(row(run({ choices: { scheme: 'ahead' }, isSteady: false })).slice(0, 2)).toEqual([
    'Draft ahead',
    '4G, then changed',
  ]);
  const own = { uplinkBitsPerSecond: 5000, downlinkBitsPerSecond: null, roundTripMs: 20 };
  expect(row(run({ link: own }))[1]).toBe('5 kbit/s up, unlimited down, 20 ms');
});

test('the last runs are remembered, the latest first', () => {
  let runs: RunRecord[] = [];
  for (let index = 0; index < 40; index++) runs = remembered(runs, run({ at: String(index) }));
  expect(runs[0]?.at).toBe('39');
  expect(runs.length).toBeLessThan(20);
});

test('a run is a file that says what it is', () => {
  expect(JSON.parse(jsonOf(run()))).toMatchObject({ format: 'outrider run 1', mode: 'speculative' });
  expect(fileName(run(), 'json')).toBe('outrider-2026-01-02T03-04-05.json');
});
