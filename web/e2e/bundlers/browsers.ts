// Browsers beside Chromium, where they are installed: Firefox opens an address by itself, WebKitGTK by its driver.

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Ends what was opened. */
type Close = () => Promise<void>;

/** Starts a program; null if there is none of this name. */
async function start(program: string, args: string[], environment = {}): Promise<ChildProcess | null> {
  const child = spawn(program, args, { stdio: 'ignore', env: { ...process.env, ...environment } });
  const started = await Promise.race([once(child, 'spawn').then(() => true), once(child, 'error').then(() => false)]);
  return started ? child : null;
}

async function end(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill();
  if (child.exitCode === null && child.signalCode === null) await exited;
}

/** Opens an address in a Firefox of its own. Null if there is none. */
export async function openInFirefox(url: string): Promise<Close | null> {
  const profile = await mkdtemp(path.join(tmpdir(), 'firefox-'));
  // No first-run pages, no questions.
  const settings = { 'browser.aboutwelcome.enabled': false, 'datareporting.policy.dataSubmissionEnabled': false };
  const lines = Object.entries(settings).map(([name, value]) => `user_pref("${name}", ${value});`);
  await writeFile(path.join(profile, 'user.js'), lines.join('\n'));
  const firefox = await start('firefox-esr', ['--headless', '--no-remote', '--profile', profile, url]);
  return (
    firefox &&
    (async () => {
      await end(firefox);
      await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    })
  );
}

const driverPort = 4477;
const display = ':47';

/** Opens an address in a WebKitGTK of its own, on a screen of its own. Null if its driver or Xvfb is not there. */
export async function openInWebKit(url: string): Promise<Close | null> {
  const screen = await start('Xvfb', [display, '-nolisten', 'tcp']);
  const driver = screen && (await start('WebKitWebDriver', [`--port=${driverPort}`], { DISPLAY: display }));
  const close = async (): Promise<void> => {
    for (const child of [driver, screen]) if (child) await end(child);
  };
  if (!driver) {
    await close();
    return null;
  }
  try {
    const { sessionId } = await ask('session', { capabilities: {} });
    await ask(`session/${sessionId}/url`, { url });
    return async () => {
      await fetch(`${driverUrl}/session/${sessionId}`, { method: 'DELETE' });
      await close();
    };
  } catch (error) {
    await close();
    throw error;
  }
}

const driverUrl = `http://127.0.0.1:${driverPort}`;

/** A command of WebDriver, once the driver listens. */
async function ask(command: string, body: object): Promise<{ sessionId?: string }> {
  for (let attempt = 1; ; attempt++) {
    try {
      const response = await fetch(`${driverUrl}/${command}`, { method: 'POST', body: JSON.stringify(body) });
      const { value } = (await response.json()) as { value: { sessionId?: string; message?: string } | null };
      if (!response.ok) throw new Error(`WebKit's driver: ${value?.message}`);
      return value ?? {};
    } catch (error) {
      if (!(error instanceof TypeError) || attempt === 50) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
