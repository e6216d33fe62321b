import { defineConfig } from 'vitest/config';

const server = process.env['OUTRIDER_SERVER'] ?? 'http://127.0.0.1:8787';

export default defineConfig(({ mode }) => ({
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
  server: {
    proxy: {
      '/pair': server,
      '/healthz': server,
      '/session': { target: server, ws: true },
    },
  },
  test: { include: ['src/**/*.test.ts'] },
}));
