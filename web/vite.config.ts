import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';
import { compressed, workerBesideScript } from './compressed.js';

/** What makes a page isolated, so that its workers may share memory. */
const isolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

const server = process.env['OUTRIDER_SERVER'] ?? 'http://127.0.0.1:8787';

/**
 * Writes the addresses of the worker and of the wasm the way every bundler understands, `new URL('./file',
 * import.meta.url)`. Vite wraps them in a second URL, behind which the bundlers of those who use the package
 * would not see that a file is needed.
 */
function plainAddresses(): Plugin {
  const wrapped =
    /new URL\(\s*(?:\/\*.*?\*\/\s*)?"" \+ new URL\("([^"]+)", import\.meta\.url\)\.href,\s*import\.meta\.url\s*\)/g;
  const plain = (code: string): string => code.replace(wrapped, 'new URL("./$1", import.meta.url)');
  return {
    name: 'plain-addresses',
    enforce: 'post',
    generateBundle(_, bundle) {
      for (const file of Object.values(bundle)) {
        if (file.type === 'chunk') file.code = plain(file.code);
        else if (typeof file.source === 'string') file.source = plain(file.source);
      }
    },
  };
}

export default defineConfig(({ mode }) => ({
  plugins: mode === 'package' ? [plainAddresses()] : [workerBesideScript(), compressed()],
  // Relative, so that the page also works below a path of somebody's own server.
  base: './',
  worker: { format: 'es' },
  build:
    mode === 'package'
      ? {
          outDir: 'npm',
          target: 'es2022',
          copyPublicDir: false,
          assetsInlineLimit: 0,
          // Bundlers find the worker and the wasm by `new URL('…', import.meta.url)`; minified names stay readable.
          minify: false,
          modulePreload: false,
          rollupOptions: {
            input: 'src/outrider/index.ts',
            preserveEntrySignatures: 'strict',
            output: { entryFileNames: 'outrider.js' },
          },
        }
      : { outDir: 'dist', target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  // As the server does: threads share memory on isolated pages only.
  preview: { headers: isolation },
  server: {
    headers: isolation,
    proxy: {
      '/pair': server,
      '/healthz': server,
      '/session': { target: server, ws: true },
    },
  },
  test: { include: ['src/**/*.test.ts'] },
}));
