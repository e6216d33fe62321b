// A moving picture of a part of the page: screenshots while something happens, as a GIF that stores what changes.

import { writeFile } from 'node:fs/promises';
import gifenc from 'gifenc';
import { PNG } from 'pngjs';

const { GIFEncoder, applyPalette, quantize } = gifenc;

const INTERVAL_MS = 150;
/** Time for which the last picture stays. */
const END_MS = 4_000;
/** Palette entry of pixels that stay as they are. */
const SAME = 255;

/**
 * Writes pictures of `clip` to `file` until `done` resolves.
 * @param {import('playwright-core').Page} page
 * @param {{ x: number, y: number, width: number, height: number }} clip
 * @param {Promise<unknown>} done
 * @param {string} file
 */
export async function record(page, clip, done, file) {
  let isOver = false;
  const over = Promise.resolve(done).finally(() => (isOver = true));
  const frames = [];
  while (!isOver) {
    const at = performance.now();
    frames.push({ at, data: PNG.sync.read(await page.screenshot({ clip })).data });
    const next = INTERVAL_MS - (performance.now() - at);
    if (next > 0) await new Promise((resolve) => setTimeout(resolve, next));
  }
  await over;
  frames.push({ at: performance.now(), data: PNG.sync.read(await page.screenshot({ clip })).data });
  await writeFile(file, encode(frames, clip));
}

function encode(frames, { width, height }) {
  const encoder = GIFEncoder();
  const palette = quantize(frames.at(-1).data, SAME);
  while (palette.length <= SAME) palette.push([0, 0, 0]);
  let before = null;
  frames.forEach(({ at, data }, index) => {
    const colours = applyPalette(data, palette.slice(0, SAME));
    const shown = before ? colours.map((colour, pixel) => (colour === before[pixel] ? SAME : colour)) : colours;
    before = colours;
    const delay = index + 1 < frames.length ? frames[index + 1].at - at : END_MS;
    const transparency = index > 0 ? { transparent: true, transparentIndex: SAME, dispose: 1 } : { dispose: 1 };
    encoder.writeFrame(shown, width, height, { ...(index === 0 && { palette }), delay, ...transparency });
  });
  encoder.finish();
  return encoder.bytes();
}
