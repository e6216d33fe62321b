import { defineConfig } from '@playwright/test';
import { chromiumArgs, chromiumPath } from './chromium.mjs';

export default defineConfig({
  testDir: '.',
  outputDir: '../test-results',
  // One server and one browser at a time: what is measured must not compete with itself.
  workers: 1,
  fullyParallel: false,
  timeout: 120_000,
  expect: { timeout: 15_000 },
  reporter: [['list']],
  use: {
    browserName: 'chromium',
    launchOptions: { executablePath: chromiumPath, args: chromiumArgs },
    viewport: { width: 1280, height: 900 },
    screenshot: 'only-on-failure',
  },
});
