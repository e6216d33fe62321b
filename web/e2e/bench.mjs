// node e2e/bench.mjs FOLDER NAME
//
// Runs the browser's half of `cargo xtask bench NAME` in Chromium: the module FOLDER/NAME_bench.js (built for
// no-modules), on FOLDER/NAME-cases.txt where there is such a file. Prints the lines that it gives.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { chromiumArgs, chromiumPath } from './chromium.mjs';

const [folder, name] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: chromiumPath, args: chromiumArgs });
try {
  const page = await browser.newPage();
  const glue = readFileSync(join(folder, `${name}_bench.js`), 'utf8');
  await page.evaluate(`${glue}; globalThis.wasm_bindgen = wasm_bindgen;`);
  const module = readFileSync(join(folder, `${name}_bench_bg.wasm`)).toString('base64');
  const path = join(folder, `${name}-cases.txt`);
  const cases = existsSync(path) ? readFileSync(path, 'utf8') : '';
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
