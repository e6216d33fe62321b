import { expect, test } from 'vitest';
import { downloadInto } from './download.js';
import { KeptFile } from './store.js';
import type { Handle } from './store.js';

const file = new TextEncoder().encode('the whole file');

/** A file in memory, of at most `most` bytes. */
function disk(most = 10_000): Handle & { bytes: Uint8Array } {
  return {
    bytes: new Uint8Array(0),
    read(into, { at }) {
      const part = this.bytes.subarray(at, at + into.length);
      into.set(part);
      return part.length;
    },
    write(bytes, { at }) {
      const fits = bytes.subarray(0, Math.max(0, most - at));
      const grown = new Uint8Array(Math.max(this.bytes.length, at + fits.length));
      grown.set(this.bytes);
      grown.set(fits, at);
      this.bytes = grown;
      return fits.length;
    },
    truncate(size) {
      this.bytes = this.bytes.slice(0, size);
    },
    getSize() {
      return this.bytes.length;
    },
    flush() {},
    close() {},
  };
}

/** Answers as servers of files do; the first answer ends after `breakAfter` bytes. */
function server(etag: string | null, breakAfter?: number) {
  const asked: Record<string, string>[] = [];
  const request = (_: unknown, init?: RequestInit): Promise<Response> => {
    const headers = new Headers(init?.headers);
    asked.push(Object.fromEntries(headers));
    if (etag !== null && headers.get('if-none-match') === etag) {
      return Promise.resolve(new Response(null, { status: 304 }));
    }
    const ranged = headers.get('if-range') === etag ? /bytes=(\d+)-/.exec(headers.get('range') ?? '') : null;
    const start = Number(ranged?.[1] ?? 0);
    const end = asked.length === 1 && breakAfter !== undefined ? start + breakAfter : undefined;
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(file.slice(start, end));
        if (end === undefined) controller.close();
        else controller.error(new Error('cut'));
      },
    });
    return Promise.resolve(
      new Response(body, {
        status: ranged ? 206 : 200,
        headers: { 'content-length': String(file.length - start), ...(etag !== null && { etag }) },
      }),
    );
  };
  return { asked, request: request as typeof fetch };
}

async function load(handle: Handle, request: typeof fetch): Promise<string> {
  let text = '';
  const sink = {
    begin: () => void (text = ''),
    push: (chunk: Uint8Array) => void (text += new TextDecoder().decode(chunk)),
  };
  await downloadInto('/f', sink, undefined, request, new KeptFile(handle, 'https://h/draft'));
  return text;
}

test('a file that is kept is not fetched again', async () => {
  const handle = disk();
  expect(await load(handle, server('"1"').request)).toBe('the whole file');
  const { asked, request } = server('"1"');
  expect(await load(handle, request)).toBe('the whole file');
  expect(asked).toEqual([{ 'if-none-match': '"1"' }]);
});

test('a weak ETag names a whole file, and no part of one', async () => {
  const handle = disk();
  await load(handle, server('W/"1"').request);
  const second = server('W/"1"');
  expect(await load(handle, second.request)).toBe('the whole file');
  expect(second.asked).toEqual([{ 'if-none-match': 'W/"1"' }]);
  const cut = server('W/"2"', 5);
  expect(await load(handle, cut.request)).toBe('the whole file');
  expect(cut.asked).toEqual([{ 'if-none-match': 'W/"1"' }, {}]);
});

test('a file without an ETag that the page may read is not kept, and the page is told once', async () => {
  const codes: string[] = [];
  const kept = new KeptFile(disk(), 'https://h/draft', ({ code }) => codes.push(code));
  const sink = { begin: () => {}, push: () => {} };
  await downloadInto('/f', sink, undefined, server(null).request, kept);
  expect(codes).toEqual(['not-cacheable']);
});

test('a file whose length nobody told is there all the same, and fetched again where that cannot be asked', async () => {
  const handle = disk();
  const kept = new KeptFile(handle, 'https://h/draft');
  kept.begin('"1"', null);
  kept.append(file);
  const { asked, request } = server('"1"');
  const unsatisfiable = ((url, init) =>
    new Headers(init?.headers).has('range')
      ? Promise.resolve(new Response(null, { status: 416 }))
      : request(url, init)) as typeof fetch;
  expect(await load(handle, unsatisfiable)).toBe('the whole file');
  expect(asked).toEqual([{}]);
  expect(new KeptFile(handle, 'https://h/draft')).toMatchObject({ length: file.length, total: file.length });
});

test('another version takes the place of the one that is kept', async () => {
  const handle = disk();
  await load(handle, server('"1"').request);
  expect(await load(handle, server('"2"').request)).toBe('the whole file');
  expect(new KeptFile(handle, 'https://h/draft')).toMatchObject({
    etag: '"2"',
    length: file.length,
    total: file.length,
  });
});

test('a page that was closed in between goes on where it was', async () => {
  const handle = disk();
  const kept = new KeptFile(handle, 'https://h/draft');
  kept.begin('"1"', file.length);
  kept.append(file.subarray(0, 5));
  const { asked, request } = server('"1"');
  expect(await load(handle, request)).toBe('the whole file');
  expect(asked).toEqual([{ range: 'bytes=5-', 'if-range': '"1"' }]);
  expect(new KeptFile(handle, 'https://h/draft')).toMatchObject({ length: file.length });
});

test('what was damaged on the disk is fetched anew', async () => {
  const handle = disk();
  const load = async (etag: string) => {
    let text = '';
    const sink = {
      begin: () => void (text = ''),
      push: (chunk: Uint8Array) => void (text += new TextDecoder().decode(chunk)),
    };
    const kept = new KeptFile(handle, 'https://h/draft');
    const { asked, request } = server(etag);
    await downloadInto('/f', sink, undefined, request, kept);
    await kept.seal();
    return { text, asked };
  };
  await load('"1"');
  expect((await load('"1"')).asked).toEqual([{ 'if-none-match': '"1"' }]);
  handle.bytes[512 + 4] = (handle.bytes[512 + 4] ?? 0) ^ 1;
  const mended = await load('"1"');
  expect(mended).toEqual({ text: 'the whole file', asked: [{ 'if-none-match': '"1"' }, {}] });
  expect((await load('"1"')).asked).toEqual([{ 'if-none-match': '"1"' }]);
});

test('a long address, as signed ones are, is no hindrance', async () => {
  const handle = disk();
  const kept = () => new KeptFile(handle, `https://h/draft?signature=${'a'.repeat(2000)}`);
  const { asked, request } = server('"1"');
  const sink = { begin: () => {}, push: () => {} };
  for (let visit = 0; visit < 2; visit++) await downloadInto('/f', sink, undefined, request, kept());
  expect(asked.at(-1)).toMatchObject({ 'if-none-match': '"1"' });
});

test('a disk that refuses at the end is told of, and the file is closed', () => {
  const handle = disk();
  let closed = false;
  handle.flush = () => {
    throw new DOMException('no space', 'QuotaExceededError');
  };
  handle.close = () => void (closed = true);
  const told: string[] = [];
  new KeptFile(handle, 'https://h/draft', ({ code }) => void told.push(code)).close();
  expect([told, closed]).toEqual([['cache-full'], true]);
});

test('a full disk is told of once, and the download goes on', async () => {
  const codes: string[] = [];
  const kept = new KeptFile(disk(515), 'https://h/draft', ({ code }) => codes.push(code));
  let length = 0;
  const sink = { begin: () => {}, push: (chunk: Uint8Array) => void (length += chunk.length) };
  await downloadInto('/f', sink, undefined, server('"1"').request, kept);
  expect([length, ...codes]).toEqual([file.length, 'cache-full']);
});

test('what has no version, a full disk and a damaged file are no hindrance', async () => {
  const nameless = disk();
  expect(await load(nameless, server(null).request)).toBe('the whole file');
  expect(new KeptFile(nameless, 'https://h/draft')).toMatchObject({ etag: null, length: 0 });
  const full = disk(515);
  expect(await load(full, server('"1"').request)).toBe('the whole file');
  const damaged = disk();
  damaged.bytes = new Uint8Array(700).fill(0x7b);
  expect(await load(damaged, server('"1"').request)).toBe('the whole file');
  const cut = disk();
  await load(cut, server('"1"').request);
  expect(await load(cut, server('"1"', 3).request)).toBe('the whole file');
});
