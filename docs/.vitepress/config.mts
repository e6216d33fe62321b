import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const modules = (file: string) => path.join(repository, 'docs/node_modules', file);
/** Where files of the repository that are no pages can be read. */
const source = 'https://outrider.example/outrider/';

const page = (text: string, link: string) => ({ text, link });

/** Figures stay on one line beside their errors, code fits, and narrow screens scroll tables and not pages. */
const style = `
  .vp-doc td[style*="right"] { white-space: nowrap }
  .vp-doc [class*="language-"] code { font-size: 12.5px }
  .vp-doc pre { overflow-x: auto }
  @media (max-width: 640px) { .vp-doc td:not([style*="right"]) { min-width: 8rem } }
`;

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
  head: [['style', {}, style]],
  cleanUrls: true,
  vite: {
    // Pages above this folder do not find its packages by themselves.
    resolve: { alias: { 'vue/server-renderer': modules('vue/server-renderer/index.mjs'), vue: modules('vue/dist/vue.runtime.esm-bundler.js') } },
  },
  markdown: {
    // The headings' addresses as in the repository, so that links to them work in both places.
    anchor: { slugify: (heading) => heading.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-') },
    config: (md) => {
      // Links to files and folders that are not pages lead to the repository; all others must be pages.
      md.core.ruler.push('repository-links', ({ tokens, env }) => {
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          const href = token.type === 'link_open' ? token.attrGet('href') : null;
          if (!href || /^(\w+:|#)/.test(href)) continue;
          const file = path.join(path.dirname(env.relativePath), decodeURI(href.split('#')[0] ?? ''));
          const isPage = file.endsWith('.md') && !isElsewhere(file);
          const found = path.join(repository, file);
          if (file === 'README.md') {
            token.attrSet('href', href.replace(/^[^#]*/, '/'));
          } else if (!isPage && existsSync(found)) {
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
      page('Guides', '/docs/recipes'),
      page('Concepts', '/docs/concepts'),
      page('Reference', '/docs/package'),
      page('Papers', '/docs/papers'),
      page('Benchmarks', '/docs/bench/README'),
    ],
    sidebar: [
      {
        text: 'Start',
        items: [
          page('Overview', '/'),
          page('A page in five minutes', '/web/README'),
          page('A server in five minutes', '/#run-a-server'),
          page('The demo page', '/docs/page'),
          page('Examples', '/examples/README'),
        ],
      },
      {
        text: 'Guides',
        items: [
          page('Recipes: chat, tools, React', '/docs/recipes'),
          page('Models', '/docs/models'),
          page('Making a draft', '/integrations/draft/README'),
          page('Deploying', '/docs/deploying'),
          page('Operating', '/docs/operating'),
          page('vLLM, one or a fleet', '/docs/gateway'),
          page('NVIDIA GPUs', '/docs/cuda'),
        ],
      },
      {
        text: 'Concepts',
        items: [
          page('Rounds, drafting ahead, schemes, rules', '/docs/concepts'),
          page('Exactness', '/docs/architecture#the-exactness-contract'),
          page('Architecture', '/docs/architecture'),
          page('Security', '/SECURITY'),
        ],
      },
      {
        text: 'Reference',
        items: [
          page('Package, options', '/docs/package'),
          page('Package, all names', '/docs/api/'),
          page('Package, libraries', '/docs/libraries'),
          page('Command line and settings', '/docs/command-line'),
          page('HTTP API', '/docs/deploying#the-api'),
          page('Metrics', '/docs/operating#metrics'),
          page('Wire format', '/shared-codec/FORMAT'),
          page('Wire examples', '/shared-codec/EXAMPLES'),
          page("vLLM's proposer", '/integrations/vllm/README'),
          page('Adding a scheme, rule or family', '/docs/adding'),
          page('Contributing', '/CONTRIBUTING'),
          page('Changes', '/CHANGELOG'),
        ],
      },
      { text: 'Papers', items: [page('What agrees, and errata', '/docs/papers')] },
      {
        text: 'Benchmarks',
        collapsed: true,
        items: [
          page('Headline figures', '/docs/bench/README'),
          page('Drafting ahead', '/docs/bench/ahead'),
          page('Rounds', '/docs/bench/link'),
          page('Schemes', '/docs/bench/schemes'),
          page('Text before it is confirmed', '/docs/bench/guesses'),
          page('Lookups', '/docs/bench/context'),
          page('Lossy rules', '/docs/bench/rules'),
          page('Fewer rows than tokens', '/docs/bench/choose'),
          page('DSSD', '/docs/bench/dssd'),
          page("Server's passes", '/docs/bench/native'),
          page('Decoding in the browser', '/docs/bench/edge'),
          page('vLLM', '/docs/bench/fleet'),
          page('Sessions of one core', '/docs/bench/capacity'),
          page('One server, many sessions', '/docs/bench/serve'),
          page('First visit', '/docs/bench/page'),
          page('Under attack', '/docs/bench/hostile'),
        ],
      },
    ],
  },
});
