// The programs of docs/recipes.md: each section with its markup, its module, and the headers that it names.

import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { connect } from 'node:net';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';
import { build } from 'vite';
import type * as Package from '../src/outrider/index.js';

declare global {
  interface Window {
    outrider: Package.Outrider;
    api: typeof Package;
  }
}

const web = path.resolve(import.meta.dirname, '..');
const repository = path.resolve(web, '..');
const sources = path.join(web, 'src/outrider');
const source = path.join(sources, 'index.ts');
const modules = path.join(web, 'src/outrider/source.d.ts');

/** A program of the document. */
export interface Recipe {
  /** Its heading, as links have it. */
  name: string;
  html: string;
  script: string;
  /** The language of the code, `ts` or `tsx`. */
  language: string;
  headers: Record<string, string>;
}

/** A page that only loads, and shows `ready`. */
export const bare: Recipe = {
  ...{ name: 'bare', html: '<p id="ready"></p>', language: 'ts', headers: {} },
  script: `import * as api from 'outrider';
    Object.assign(window, { api, outrider: await api.Outrider.load({ wait: 'draft' }) });
    document.querySelector('#ready')!.textContent = 'ready';`,
};

/** Every section that has a program; one with half of it is an error. */
export async function readRecipes(): Promise<Recipe[]> {
  const document = await readFile(path.join(repository, 'docs/recipes.md'), 'utf8');
  const sections = document.split(/^## /m).slice(1);
  return sections.map((section) => {
    const [heading = ''] = section.split('\n');
    const blocks = [...section.matchAll(/^```(\w+)\n([^]*?)^```$/gm)];
    const of = (language: string) => blocks.filter((block) => block[1] === language).map((b) => b[2] ?? '');
    const [language = ''] = ['ts', 'tsx'].filter((name) => of(name).length > 0);
    const [[html, ...moreHtml], [script, ...moreScripts], [http = '']] = [of('html'), of(language), of('http')];
    if (html === undefined || script === undefined || moreHtml.length + moreScripts.length > 0) {
      throw new Error(`"${heading}" needs markup and a module, one of each`);
    }
    const headers = http.split('\n').flatMap((line) => {
      const [, name, value] = /^([\w-]+): (.*)$/.exec(line) ?? [];
      return name !== undefined && value !== undefined ? [[name, value] as const] : [];
    });
    const name = heading
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-');
    return { name, html, script, language, headers: Object.fromEntries(headers) };
  });
}

/**
 * Compiles the recipes, with all that the package's own code is checked for, and builds a page of each.
 * @returns the folder with the pages, `<name>.html`
 */
export async function buildRecipes(recipes: readonly Recipe[], folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  for (const { name, html, script, language } of recipes) {
    await writeFile(path.join(folder, `${name}.${language}`), script);
    const tag = `<script type="module" src="./${name}.${language}"></script>`;
    await writeFile(path.join(folder, `${name}.html`), `<!doctype html>\n<body>\n${html}${tag}\n</body>\n`);
  }
  const compilerOptions = { jsx: 'react-jsx', paths: { outrider: [source], 'outrider/*': [`${sources}/*.ts`] } };
  const files = { extends: path.join(web, 'tsconfig.json'), include: ['.', modules], exclude: ['dist'] };
  await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify({ ...files, compilerOptions }));
  const compiler = path.join(web, 'node_modules/.bin/tsc');
  await promisify(execFile)(compiler, ['--project', folder]).catch((error: { stdout?: string }) => {
    throw new Error(`a recipe does not compile:\n${error.stdout ?? String(error)}`);
  });
  const outDir = path.join(folder, 'dist');
  await build({
    ...{ root: folder, configFile: path.join(web, 'vite.config.ts'), logLevel: 'warn' },
    resolve: {
      alias: [
        { find: /^outrider$/, replacement: source },
        { find: /^outrider\/(.*)$/, replacement: `${sources}/$1.ts` },
      ],
    },
    build: { outDir, rollupOptions: { input: recipes.map(({ name }) => path.join(folder, `${name}.html`)) } },
  });
  return outDir;
}

/** A host before a server: passes all on, and adds headers that it makes of its own address. */
export async function startHost(
  server: string,
  headersOf: (url: string) => Record<string, string>,
): Promise<{ url: string; close: () => void }> {
  const { hostname, port } = new URL(server);
  let added: Record<string, string> = {};
  const host = createServer((asked, answer) => {
    const { method, url: path, headers } = asked;
    const passed = request({ hostname, port, method, path, headers }, (received) => {
      answer.writeHead(received.statusCode ?? 500, { ...received.headers, ...added });
      received.pipe(answer);
    });
    asked.pipe(passed);
  });
  // A WebSocket is passed on as it is.
  host.on('upgrade', (asked, near, head) => {
    const far = connect(Number(port), hostname, () => {
      const lines = [`GET ${asked.url} HTTP/1.1`];
      for (let i = 0; i < asked.rawHeaders.length; i += 2) {
        lines.push(`${asked.rawHeaders[i]}: ${asked.rawHeaders[i + 1]}`);
      }
      far.write(`${lines.join('\r\n')}\r\n\r\n`);
      far.write(head);
      far.pipe(near).pipe(far);
    });
    for (const socket of [near, far]) socket.on('error', () => [near, far].forEach((each) => each.destroy()));
  });
  await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(host.address() as AddressInfo).port}`;
  added = headersOf(url);
  return {
    url,
    close: () => {
      host.close();
      host.closeAllConnections();
    },
  };
}
