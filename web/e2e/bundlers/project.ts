// A fresh project with the package from its tarball, as a user has it.

import { exec, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import type { Server as FileServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { isFull } from '../built.js';
import { serve } from '../edge/serve.mjs';
import { freePort } from '../webdriver.js';

const here = import.meta.dirname;
const web = path.resolve(here, '../..');

/** Runs a command; an error says what it printed. */
export async function run(command: string, cwd: string): Promise<string> {
  const running = promisify(exec)(command, { cwd, env: environment(cwd), maxBuffer: 1 << 26 });
  const { stdout } = await running.catch((error: Error & { stdout: string }) => {
    throw new Error(`${error.message}\n${error.stdout}`);
  });
  return stdout;
}

/** The project's own programs come first; nothing is reported to anybody. */
function environment(cwd: string): NodeJS.ProcessEnv {
  const PATH = [path.join(cwd, 'node_modules/.bin'), process.env['PATH']].join(path.delimiter);
  // The quick tests have the builds that were made, one by default.
  const some = isFull ? {} : { OUTRIDER_SOME_BUILDS: '1' };
  return { ...process.env, ...some, PATH, NEXT_TELEMETRY_DISABLED: '1' };
}

/** The tarball of the package, and a folder for projects. */
export class Tarball {
  readonly folder: string;
  readonly file: string;

  private constructor(folder: string, file: string) {
    this.folder = folder;
    this.file = file;
  }

  /** Packs what `npm publish` would publish; with `only` what `cargo xtask pack` makes, a package with that build. */
  static async pack(only?: string): Promise<Tarball> {
    const folder = await mkdtemp(path.join(tmpdir(), 'outrider-'));
    const source = only === undefined ? web : path.join(folder, 'web');
    if (only !== undefined) {
      const isLeftOut = new RegExp(`^(node_modules|npm|dist|e2e|test-results)$|^src/wasm/(?!${only}(/|$))`);
      const filter = (file: string): boolean => !isLeftOut.test(path.relative(web, file));
      await cp(web, source, { recursive: true, filter });
      await symlink(path.join(web, 'node_modules'), path.join(source, 'node_modules'));
    }
    const some = only === undefined ? '' : 'OUTRIDER_SOME_BUILDS=1 ';
    await run(`${some}npm pack --pack-destination ${folder}`, source);
    return new Tarball(folder, path.join(folder, 'outrider-0.1.0.tgz'));
  }

  /** Runs `npm publish` dry, and returns what it would publish. */
  async publishDryRun(): Promise<{ files: { path: string }[]; size: number; unpackedSize: number }> {
    // With provenance, which needs the repository to be named.
    const said = await run(`npm publish --dry-run --provenance --json ${this.file}`, this.folder);
    return (JSON.parse(said) as { outrider: Awaited<ReturnType<Tarball['publishDryRun']>> }).outrider;
  }

  /** A project of the folder `project` here, with the package and `packages` installed. */
  async install(name: string, project: string, packages: readonly string[]): Promise<string> {
    const folder = path.join(this.folder, name.replaceAll(' ', '-'));
    await mkdir(folder);
    await cp(path.join(here, project), folder, { recursive: true });
    for (const file of ['app.js', 'main.js']) await cp(path.join(here, file), path.join(folder, file));
    await writeFile(path.join(folder, 'package.json'), '{ "private": true }');
    const names = [this.file, ...packages].join(' ');
    await run(`npm install --ignore-scripts --no-audit --no-fund --prefer-offline ${names}`, folder);
    return folder;
  }

  /** An app of the folder `examples` of the repository, with the package installed. */
  async installExample(name: string): Promise<string> {
    const folder = path.join(this.folder, `example-${name}`);
    const isSource = (file: string): boolean => !/\/(node_modules|\.next|\.svelte-kit|dist|build)$/.test(file);
    await cp(path.resolve(web, '../examples', name), folder, { recursive: true, filter: isSource });
    await run(`npm install --ignore-scripts --no-audit --no-fund --prefer-offline ${this.file}`, folder);
    return folder;
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Most time for a development server to answer. */
const START_MS = 60_000;

/** Runs a development server of the project in `folder` while `use` needs it. */
export async function develop(
  folder: string,
  command: (port: number) => string,
  use: (url: string) => Promise<void>,
): Promise<void> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  // A group of its own, so that whatever it starts ends with it.
  const server = spawn(command(port), {
    cwd: folder,
    env: environment(folder),
    shell: true,
    detached: true,
    // Some stop where there is nobody to type.
    stdio: 'pipe',
  });
  let said = '';
  for (const stream of [server.stdout, server.stderr]) stream.on('data', (data) => (said += String(data)));
  const exited = once(server, 'exit');
  try {
    const end = Date.now() + START_MS;
    while (!(await fetch(url).catch(() => null))) {
      if (server.exitCode !== null || Date.now() > end) throw new Error(`no server from ${command(port)}\n${said}`);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    await use(url);
  } finally {
    if (server.pid !== undefined && server.exitCode === null) process.kill(-server.pid);
    await exited;
  }
}

/** Serves a folder while `use` needs it. */
export async function serving(
  folder: string,
  headers: Record<string, string>,
  use: (url: string, files: FileServer) => Promise<void>,
): Promise<void> {
  const files: FileServer = await serve([['/', folder]], headers);
  try {
    await use(`http://127.0.0.1:${(files.address() as AddressInfo).port}`, files);
  } finally {
    files.closeAllConnections();
    files.close();
  }
}
