import { defineConfig } from '@playwright/test';
import { chromiumArgs, chromiumPath } from './chromium.mjs';

/** Tests whose outcome depends on how fast things are: these files, and single tests with the tag. */
const timing = /\b(ahead|link|race)\.spec\.ts|@timing/;

export default defineConfig({
  testDir: '.',
  outputDir: '../test-results',
  // Each worker has a server and a browser of its own, and leaves time to another.
  workers: 2,
  fullyParallel: false,
  projects: [
    { name: 'all else', grepInvert: timing },
    // Alone on the machine, after the others.
    { name: 'timing', grep: timing, workers: 1, dependencies: ['all else'] },
  ],
  timeout: 120_000,
  expect: { timeout: 15_000 },
  reporter: [['list']],
  use: {
    browserName: 'chromium',
    launchOptions: { executablePath: chromiumPath, args: chromiumArgs },
    viewport: { width: 1280, height: 900 },
    screenshot: 'only-on-failure',
    // It would answer requests that tests intercept.
    serviceWorkers: 'block',
  },
});
