// The server under test, as a process of its own.

import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

const web = path.resolve(import.meta.dirname, '..');
const repository = path.resolve(web, '..');
const binary = path.resolve(process.env['OUTRIDER_BIN'] ?? path.join(repository, 'target/release/outrider'));

/** Most time for the server to load its model. */
const START_MS = 60_000;

/** `outrider serve`, on a free port of this machine. */
export class Server {
  /** The address of the server, without a slash at the end. */
  readonly url: string;
  #process: ChildProcess;

  private constructor(url: string, process: ChildProcess) {
    this.url = url;
    this.#process = process;
  }

  /** `flags` are added to the command line, for this start; `page` is the folder that it serves. */
  static async start(flags: string[] = [], page?: string): Promise<Server> {
    const { url, process } = await launch('127.0.0.1:0', flags, page);
    return new Server(url, process);
  }

  /** Kills the process, as a crash would. */
  async kill(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const exited = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await exited;
  }

  /** Calls {@link kill}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }

  /** Starts it again, where it was. */
  async startAgain(flags: string[] = []): Promise<void> {
    this.#process = (await launch(new URL(this.url).host, flags)).process;
  }
}

/** Starts the server and waits for the line with its address. */
async function launch(
  listen: string,
  flags: string[] = [],
  page = path.join(web, 'dist'),
): Promise<{ url: string; process: ChildProcess }> {
  const args = ['serve', '--listen', listen, '--web', page, ...flags];
  const process = spawn(binary, args, { cwd: repository, stdio: ['ignore', 'pipe', 'inherit'] });
  const lines: string[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    const fail = (why: string): void => reject(new Error([`${binary} ${why}`, ...lines].join('\n')));
    const timer = setTimeout(() => {
      process.kill('SIGKILL');
      fail(`did not tell its address within ${START_MS / 1000} s`);
    }, START_MS);
    process.once('error', (error) => fail(`could not be started: ${error.message}`));
    process.once('exit', (code) => fail(`ended with ${code}`));
    // Read to the end, also when nobody looks any more: a full pipe would stop the server.
    createInterface({ input: process.stdout }).on('line', (line) => {
      lines.push(line);
      const address = /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0];
      if (address) {
        clearTimeout(timer);
        resolve(address);
      }
    });
  });
  return { url, process };
}

/** Settings of a text that the page is compared with. */
export interface NativeRequest {
  prompt: string;
  maxTokens: number;
  seed: number;
  supportSize: number;
  latticeResolution: number;
  draftLength: number;
  maxInFlight?: number;
  cloudOnly?: boolean;
}

/** Gets the ids that the native client writes for `server` at temperature 0. */
export async function nativeTokenIds(server: Server, request: NativeRequest): Promise<number[]> {
  const [ids = []] = await nativeTexts(server, [request.prompt], request);
  return ids;
}

/** Gets the ids of one text per prompt, as {@link nativeTokenIds}, from a single process. */
export async function nativeTexts(
  server: Server,
  prompts: readonly string[],
  request: Omit<NativeRequest, 'prompt'>,
): Promise<number[][]> {
  const session = `${server.url.replace('http', 'ws')}/session`;
  const folder = await mkdtemp(path.join(tmpdir(), 'outrider-prompts-'));
  const file = path.join(folder, 'prompts.txt');
  await writeFile(file, prompts.join('\n'));
  const options = {
    '--prompts': file,
    '--server': session,
    '--temperature': 0,
    '--max-tokens': request.maxTokens,
    '--seed': request.seed,
    '--support-size': request.supportSize,
    '--lattice-resolution': request.latticeResolution,
    '--draft-length': request.draftLength,
    '--max-in-flight': request.maxInFlight ?? 1,
  };
  const args = ['generate', ...Object.entries(options).flat().map(String), '--json'];
  if (request.cloudOnly) args.push('--cloud-only');
  const { stdout } = await promisify(execFile)(binary, args, { cwd: repository, maxBuffer: 1 << 26 });
  await rm(folder, { recursive: true });
  return stdout
    .trim()
    .split('\n')
    .map((line) => {
      const { tokenIds } = JSON.parse(line) as { tokenIds?: unknown };
      if (!Array.isArray(tokenIds)) throw new Error(`no tokenIds in ${line}`);
      return tokenIds as number[];
    });
}
