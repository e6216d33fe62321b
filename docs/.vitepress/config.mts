import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const modules = (file: string) => path.join(repository, 'docs/node_modules', file);
/** Where files of the repository that are no pages can be read. */
const source = 'https://outrider.example/outrider/';

const page = (text: string, link: string) => ({ text, link });

/** Folders of the repository whose Markdown is for its readers there, not for the site. */
const elsewhere = ['target', 'pair', 'tests', 'models', 'papers', 'speculation', 'control', 'testing', 'wasm-edge', 'webgpu'];

const isElsewhere = (file: string) =>
  elsewhere.some((folder) => file.startsWith(`${folder}/`)) || file.startsWith('fuzz/') || file === 'shared-codec/README.md';

export default defineConfig({
  title: 'Outrider',
  description: 'Speculative decoding across the network: the browser drafts, the server verifies',
  // The pages are the repository's own Markdown, so that links work in both places.
  srcDir: '..',
  outDir: '../target/site',
  cacheDir: '../target/site-cache',
  srcExclude: [
    '**/node_modules/**',
    ...elsewhere.map((folder) => `${folder}/**`),
    'shared-codec/README.md',
    'fuzz/**',
    'web/{dist,e2e,npm,public,reference,src,test-results}/**',
  ],
  rewrites: { 'README.md': 'index.md' },
  cleanUrls: true,
  vite: {
    // Pages above this folder do not find its packages by themselves.
    resolve: { alias: { 'vue/server-renderer': modules('vue/server-renderer/index.mjs'), vue: modules('vue/dist/vue.runtime.esm-bundler.js') } },
  },
  markdown: {
    config: (md) => {
      // Links to files and folders that are not pages lead to the repository; all others must be pages.
      md.core.ruler.push('repository-links', ({ tokens, env }) => {
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          const href = token.type === 'link_open' ? token.attrGet('href') : null;
          if (!href || /^(\w+:|#)/.test(href)) continue;
          const file = path.join(path.dirname(env.relativePath), decodeURI(href.split('#')[0] ?? ''));
          const isPage = file.endsWith('.md') && !isElsewhere(file);
          const found = path.join(repository, file);
          if (!isPage && existsSync(found)) {
            token.attrSet('href', source + file);
          }
        }
      });
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      page('Start', '/'),
      page('Package', '/docs/package'),
      page('Server', '/docs/deploying'),
      page('Papers', '/docs/papers'),
      page('Benchmarks', '/docs/bench/README'),
    ],
    sidebar: [
      { text: 'Start', items: [page('Overview', '/'), page('The demo page', '/docs/page'), page('Examples', '/examples/README')] },
      {
        text: 'Guides',
        items: [
          page('Recipes', '/docs/recipes'),
          page('Models', '/docs/models'),
          page('Making a draft', '/integrations/draft/README'),
          page('Deploying', '/docs/deploying'),
          page('Operating', '/docs/operating'),
          page('vLLM', '/docs/gateway'),
          page('NVIDIA GPUs', '/docs/cuda'),
        ],
      },
      {
        text: 'Concepts',
        items: [
          page('How it works', '/docs/concepts'),
          page('Architecture', '/docs/architecture'),
          page('Security', '/SECURITY'),
          page('Papers', '/docs/papers'),
        ],
      },
      {
        text: 'Reference',
        items: [
          page('Package', '/docs/package'),
          page('Package, API', '/docs/api/'),
          page('Wire format', '/shared-codec/FORMAT'),
          page('Wire examples', '/shared-codec/EXAMPLES'),
          page('Adding a scheme, rule or family', '/docs/adding'),
          page('Contributing', '/CONTRIBUTING'),
          page('Changes', '/CHANGELOG'),
        ],
      },
      {
        text: 'Benchmarks',
        collapsed: true,
        items: ['ahead', 'capacity', 'dssd', 'edge', 'fleet', 'hostile', 'link', 'native', 'page', 'rules', 'schemes', 'serve']
          .map((name) => page(name, `/docs/bench/${name}`)),
      },
    ],
  },
});
