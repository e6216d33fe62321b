// Which browser, and how it is started: the system's own, so that nothing needs to be downloaded.

import { chromium } from 'playwright-core';

export const chromiumPath = process.env.CHROMIUM_PATH ?? '/usr/bin/chromium';

export const chromiumArgs = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** With a GPU: in software, so that it is there on every machine. */
export const gpuArgs = [
  ...chromiumArgs.filter((argument) => argument !== '--disable-gpu'),
  '--enable-unsafe-webgpu',
  '--use-webgpu-adapter=swiftshader',
];

/** Runs Chromium while `use` needs it. */
export async function inChromium(args, use) {
  const browser = await chromium.launch({ executablePath: chromiumPath, args });
  try {
    await use(browser);
  } finally {
    await browser.close();
  }
}
