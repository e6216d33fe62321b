// node e2e/edge/bench.mjs FOLDER WLLAMA ONNX [quick]
//
// The browser's part of `cargo xtask bench edge`. FOLDER/edge holds what was built: builds/NAME/edge_bench.js,
// gpu/simd128/gpu_bench.js and candle/candle_browser.js with their .wasm, and models.json, which names the files in
// FOLDER/models; onnx.json names those that ONNX Runtime takes. WLLAMA and ONNX are the esm and dist folders of npm
// packages. Writes FOLDER/edge/measured.json; the engines take turns, round by round.

import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { chromium } from 'playwright-core';
import { chromiumPath, gpuArgs } from '../chromium.mjs';
import { serve } from './serve.mjs';

const [folder, wllama, onnx, quick] = process.argv.slice(2);
const rounds = quick ? 3 : 5;
const threadCounts = [1, 2];
/** Read by each worker in a sweep: far more than caches hold. */
const sweepMebibytes = 256;
/** What one engine may take for one pass in all rounds, and to cache the tokens before it: slow ones have fewer rounds. */
const mostMsPerPass = quick ? 15_000 : 45_000;

/** In this order, so that nobody has to cache a text twice. `work`: how many rows an engine should run in a turn. */
const passes = [
  { name: 'decode16', rows: 1, cached: 16, allLogits: true, work: 8 },
  { name: 'rows8', rows: 8, cached: 16, allLogits: true, work: 16 },
  { name: 'prefill128', rows: 128, cached: 0, allLogits: false, work: 128 },
  { name: 'decode1024', rows: 1, cached: 1024, allLogits: true, work: 8 },
];

/** Groups of guesses that a GPU chooses by itself, in one submission each, and how many of the largest logits are enough. */
const guesses = { most: 4, k: 32, cached: 16, times: rounds };

function listEngines() {
  const engines = [];
  const builds = join(folder, 'edge', 'builds');
  for (const build of readdirSync(builds).sort()) {
    for (const threads of build.endsWith('-threads') ? threadCounts : [1]) {
      const wasm = join(builds, build, 'edge_bench_bg.wasm');
      const module = `/builds/${build}/edge_bench.js`;
      engines.push({ name: 'Outrider', kind: 'outrider', build, module, threads, wasm });
    }
  }
  engines.push({
    ...{ name: 'Outrider', kind: 'gpu', build: 'webgpu', threads: 1 },
    module: '/gpu/simd128/gpu_bench.js',
    wasm: join(folder, 'edge', 'gpu', 'simd128', 'gpu_bench_bg.wasm'),
  });
  const wasm = join(folder, 'edge', 'candle', 'candle_browser_bg.wasm');
  const candle = { name: 'candle', kind: 'candle', build: 'simd128', module: '/candle/candle_browser.js', wasm };
  if (existsSync(wasm)) engines.push({ ...candle, threads: 1 });
  const theirs = {
    ...{ name: 'wllama', kind: 'wllama', module: '/wllama' },
    wasm: join(wllama, 'wasm', 'wllama.wasm'),
  };
  for (const threads of threadCounts) {
    engines.push({ ...theirs, build: '3.8.1', threads });
  }
  engines.push({ ...theirs, build: '3.8.1 webgpu', threads: 1, gpu: true });
  const runtime = { name: 'ONNX Runtime Web', kind: 'onnx' };
  for (const threads of threadCounts) {
    const module = '/onnx/ort.wasm.min.mjs';
    const wasm = join(onnx, 'ort-wasm-simd-threaded.wasm');
    engines.push({ ...runtime, build: '1.30.0', module, wasm, threads });
  }
  engines.push({
    ...{ ...runtime, build: '1.30.0 webgpu', threads: 1, gpu: true },
    module: '/onnx/ort.webgpu.min.mjs',
    wasm: join(onnx, 'ort-wasm-simd-threaded.asyncify.wasm'),
  });
  return engines;
}

/** The name of a model's file for an engine. */
function fileOf({ file }, kind, gpu) {
  if (kind !== 'onnx') return file;
  const { reason, [gpu ? 'gpu' : 'processor']: name } = onnxFiles[file];
  if (reason !== undefined) throw new Error(reason);
  return name;
}

/** 0 of none. */
function median(values) {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}

/** Everything about one model; what an engine cannot do is null, what went wrong stands in `errors`. */
async function measure(page, model, engines) {
  const results = engines.map(({ name, build, threads, wasmBytes, gzippedBytes }) => ({
    ...{ engine: name, build, threads, wasmBytes, gzippedBytes },
    ...{ loadMs: null, memoryBytes: null, passes: {}, errors: [] },
  }));
  const id = (index) => `${index}`;
  const attempt = async (index, what, action) => {
    // Without a model there is nothing to ask for; a pass that fails is not asked for again.
    const failed = results[index].errors.some((error) => error.startsWith('load:') || error.startsWith(`${what}:`));
    if (failed) return null;
    try {
      return await action();
    } catch (error) {
      const [reason] = String(error.message ?? error).split('\n');
      results[index].errors.push(`${what}: ${reason}`);
      console.error(`${engines[index].name} ${engines[index].build}, ${what}: ${reason}`);
      return null;
    }
  };
  for (const [index, { kind, module, threads, gpu }] of engines.entries()) {
    const { context } = model;
    results[index].loadMs = await attempt(index, 'load', () => {
      const request = { kind, module, threads, gpu, context, model: `/models/${fileOf(model, kind, gpu)}` };
      return page.evaluate(([id, request]) => engines.load(id, request), [id(index), request]);
    });
  }
  const sweeps = Object.fromEntries(threadCounts.map((count) => [count, []]));
  for (const pass of passes) {
    // Room for what wllama generates.
    if (pass.cached + 32 > model.context) continue;
    const spentMs = engines.map(() => 0);
    for (let round = 0; round < rounds; round++) {
      for (const count of threadCounts) sweeps[count].push(await page.evaluate((n) => engines.sweep(n), count));
      for (const index of engines.keys()) {
        const { name, rows, cached, allLogits, work } = pass;
        if (spentMs[index] > mostMsPerPass) continue;
        const prefillMs = median(results[index].passes.prefill128 ?? []) * (cached / 128);
        if (prefillMs > mostMsPerPass) {
          const note = `${name}: ${Math.round(prefillMs / 1e3)} s to cache so many tokens, left out`;
          if (round === 0) results[index].errors.push(note);
          continue;
        }
        const began = performance.now();
        const request = { rows, cached, allLogits, times: Math.max(1, Math.round(work / rows)) };
        const times = await attempt(index, name, () =>
          page.evaluate(([id, request]) => engines.pass(id, request), [id(index), request]),
        );
        if (times !== null) (results[index].passes[name] ??= []).push(...times);
        spentMs[index] += performance.now() - began;
      }
    }
  }
  for (const [index, { kind }] of engines.entries()) {
    if (kind !== 'gpu') continue;
    results[index].gpu = await attempt(index, 'guesses', () =>
      page.evaluate(([id, group]) => engines.gpu(id, group), [id(index), guesses]),
    );
  }
  for (const index of engines.keys()) {
    results[index].memoryBytes = await attempt(index, 'memory', () =>
      page.evaluate((id) => engines.memory(id), id(index)),
    );
    await page.evaluate((id) => engines.end(id).catch(() => {}), id(index));
  }
  return { ...model, bytesPerSecond: sweeps, engines: results };
}

const engines = listEngines().map((engine) => {
  const bytes = readFileSync(engine.wasm);
  return { ...engine, wasmBytes: bytes.length, gzippedBytes: gzipSync(bytes).length };
});
const read = (name) => JSON.parse(readFileSync(join(folder, 'edge', name), 'utf8'));
const [models, onnxFiles] = [read('models.json'), read('onnx.json')];
// The first that a path begins with, so the root comes last.
const server = await serve([
  ...models.map(({ file, path }) => [`/models/${file}`, path]),
  ['/models/', join(folder, 'models')],
  ['/builds/', join(folder, 'edge', 'builds')],
  ['/gpu/', join(folder, 'edge', 'gpu')],
  ['/candle/', join(folder, 'edge', 'candle')],
  ['/wllama/', wllama],
  ['/onnx/', onnx],
  ['/', dirname(fileURLToPath(import.meta.url))],
]);
const browser = await chromium.launch({ executablePath: chromiumPath, args: gpuArgs });
try {
  const measured = [];
  for (const model of models) {
    console.error(`${model.name} ${model.format}`);
    // A page of its own, so that nothing of the model before is left.
    const page = await browser.newPage();
    page.on('pageerror', (error) => console.error(error.message));
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.waitForFunction(() => globalThis.engines !== undefined);
    const sweeper = engines.find(({ kind, build }) => kind === 'outrider' && build === 'simd128');
    await page.evaluate(
      ([module, count, mebibytes]) => engines.prepareSweeps(module, count, mebibytes),
      [sweeper.module, Math.max(...threadCounts), sweepMebibytes],
    );
    measured.push(await measure(page, model, engines));
    await page.close();
    const result = { browser: browser.version(), models: measured };
    writeFileSync(join(folder, 'edge', 'measured.json'), `${JSON.stringify(result, null, 1)}\n`);
  }
} finally {
  await browser.close();
  server.close();
}
