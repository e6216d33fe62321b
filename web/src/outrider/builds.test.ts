import { expect, test } from 'vitest';
import { builds, candidates, lackOf, probe, simd128Module, threadCount, threadsModule } from './builds.js';
import type { Abilities } from './builds.js';

const all: Abilities = { simd128: true, relaxedSimd: true, threads: true };
const none: Abilities = { simd128: false, relaxedSimd: false, threads: false };

test('the fastest build that the browser can run comes first', () => {
  const pick = (abilities: Partial<Abilities>, threads = 2) =>
    candidates('auto', threads, { ...all, ...abilities }, builds);
  expect(pick({})).toEqual(['relaxed-threads', 'simd128-threads', 'relaxed', 'simd128']);
  expect(pick({}, 1)).toEqual(['relaxed', 'simd128']);
  expect(pick({ threads: false })).toEqual(['relaxed', 'simd128']);
  expect(pick({ relaxedSimd: false })).toEqual(['simd128-threads', 'simd128']);
  expect(pick({ relaxedSimd: false, threads: false })).toEqual(['simd128']);
  expect(pick({ simd128: false })).toEqual([]);
  expect(candidates('auto', 4, none, builds)).toEqual([]);
});

test('what was not built is not picked', () => {
  expect(candidates('auto', 2, all, ['relaxed', 'simd128'])).toEqual(['relaxed', 'simd128']);
  expect(candidates('auto', 2, all, [])).toEqual([]);
  expect(candidates('relaxed', 2, all, ['simd128'])).toEqual([]);
});

test('a named build runs or does not, and what it lacks is told', () => {
  for (const build of builds) {
    expect(candidates(build, 1, all, builds)).toEqual([build]);
    expect(candidates(build, 2, none, builds)).toEqual([]);
    expect(lackOf(build, all, builds)).toBeNull();
  }
  expect(lackOf('relaxed', none, builds)).toMatch(/no WebAssembly SIMD/);
  expect(lackOf('relaxed', { ...all, relaxedSimd: false }, builds)).toMatch(/no relaxed SIMD/);
  expect(lackOf('simd128-threads', { ...all, threads: false }, builds)).toMatch(/COOP and COEP/);
  expect(lackOf('simd128', all, ['relaxed'])).toMatch(/not part of/);
});

test('threads: what was asked for, never more than processors, four if nobody says', () => {
  expect([threadCount(null, 1), threadCount(null, 2), threadCount(null, 16)]).toEqual([1, 2, 4]);
  expect([threadCount(1, 8), threadCount(6, 8), threadCount(9, 8)]).toEqual([1, 6, 8]);
});

test('the probes are modules, and threads need isolation as well', () => {
  const isValid = (bytes: readonly number[]) => WebAssembly.validate(Uint8Array.from(bytes));
  for (const module of [simd128Module, threadsModule]) {
    expect(isValid(module)).toBe(true);
    // Every byte counts: what is cut off anywhere is no module.
    for (let length = 9; length < module.length; length++) {
      expect(isValid(module.slice(0, length)), `${length} bytes`).toBe(isEndOfSection(module, length));
    }
  }
  expect(probe({ crossOriginIsolated: true })).toMatchObject({ simd128: true, threads: true });
  expect(probe({ crossOriginIsolated: false }).threads).toBe(false);
  expect(probe({}).threads).toBe(false);
});

/** After the header come sections: an id, a length, and as many bytes. Functions without code are no module, though. */
function isEndOfSection(module: readonly number[], length: number): boolean {
  let end = 8;
  const ids: number[] = [];
  while (end < length) {
    ids.push(module[end] ?? 0);
    end += 2 + (module[end + 1] ?? 0);
  }
  return end === length && ids.includes(3) === ids.includes(10);
}
