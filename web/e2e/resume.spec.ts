import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { expect, test } from './fixtures.js';
import { startSlowServer } from './grown.js';
import type { Server } from './server.js';

/** Passes on what comes for a server, until it cuts. */
class Proxy {
  readonly url: string;
  readonly #open: Set<Socket>;
  readonly close: () => void;

  private constructor(url: string, open: Set<Socket>, close: () => void) {
    this.url = url;
    this.#open = open;
    this.close = close;
  }

  static async before(url: string): Promise<Proxy> {
    const open = new Set<Socket>();
    const { hostname, port } = new URL(url);
    const server = createServer((near) => {
      const far = connect(Number(port), hostname);
      const both = [near, far];
      for (const socket of both) {
        open.add(socket);
        socket.on('error', () => {});
        socket.on('close', () => {
          open.delete(socket);
          both.forEach((other) => other.destroy());
        });
      }
      near.pipe(far).pipe(near);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port: own } = server.address() as AddressInfo;
    return new Proxy(`http://127.0.0.1:${own}`, open, () => {
      for (const socket of open) socket.destroy();
      server.close();
    });
  }

  /** Ends all connections as a lost network would, without a goodbye. */
  cut(): void {
    for (const socket of this.#open) socket.resetAndDestroy();
  }
}

/** At a seed the server's noise belongs to the positions of the text, whichever client asks for them. */
const query = { prompt: 'Once upon a time', temperature: 0.8, seed: 5, maxNewTokens: 192, scheme: 'ahead' };

/** A server that is not done before the cut. */
let slow: Server;

test.beforeAll(async ({}, info) => {
  slow = await startSlowServer(info.outputPath('grown.gguf'), 32);
});

test.afterAll(async () => {
  await slow?.kill();
});

test('a cut connection and a reload change nothing of the text', async ({ demo }) => {
  await demo.open(slow, query);
  await demo.run();
  const whole = (await demo.tokens()).map(({ id }) => id);
  expect(whole.length).toBeGreaterThan(20);

  const proxy = await Proxy.before(slow.url);
  try {
    await demo.page.goto(
      `${proxy.url}/?${new URLSearchParams(Object.entries(query).map(([k, v]) => [k, String(v)]))}`,
    );
    await expect(demo.main).toHaveAttribute('data-state', 'ready', { timeout: 60_000 });
    await demo.slide('round-trip', 200);
    await demo.start();
    await demo.waitForTokens(4);
    proxy.cut();
    await expect(demo.main).toHaveAttribute('data-connection', 'resumed', { timeout: 20_000 });
    await demo.slide('round-trip', 0);
    await demo.finish();
    expect((await demo.tokens()).map(({ id }) => id)).toEqual(whole);

    await demo.slide('round-trip', 200);
    await demo.start();
    await demo.waitForTokens(4);
    await demo.page.reload();
    await demo.finish();
    expect((await demo.tokens()).map(({ id }) => id)).toEqual(whole);
    // The counters are those of the whole text, not of what came after the reload.
    expect(await demo.counter('tokens')).toBe(whole.length);
  } finally {
    proxy.close();
  }
});
