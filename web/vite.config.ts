import { fileURLToPath } from 'node:url';
import { existsSync, statSync } from 'node:fs';
import type { Plugin, Rollup } from 'vite';
import { build } from 'vite';
import { defineConfig } from 'vitest/config';
import { compressed } from './compressed.js';

/** Headers that isolate a page, so that its workers may share memory. */
const isolation = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };

const server = process.env['OUTRIDER_SERVER'] ?? 'http://127.0.0.1:8787';

const root = fileURLToPath(new URL('.', import.meta.url));
const engineFile = /wasm\/([\w-]+)\/outrider_edge_bg\.wasm$/;

/** Bundles a worker's file, with everything that it needs, into one module without imports. */
async function bundleWorker(file: string): Promise<Rollup.OutputChunk> {
  const built = await build({
    root,
    configFile: false,
    logLevel: 'warn',
    build: {
      write: false,
      target: 'es2022',
      copyPublicDir: false,
      modulePreload: false,
      sourcemap: 'hidden',
      rollupOptions: { input: file, output: { inlineDynamicImports: true, entryFileNames: 'worker.js' } },
    },
  });
  const { output } = (Array.isArray(built) ? built[0] : built) as Rollup.RollupOutput;
  if (output.length > 2) throw new Error(`${file} is more than one file: ${output.map((it) => it.fileName)}`);
  return output[0];
}

/** Makes `FILE?source` the text of what {@link bundleWorker} makes of it; in the package the file is there as well. */
function workerSource(mode: string): Plugin {
  let bundled: Promise<Rollup.OutputChunk> | undefined;
  return {
    name: 'worker-source',
    enforce: 'pre',
    async load(id) {
      const file = id.endsWith('?source') && id.slice(0, -'?source'.length);
      if (!file) return null;
      // Unit tests bring a worker of their own.
      if (mode === 'test') return 'export default ""';
      bundled ??= bundleWorker(file);
      const { code, map, moduleIds } = await bundled;
      for (const module of moduleIds) if (!module.startsWith('\0')) this.addWatchFile(module);
      if (mode === 'package') {
        const withMap = `${code}//# sourceMappingURL=worker.js.map\n`;
        this.emitFile({ type: 'asset', fileName: 'worker.js', source: withMap });
        this.emitFile({ type: 'asset', fileName: 'worker.js.map', source: JSON.stringify(map) });
      }
      return { code: `export default ${JSON.stringify(code)};`, map: { mappings: '' } };
    },
    watchChange() {
      bundled = undefined;
    },
  };
}

/**
 * Writes the addresses of the wasm the way every bundler understands, `new URL('./file', import.meta.url)`. Vite wraps
 * them in a second URL, in which other bundlers do not see that a file is needed.
 */
function plainAddresses(): Plugin {
  const wrapped =
    /new URL\(\s*(?:\/\*.*?\*\/\s*)?"" \+ new URL\("([^"]+)", import\.meta\.url\)\.href,\s*import\.meta\.url\s*\)/g;
  return {
    name: 'plain-addresses',
    enforce: 'post',
    generateBundle(_, bundle) {
      for (const file of Object.values(bundle)) {
        if (file.type === 'chunk' && !file.isEntry) {
          // The addresses are relative to the file that has them.
          this.error(`${file.fileName} is shared by entries: a value that two of them use is exported by index.ts`);
        }
        if (file.type === 'chunk') file.code = file.code.replace(wrapped, 'new URL("./$1", import.meta.url)');
      }
    },
  };
}

/** Builds of the engine that a package has. */
const packaged = ['relaxed-threads', 'simd128-threads', 'relaxed', 'simd128'];

/** Refers to the builds that exist, since bundlers fail at others. Fails if some are missing, unless that is wanted. */
function builtOnly(): Plugin {
  const missing = packaged.filter((build) => !existsSync(`${root}/src/wasm/${build}/outrider_edge_bg.wasm`));
  return {
    name: 'built-only',
    enforce: 'pre',
    buildStart() {
      const found = packaged.filter((build) => !missing.includes(build));
      this.info(`builds of the engine in this package: ${found.join(', ') || 'none'}`);
      if (missing.length === 0 || process.env['OUTRIDER_SOME_BUILDS'] !== undefined) return;
      const remedy =
        '`cargo xtask test page --full` makes all four; OUTRIDER_SOME_BUILDS=1 makes a package of those that exist';
      this.error(`the package lacks ${missing.join(', ')}: ${remedy}`);
    },
    transform(code, id) {
      if (!id.endsWith('/outrider/files.ts')) return null;
      const absent = (text: string, build: string): string =>
        text.replace(`new URL('../wasm/${build}/outrider_edge_bg.wasm', import.meta.url)`, "new URL('about:blank')");
      return { code: missing.reduce(absent, code), map: null };
    },
  };
}

/** The lengths of the builds of the engine, since a server that compresses them does not tell. */
function engineBytes(): Record<string, number> {
  const lengths = packaged.map((build) => {
    const file = statSync(`${root}/src/wasm/${build}/outrider_edge_bg.wasm`, { throwIfNoEntry: false });
    return [build, file?.size ?? 0] as const;
  });
  return Object.fromEntries(lengths);
}

/** The package's files have the names of the builds, so that `wasmUrl` can name a folder of them. */
function assetName({ originalFileNames }: Rollup.PreRenderedAsset): string {
  const build = originalFileNames.map((name) => engineFile.exec(name)?.[1]).find(Boolean);
  return build ? `${build}.wasm` : '[name][extname]';
}

export default defineConfig(({ mode }) => ({
  plugins: [workerSource(mode), ...(mode === 'package' ? [builtOnly(), plainAddresses()] : [compressed()])],
  define: { ENGINE_BYTES: JSON.stringify(engineBytes()) },
  // Relative, so that the page also works below a path of somebody's own server.
  base: './',
  build:
    mode === 'package'
      ? {
          outDir: 'npm',
          target: 'es2022',
          copyPublicDir: false,
          assetsInlineLimit: 0,
          // Whoever bundles it minifies it.
          minify: false,
          sourcemap: true,
          modulePreload: false,
          rollupOptions: {
            input: {
              outrider: 'src/outrider/index.ts',
              'ai-sdk': 'src/outrider/ai-sdk.ts',
              'chat-element': 'src/outrider/chat-element.ts',
              react: 'src/outrider/react.ts',
            },
            external: ['react', '@ai-sdk/openai-compatible'],
            preserveEntrySignatures: 'strict',
            output: {
              ...{ entryFileNames: '[name].js', assetFileNames: assetName },
              // Frameworks that render on a server leave a module of hooks to the page.
              banner: ({ name }) => (name === 'react' ? "'use client';" : ''),
            },
          },
        }
      : {
          outDir: 'dist',
          target: 'es2022',
          assetsInlineLimit: 0,
          modulePreload: { polyfill: false },
          // A hash that the server cannot take for a word, so that each such file is kept for a year.
          rollupOptions: {
            output: {
              hashCharacters: 'hex' as const,
              entryFileNames: 'assets/[name]-[hash:16].js',
              chunkFileNames: 'assets/[name]-[hash:16].js',
              assetFileNames: 'assets/[name]-[hash:16][extname]',
            },
          },
        },
  // As the server does: threads share memory on isolated pages only.
  preview: { headers: isolation },
  server: {
    headers: isolation,
    proxy: { '/pair': server, '/v1': server, '/healthz': server, '/session': { target: server, ws: true } },
  },
  test: { include: ['src/**/*.test.ts'] },
}));
