// Addresses of the package's files, the worker and the engine's modules, in any bundle.

import { builds } from './builds.js';
import type { Build } from './builds.js';
import { invalidOption } from './errors.js';
import { trusted } from './trusted.js';
// In one piece, so that it needs no file of its own: not every bundler finds workers in packages.
import source from './worker.ts?source';

/** Addresses in the one form in which bundlers see that a file is needed. Some bundles have no `import.meta.url`. */
const beside: Readonly<Record<Build, () => URL>> = {
  'relaxed-threads': () => new URL('../wasm/relaxed-threads/outrider_edge_bg.wasm', import.meta.url),
  'simd128-threads': () => new URL('../wasm/simd128-threads/outrider_edge_bg.wasm', import.meta.url),
  relaxed: () => new URL('../wasm/relaxed/outrider_edge_bg.wasm', import.meta.url),
  simd128: () => new URL('../wasm/simd128/outrider_edge_bg.wasm', import.meta.url),
};

/**
 * The address of each build's module: in the folder `wasmUrl`, or beside the code.
 * @throws {@link OutriderError} `invalid-option`: the bundle does not know its address, and none was given.
 */
export function engineAddresses(wasmUrl: string | URL | undefined): Record<Build, string> {
  const address = (build: Build): string => {
    if (wasmUrl === undefined) return whereItIs(build);
    const folder = folderOf(wasmUrl);
    if (!folder.pathname.endsWith('/')) folder.pathname += '/';
    return new URL(`${build}.wasm`, folder).href;
  };
  return Object.fromEntries(builds.map((build) => [build, address(build)])) as Record<Build, string>;
}

function folderOf(wasmUrl: string | URL): URL {
  try {
    return new URL(wasmUrl, location.href);
  } catch (cause) {
    throw invalidOption(`wasmUrl is no address: '${String(wasmUrl)}'`, { cause });
  }
}

function whereItIs(build: Build): string {
  try {
    // Next.js knows only the path.
    return asInstalled(new URL(beside[build]().href, location.href).href);
  } catch {
    throw invalidOption(
      "this bundle does not know its own address: wasmUrl has to say where the package's .wasm files are",
    );
  }
}

/** The development servers of Vite 5 to 7 move a package's code and leave its files where they are. */
export function asInstalled(address: string): string {
  return address.replace('/node_modules/.vite/deps/', '/node_modules/outrider/npm/');
}

let ownAddress: string | undefined;

/** Starts the worker: from its source, which the package has with it, or from `workerUrl`. */
export function startWorker(workerUrl: string | URL | undefined): Worker {
  const options = { type: 'module', name: 'outrider' } as const;
  if (workerUrl !== undefined) return new Worker(trusted(new URL(workerUrl, location.href).href), options);
  // Kept for as long as the page: threads are started from it, and workers after a crash.
  ownAddress ??= URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
  return new Worker(trusted(ownAddress), options);
}
