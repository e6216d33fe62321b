import { expect, test } from 'vitest';
import type { Origin, Round, Statistics, Summary } from '../outrider/index.js';
import { differ, firstDifference, lanes, medianOf, pathsOf, raceSentences, Track, trackSentence } from './race.js';
import type { LaneName } from './race.js';

const round = (elapsedMs: number, ...origins: Origin[]): Round => ({
  tokens: origins.map((origin, id) => ({ id, text: 'x', origin })),
  statistics: { elapsedMs } as Statistics,
  round: null,
});
const run = (tokensPerSecond: number, ...tokenIds: number[]): Summary =>
  ({
    ...{ tokenIds, tokensPerSecond, inTime: 1, finish: 'length', tokens: tokenIds.length },
    ...{ elapsedMs: (1000 * tokenIds.length) / tokensPerSecond, serverPasses: 1, uplinkBits: 80, downlinkBits: 80 },
  }) as Summary;
const once = (results: Partial<Record<LaneName, Summary>>) =>
  Object.fromEntries(Object.entries(results).map(([name, summary]) => [name, [summary]]));
const sentence = (results: Partial<Record<LaneName, Summary>>, linkChanged: boolean) =>
  raceSentences(once(results), linkChanged).join(' ');

test('the lanes are the server alone, the papers’ rounds, and drafting ahead', () => {
  expect(lanes.map(({ name, mode, scheme }) => [name, mode, scheme])).toEqual([
    ['alone', 'cloud-only', 'ahead'],
    ['rounds', 'speculative', 'k-sqs'],
    ['ahead', 'speculative', 'ahead'],
  ]);
});

test('tokens that came together share the time since those before', () => {
  const track = new Track();
  track.add(round(100, 'cloud'));
  track.add(round(160, 'accepted', 'accepted', 'late'));
  expect(track.slabs).toEqual([
    { fromMs: 0, toMs: 100, tokens: 1, kind: 'cloud' },
    { fromMs: 100, toMs: 120, tokens: 2, kind: 'accepted' },
    { fromMs: 120, toMs: 140, tokens: 3, kind: 'accepted' },
    { fromMs: 140, toMs: 160, tokens: 4, kind: 'late' },
  ]);
  // What a verdict of a round adds is the server's own.
  track.add(round(150, 'bonus'));
  expect(track.slabs.at(-1)).toEqual({ fromMs: 160, toMs: 160, tokens: 5, kind: 'cloud' });
  track.add(round(400));
  expect(track).toMatchObject({ tokens: 5, endMs: 160 });
  expect(trackSentence('Rounds', track)).toBe(
    'Rounds: 5 tokens in 0.16 s; 2 drafted here and in time, 1 guessed too late, 2 the server’s own.',
  );
  expect(trackSentence('Rounds', new Track())).toBe('Rounds: nothing yet.');
});

test('a slab is as wide as its token took and as high as there are tokens', () => {
  const track = new Track();
  track.add(round(100, 'cloud'));
  track.add(round(200, 'accepted'));
  expect(pathsOf(track, { ms: 400, tokens: 4 }, { width: 200, height: 40 })).toEqual({
    cloud: 'M0.0 40V30.0H50.0V40Z',
    accepted: 'M50.0 40V20.0H100.0V40Z',
    late: '',
  });
});

test('texts are compared to their ends', () => {
  expect(firstDifference([1, 2], [1, 2])).toBeNull();
  expect(firstDifference([1, 2], [1, 3])).toBe(1);
  expect(firstDifference([1, 2], [1, 2, 3])).toBe(2);
  expect(firstDifference([1, 2, 3], [1, 2])).toBe(2);
});

test('what was gained comes first; the same text is said to be, and another is a fault', () => {
  const alone = run(50, 1, 2);
  expect(sentence({ alone, rounds: run(25, 1, 9), ahead: run(75, 1, 2) }, false)).toBe(
    'Draft ahead was 1.50 times as fast as the server alone on the same link: 27 ms instead of 40 ms for 2 tokens, ' +
      '1 instead of 1 forward passes, 20 B instead of 20 B sent. Both wrote the same 2 tokens. ' +
      'The rounds wrote another text of the same distribution, and were slower than the server alone (50 % of its speed).',
  );
  expect(sentence({ alone, rounds: run(100, 1, 2), ahead: run(40, 1, 2) }, false)).toMatch(
    /^Draft ahead was slower than the server alone \(80 % of its speed\) .*The rounds wrote it, too, and were 2.00 times/,
  );
  expect(sentence({ alone, ahead: run(50, 1, 3) }, false)).toMatch(
    /^Draft ahead made no difference to the speed .*different texts, from token 2 on\. This is a bug/,
  );
});

const runs = (...speeds: number[]) => speeds.map((speed) => run(speed, 1, 2));

test('a lane is its median run, and a difference within the spread is none', () => {
  expect(medianOf([])).toBeNull();
  expect(medianOf(runs(70, 50, 60))).toMatchObject({ run: { tokensPerSecond: 60 }, min: 50, max: 70 });
  expect(medianOf(runs(70, 50))).toMatchObject({ run: { tokensPerSecond: 50 } });
  const [slow, near, fast] = [runs(50, 55, 60), runs(58, 62, 66), runs(61, 62, 63)].map((of) => medianOf(of)!);
  expect([differ(slow!, near!), differ(slow!, fast!), differ(fast!, slow!)]).toEqual([false, true, true]);
  const results = { alone: runs(50, 55, 60), ahead: runs(58, 62, 66), rounds: runs(20, 21, 22) };
  expect(raceSentences(results, false)).toEqual([
    'Draft ahead made no difference to the speed on this link: 62.0 tokens/s (58.0 to 66.0) against 55.0 tokens/s (50.0 to 60.0).',
    'Both wrote the same 2 tokens.',
    'The rounds wrote it, too, and were slower than the server alone (38 % of its speed).',
  ]);
});

test('runs that vary much are called that, and not equal', () => {
  const results = { alone: runs(21, 45, 47), ahead: runs(21, 29, 38) };
  expect(raceSentences(results, false)[0]).toBe(
    'The runs vary too much to compare Draft ahead with the server alone: 29.0 tokens/s (21.0 to 38.0) against 45.0 tokens/s (21.0 to 47.0). Race again.',
  );
});

test('an engine that makes its own random draws may write another text', () => {
  const results = { alone: run(50, 1, 2), ahead: run(50, 1, 3) };
  const [, said] = raceSentences(once(results), false, true);
  expect(said).toBe(
    'The two wrote different texts of the same distribution: the server’s engine makes its own random draws.',
  );
});

test('where no guess came in time, nothing is said to have become faster', () => {
  const ahead = { ...run(90, 1, 2), inTime: 0 };
  expect(sentence({ alone: run(60, 1, 2), ahead }, false)).toBe(
    'No difference: no guess came in time, so the server wrote alone, 90.0 tokens/s against 60.0 tokens/s. ' +
      'Both wrote the same 2 tokens.',
  );
  // A loss of time that is more than the spread of the runs is not hidden.
  const slow = { ...run(40, 1, 2), inTime: 0 };
  expect(sentence({ alone: run(60, 1, 2), ahead: slow }, false)).toMatch(
    /^Draft ahead was slower than the server alone/,
  );
});

test('a race that was not run, or not on one link, compares no times', () => {
  expect(raceSentences({}, false)).toEqual([]);
  expect(raceSentences(once({ alone: run(50, 1) }), false)).toEqual([]);
  expect(sentence({ alone: run(50, 1), rounds: run(75, 1), ahead: run(75, 1) }, true)).toBe(
    'The link changed or was lost during the run, so the times cannot be compared. Both wrote the same 1 token. The rounds wrote it, too.',
  );
});

test('a lane’s speed is that of its last tokens, and bytes and forward passes add up', () => {
  const track = new Track();
  for (let answer = 1; answer <= 40; answer++) {
    // Ten times slower after the twentieth.
    const elapsedMs = answer <= 20 ? 10 * answer : 200 + 100 * (answer - 20);
    track.add({
      tokens: [{ id: 1, text: 'x', origin: 'cloud' }],
      statistics: { elapsedMs, uplinkBits: 8, downlinkBits: 8 * answer, serverPasses: answer } as Statistics,
      round: null,
    });
  }
  expect(track.speeds[19]?.value).toBeCloseTo(100);
  expect(track.speeds.at(-1)?.value).toBeCloseTo(10);
  expect(track.samples.at(-1)).toEqual({ ms: 2200, tokens: 40, bytes: 41, passes: 40 });
});

test('a burst of tokens is not a speed: a window spans a quarter of a second', () => {
  const track = new Track();
  for (let answer = 1; answer <= 256; answer++) {
    // The tokens of 320 ms come together.
    const elapsedMs = 320 * Math.ceil(answer / 64) + 0.01 * answer;
    track.add({ ...round(elapsedMs, 'cloud'), statistics: { elapsedMs } as Statistics });
  }
  for (const { value } of track.speeds) expect(value).toBeLessThan(401);
});
