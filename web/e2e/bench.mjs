// node e2e/bench.mjs FOLDER
//
// Runs the browser's half of `cargo xtask bench codec` in Chromium: the module FOLDER/codec_bench.js (built for
// no-modules) on FOLDER/codec-cases.txt. Prints a line of microseconds for each case.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { chromiumArgs, chromiumPath } from './chromium.mjs';

const folder = process.argv[2];
const browser = await chromium.launch({ executablePath: chromiumPath, args: chromiumArgs });
try {
  const page = await browser.newPage();
  const glue = readFileSync(join(folder, 'codec_bench.js'), 'utf8');
  await page.evaluate(`${glue}; globalThis.wasm_bindgen = wasm_bindgen;`);
  const module = readFileSync(join(folder, 'codec_bench_bg.wasm')).toString('base64');
  const cases = readFileSync(join(folder, 'codec-cases.txt'), 'utf8');
  const times = await page.evaluate(
    async ([module, cases]) => {
      const bytes = Uint8Array.from(atob(module), (character) => character.charCodeAt(0));
      await wasm_bindgen({ module_or_path: bytes });
      return wasm_bindgen.time(cases);
    },
    [module, cases],
  );
  process.stdout.write(times);
} finally {
  await browser.close();
}
