// Browsers that Playwright does not drive as they are installed: Firefox and WebKitGTK, by W3C WebDriver. Five of its
// commands are enough, so that no library for it is.

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import path from 'node:path';

/** A browser with its driver. */
export interface Installed {
  name: string;
  driver: string;
  capabilities: Record<string, unknown>;
}

/** The folders of programs. */
const folders = (process.env['PATH'] ?? '').split(path.delimiter);

/** Finds the path of a program; null if it is not installed. */
function installed(program: string): string | null {
  return folders.map((folder) => path.join(folder, program)).find((file) => existsSync(file)) ?? null;
}

/** The browser if it is installed, else what is missing. */
export function find(name: 'Firefox' | 'WebKitGTK'): Installed | { missing: string } {
  const driver = installed(name === 'Firefox' ? 'geckodriver' : 'WebKitWebDriver');
  if (!driver) return { missing: name === 'Firefox' ? 'geckodriver' : 'webkit2gtk-driver' };
  if (name === 'WebKitGTK') {
    const hasScreen = process.env['DISPLAY'] ?? process.env['WAYLAND_DISPLAY'] ?? installed('Xvfb');
    return hasScreen ? { name, driver, capabilities: {} } : { missing: 'xvfb' };
  }
  const binary = installed('firefox') ?? installed('firefox-esr');
  if (!binary) return { missing: 'firefox-esr' };
  return { name, driver, capabilities: { 'moz:firefoxOptions': { binary, args: ['-headless'] } } };
}

/** A window of an installed browser. */
export class Window {
  readonly #session: string;
  readonly #processes: ChildProcess[];

  private constructor(session: string, processes: ChildProcess[]) {
    this.#session = session;
    this.#processes = processes;
  }

  static async open({ name, driver, capabilities }: Installed): Promise<Window> {
    const port = await freePort();
    const screen = name === 'WebKitGTK' && !process.env['WAYLAND_DISPLAY'] ? await screenOf() : null;
    const env = { ...process.env, ...(screen && { DISPLAY: screen.display }) };
    const started = spawn(driver, [`--port=${port}`], { stdio: 'ignore', env });
    const processes = [started, ...(screen?.server ? [screen.server] : [])];
    const base = `http://127.0.0.1:${port}/session`;
    try {
      for (let attempt = 0; ; attempt++) {
        try {
          const { sessionId } = (await send(base, { capabilities: { alwaysMatch: capabilities } })) as {
            sessionId: string;
          };
          return new Window(`${base}/${sessionId}`, processes);
        } catch (error) {
          // The driver takes a moment to listen.
          if (!(error instanceof TypeError) || attempt === 50) throw error;
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
      }
    } catch (error) {
      for (const process of processes) process.kill();
      throw error;
    }
  }

  async goto(url: string): Promise<void> {
    await send(`${this.#session}/url`, { url });
  }

  /** Runs a function body in the page, and returns its result. */
  async evaluate(body: string): Promise<unknown> {
    return send(`${this.#session}/execute/sync`, { script: body, args: [] });
  }

  /** Waits until an expression is true in the page. */
  async until(expression: string, ms: number): Promise<void> {
    const end = Date.now() + ms;
    while (!(await this.evaluate(`return Boolean(${expression})`))) {
      if (Date.now() > end) throw new Error(`not within ${ms / 1000} s: ${expression}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async close(): Promise<void> {
    await fetch(this.#session, { method: 'DELETE' }).catch(() => {});
    for (const process of this.#processes) process.kill();
  }
}

/** The screen that there is, or a virtual one: WebKitGTK does not start without. */
async function screenOf(): Promise<{ display: string; server: ChildProcess | null }> {
  const display = process.env['DISPLAY'];
  if (display) return { display, server: null };
  const args = ['-displayfd', '1', '-screen', '0', '1280x900x24', '-nolisten', 'tcp'];
  const server = spawn('Xvfb', args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const number = await new Promise<string>((resolve, reject) => {
    server.once('error', reject);
    server.once('exit', (code) => reject(new Error(`Xvfb ended with ${code}`)));
    server.stdout?.once('data', (data) => resolve(String(data).trim()));
  });
  return { display: `:${number}`, server };
}

async function send(url: string, body: object): Promise<unknown> {
  const headers = { 'Content-Type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  const { value } = (await response.json()) as { value: { error?: string; message?: string } };
  if (!response.ok) throw new Error(`${value.error}: ${value.message}`);
  return value;
}

/** Finds a port of this machine that is free. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
