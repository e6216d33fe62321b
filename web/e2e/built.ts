// The builds of the engine that were made: one by default, all four by `cargo xtask test --full`.

import { readdirSync } from 'node:fs';
import path from 'node:path';

/** True where all builds, bundlers and browsers are tested. */
export const isFull = process.env['OUTRIDER_FULL'] !== undefined;

/** Names of all builds, the fastest first. */
export const allBuilds = ['relaxed-threads', 'simd128-threads', 'relaxed', 'simd128'] as const;

const made = readdirSync(path.resolve(import.meta.dirname, '../src/wasm'));

/** Names of the builds that were made, the fastest first. */
export const builds = isFull ? allBuilds : allBuilds.filter((build) => made.includes(build));

/** The build that Chromium chooses on a page with or without shared memory. */
export function chosenBuild(isIsolated: boolean, processors: number): string {
  const isPossible = (build: string): boolean => (isIsolated && processors > 1) || !build.endsWith('-threads');
  return builds.find(isPossible) ?? 'none';
}
