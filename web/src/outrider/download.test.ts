import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { download, downloadInto, downloadOptional, STALL_MS } from './download.js';
import type { Sink } from './download.js';

const file = new TextEncoder().encode('the whole file');

// Pauses take no time; the limits of stalled transfers are never reached.
beforeAll(() => void vi.stubGlobal('setTimeout', (then: () => void, ms = 0) => ms < STALL_MS && queueMicrotask(then)));
afterAll(() => void vi.unstubAllGlobals());

/** Answers with the file from where it is asked for; breaks after `breaks[n]` bytes at the n-th request. */
function server(options: {
  breaks?: number[];
  headers?: Record<string, string>;
  ranges?: boolean;
  part?: Record<string, string>;
}) {
  const asked: (string | null)[] = [];
  const request = (_: unknown, init?: RequestInit): Promise<Response> => {
    const range = new Headers(init?.headers).get('range');
    const start = range && options.ranges !== false ? Number(/bytes=(\d+)-/.exec(range)?.[1]) : 0;
    const breakAfter = options.breaks?.[asked.length];
    asked.push(range);
    const body = new ReadableStream<Uint8Array>({
      start: (controller) =>
        controller.enqueue(file.slice(start, breakAfter === undefined ? undefined : start + breakAfter)),
      pull(controller) {
        // Closed short of its length: what a cut connection looks like at its most polite. Of what is compressed the length
        // of the file is not known; there the browser says that the connection was cut.
        const isCut = breakAfter !== undefined && options.headers?.['content-encoding'] !== undefined;
        if (isCut) controller.error(new TypeError('network error'));
        else controller.close();
      },
    });
    const headers = { 'content-length': String(file.length - start), etag: '"1"', ...options.headers };
    if (start > 0) Object.assign(headers, { etag: '"1"', 'content-range': `bytes ${start}-13/14` }, options.part);
    return Promise.resolve(new Response(body, { status: start > 0 ? 206 : 200, headers }));
  };
  return { asked, request: request as typeof fetch };
}

test('a file arrives whole, with its progress', async () => {
  const progress: [number, number | null][] = [];
  const bytes = await download('/f', (...at) => progress.push(at), server({}).request);
  expect(bytes).toEqual(file);
  expect(progress).toEqual([
    [0, 14],
    [14, 14],
  ]);
});

test('a broken transfer goes on where it broke', async () => {
  const { asked, request } = server({ breaks: [5, 3] });
  expect(await download('/f', undefined, request)).toEqual(file);
  expect(asked).toEqual([null, 'bytes=5-', 'bytes=8-']);
});

test('without a strong validator it starts over', async () => {
  const { asked, request } = server({ breaks: [5], headers: { etag: 'W/"1"' } });
  expect(await download('/f', undefined, request)).toEqual(file);
  expect(asked).toEqual([null, null]);
});

test('a server without ranges sends everything again, and nothing is doubled', async () => {
  const { request } = server({ breaks: [5], ranges: false });
  expect(await download('/f', undefined, request)).toEqual(file);
});

test('a part of another version, or from elsewhere, is not put behind what has come', async () => {
  for (const part of [{ etag: '"2"' }, { 'content-range': 'bytes 0-13/14' }]) {
    const { asked, request } = server({ breaks: [5], part });
    expect(await download('/f', undefined, request)).toEqual(file);
    expect(asked).toEqual([null, 'bytes=5-', null]);
  }
});

test('a length that is that of a compressed answer, which other sites may not see, is no hindrance', async () => {
  const { asked, request } = server({ headers: { 'content-length': '3' } });
  expect(await download('/f', undefined, request)).toEqual(file);
  expect(asked).toHaveLength(1);
});

test('a compressed answer has no known length', async () => {
  const totals: (number | null)[] = [];
  const { request } = server({ headers: { 'content-encoding': 'gzip', 'content-length': '3' } });
  expect(await download('/f', (_, total) => totals.push(total), request)).toEqual(file);
  expect(totals).toEqual([null, null]);
});

test('what was compressed is fetched again, compressed, and not its rest, which would be longer', async () => {
  const { asked, request } = server({ breaks: [5], headers: { 'content-encoding': 'br' } });
  expect(await download('/f', undefined, request)).toEqual(file);
  expect(asked).toEqual([null, null]);
});

test('a file that is not there fails at once, one that never completes after four attempts', async () => {
  const missing = () => Promise.resolve(new Response(null, { status: 404, statusText: 'Not Found' }));
  await expect(download('/f', undefined, missing)).rejects.toMatchObject({
    code: 'download-failed',
    message: '/f answered 404 Not Found',
  });
  const { asked, request } = server({ breaks: [1, 1, 1, 1, 1] });
  await expect(download('/f', undefined, request)).rejects.toMatchObject({ code: 'download-failed' });
  expect(asked).toHaveLength(4);
});

test('a file that may be missing is null where it is, and an error for any other reason', async () => {
  const answers = (status: number) => (() => Promise.resolve(new Response(null, { status }))) as typeof fetch;
  expect(await downloadOptional('u', answers(404))).toBeNull();
  for (const status of [403, 410, 500]) {
    await expect(downloadOptional('u', answers(status)), `${status}`).rejects.toMatchObject({
      code: 'download-failed',
    });
  }
  const broken = () => Promise.reject(new TypeError('no network'));
  await expect(downloadOptional('u', broken)).rejects.toMatchObject({ code: 'download-failed' });
  expect(await downloadOptional('u', server({}).request)).toEqual(file);
});

test('a server that is busy is asked again, and named with its answer if it stays so', async () => {
  for (const status of [429, 502, 503, 504]) {
    const { request } = server({});
    let asked = 0;
    const busy = (times: number) =>
      ((...args) =>
        asked++ < times ? Promise.resolve(new Response(null, { status })) : request(...args)) as typeof fetch;
    expect(await download('/f', undefined, busy(2)), `${status}`).toEqual(file);
    asked = 0;
    await expect(download('/f', undefined, busy(9))).rejects.toMatchObject({ code: 'download-failed', cause: status });
  }
});

/** A sink that records its calls, and refuses the chunk that begins with `refused`. */
function recorder(refused?: string) {
  const told: (string | number | null)[] = [];
  const sink: Sink = {
    begin: (totalBytes) => void told.push(totalBytes),
    push: (chunk) => {
      const text = new TextDecoder().decode(chunk);
      if (refused !== undefined && text.startsWith(refused)) throw new RangeError('no');
      told.push(text);
    },
  };
  return { told, sink };
}

test('a sink gets the chunks as they come, and goes on where the transfer broke', async () => {
  const { told, sink } = recorder();
  await downloadInto('/f', sink, undefined, server({ breaks: [5, 3] }).request);
  expect(told).toEqual([14, 'the w', 'hol', 'e file']);
});

test('a sink is told when the file begins anew', async () => {
  const { told, sink } = recorder();
  await downloadInto('/f', sink, undefined, server({ breaks: [5], ranges: false }).request);
  expect(told).toEqual([14, 'the w', 14, 'the whole file']);
});

test('what a sink throws ends the download and is not tried again', async () => {
  const { sink } = recorder('the');
  const { asked, request } = server({});
  await expect(downloadInto('/f', sink, undefined, request)).rejects.toBeInstanceOf(RangeError);
  expect(asked).toHaveLength(1);
  const cancelled = vi.fn();
  const endless = new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(file), cancel: cancelled });
  const answer = () => Promise.resolve(new Response(endless));
  await expect(downloadInto('/f', sink, undefined, answer)).rejects.toBeInstanceOf(RangeError);
  expect(cancelled).toHaveBeenCalledOnce();
});

test('a server that lets no pages of this origin in is called that, and not asked again and again', async () => {
  vi.stubGlobal('origin', 'https://page.example');
  const asked: (string | undefined)[] = [];
  const refusing = (answersOthers: boolean): typeof fetch =>
    ((_: unknown, init?: RequestInit) => {
      asked.push(init?.mode);
      // As browsers do: a refusal and a lost network are told with the same word.
      const answers = init?.mode === 'no-cors' && answersOthers;
      return answers ? Promise.resolve(Response.error()) : Promise.reject(new TypeError('Failed to fetch'));
    }) as typeof fetch;
  try {
    await expect(download('https://verify.example/pair/draft', undefined, refusing(true))).rejects.toMatchObject({
      code: 'origin-refused',
      message: 'https://verify.example does not let pages of https://page.example in (--allow-origin)',
    });
    expect(asked).toEqual([undefined, 'no-cors', undefined]);
    // Without an answer it is the network; and a page's own server does not refuse it.
    for (const url of ['https://verify.example/f', 'https://page.example/f']) {
      const answers = url.startsWith('https://page');
      await expect(download(url, undefined, refusing(answers))).rejects.toMatchObject({ code: 'download-failed' });
    }
  } finally {
    vi.stubGlobal('origin', undefined);
  }
});
