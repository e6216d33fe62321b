// The builds of the engine, what each needs of the browser, and which of them to try. Nothing here is fetched or started.

/**
 * The builds, the fastest first. Each needs WebAssembly SIMD (Chrome 91, Firefox 89, Safari 16.4). `relaxed` is simd128
 * with relaxed SIMD; `-threads` share their memory among workers.
 */
export const builds = ['relaxed-threads', 'simd128-threads', 'relaxed', 'simd128'] as const;

/** A build of the engine. */
export type Build = (typeof builds)[number];

/** Features of the browser and the page that builds need. */
export interface Abilities {
  simd128: boolean;
  relaxedSimd: boolean;
  /** Shared memory: an isolated page (COOP and COEP) and atomic instructions. */
  threads: boolean;
}

/** The engines that can draft: WebAssembly on the processor, or the browser's GPU. */
export const engines = ['wasm', 'webgpu'] as const;

/** The name of an engine. */
export type EngineKind = (typeof engines)[number];

/** The engine that a load asks for. */
export interface EngineRequest {
  engine: EngineKind | 'auto';
  build: Build | 'auto';
  /** The number of threads; null leaves it to {@link threadCount}. */
  threads: number | null;
  /** The address of each build's module. */
  addresses: Readonly<Record<Build, string>>;
}

/** The engine that is running. */
export interface EngineInfo {
  /** The engine that drafts. WebAssembly does everything else in any case. `lookup` has no model, `none` no worker. */
  engine: EngineKind | 'lookup' | 'none';
  /** The reason why the GPU does not draft although it was asked for; null otherwise. */
  declined: string | null;
  /** The build that runs; `none` without a draft model. */
  build: Build | 'none';
  /** The number of drafting threads, the worker's own included. */
  threads: number;
  /** Faster builds that failed to start in this browser, each with the reason. */
  failed: { build: Build; message: string }[];
}

/** Most drafting threads when `threads` is not given. */
const DEFAULT_THREADS = 4;

/** Drafting threads: what was asked for, at most one per processor; else one per processor, at most four. */
export function threadCount(asked: number | null, processors: number): number {
  return Math.max(1, Math.min(asked ?? DEFAULT_THREADS, processors));
}

/**
 * The builds to try, in this order: those of `built` that the browser can run, where one thread needs no build with
 * threads; or the one that was asked for.
 */
export function candidates(
  asked: Build | 'auto',
  threads: number,
  abilities: Abilities,
  built: readonly Build[],
): Build[] {
  if (asked !== 'auto') return lackOf(asked, abilities, built) === null ? [asked] : [];
  return builds.filter((build) => lackOf(build, abilities, built) === null && (threads > 1 || !hasThreads(build)));
}

/** Describes what `build` lacks, as the end of a sentence; null if nothing. */
export function lackOf(build: Build, abilities: Abilities, built: readonly Build[]): string | null {
  if (!built.includes(build)) return 'it is not part of this package';
  if (!abilities.simd128) return 'this browser has no WebAssembly SIMD';
  if (build.startsWith('relaxed') && !abilities.relaxedSimd) return 'this browser has no relaxed SIMD';
  if (hasThreads(build) && !abilities.threads) {
    return 'this page may not share memory among workers (it has to be served with COOP and COEP)';
  }
  return null;
}

export function hasThreads(build: Build): boolean {
  return build.endsWith('-threads');
}

/** Detects the features of this browser and this page. */
export function probe(scope: { crossOriginIsolated?: boolean } = globalThis): Abilities {
  const runs = (module: readonly number[]): boolean => WebAssembly.validate(Uint8Array.from(module));
  return {
    simd128: runs(simd128Module),
    relaxedSimd: runs(relaxedModule),
    threads: scope.crossOriginIsolated === true && typeof SharedArrayBuffer === 'function' && runs(threadsModule),
  };
}

const header = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0];
/** One function without parameters that gives a v128, before its code. */
const givesVector = [...header, 1, 5, 1, 0x60, 0, 1, 0x7b, 3, 2, 1, 0];
/** i32.const 0, i8x16.splat */
const zeroes = [0x41, 0, 0xfd, 0x0f];

/** Its function gives a vector of zeroes. */
export const simd128Module: readonly number[] = [...givesVector, 10, 8, 1, 6, 0, ...zeroes, 0x0b];

/** Its function gives i32x4.relaxed_dot_i8x16_i7x16_add_s of zeroes. */
// prettier-ignore
export const relaxedModule: readonly number[] = [
  ...givesVector, 10, 19, 1, 17, 0, ...zeroes, ...zeroes, ...zeroes, 0xfd, 0x93, 2, 0x0b,
];

/** It has a shared memory of one page, and its function an i32.atomic.load from there. */
// prettier-ignore
export const threadsModule: readonly number[] = [
  ...header, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 5, 4, 1, 3, 1, 1,
  10, 11, 1, 9, 0, 0x41, 0, 0xfe, 0x10, 2, 0, 0x1a, 0x0b,
];
