// A proxy in front of a server: as slow as a link, able to cut an answer, and counting what each address takes.

import { connect, createServer } from 'node:net';

/** Longest delay of a timer, in milliseconds, for which a link that was busy counts as busy until now. */
const LATE_MS = 5;

/** One direction of a link, which all connections share in turn. */
class Wire {
  #bitsPerSecond;
  #freeAt = 0;

  constructor(bitsPerSecond) {
    this.#bitsPerSecond = bitsPerSecond;
  }

  /** Resolves when so many bytes have left. */
  async send(bytes) {
    if (this.#bitsPerSecond === Infinity) return;
    const now = performance.now();
    const isBusy = this.#freeAt > now - LATE_MS;
    this.#freeAt = (isBusy ? this.#freeAt : now) + (bytes * 8e3) / this.#bitsPerSecond;
    await sleep(this.#freeAt - now);
  }
}

function sleep(ms) {
  return ms > 0 ? new Promise((resolve) => setTimeout(resolve, ms)) : Promise.resolve();
}

export class Proxy {
  /** Where it listens, without a slash at the end. */
  url;
  /** Bytes from the server that have come through, heads included, by path. */
  received = new Map();
  /** What has been asked for. */
  requests = [];
  /** The bytes that each path has still before it is cut, and the time without connections after that. */
  #cuts = new Map();
  #open = new Set();
  #downUntil = 0;
  #server;

  /** Both directions of the link have this rate; a new connection takes a round trip before its first bytes go. */
  static async before(url, { bitsPerSecond = Infinity, roundTripMs = 0 } = {}) {
    const proxy = new Proxy();
    const { hostname, port } = new URL(url);
    const up = new Wire(bitsPerSecond);
    const down = new Wire(bitsPerSecond);
    proxy.#server = createServer((near) => {
      if (proxy.isDown) return near.resetAndDestroy();
      const far = connect(Number(port), hostname);
      for (const socket of [near, far]) {
        socket.setNoDelay(true);
        proxy.#open.add(socket);
        socket.on('error', () => {});
      }
      // The other end has its last bytes first.
      proxy.#pass(near, far, up, roundTripMs, sleep(roundTripMs));
      proxy.#pass(far, near, down, roundTripMs, Promise.resolve(), near);
    });
    await new Promise((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    proxy.url = `http://127.0.0.1:${proxy.#server.address().port}`;
    return proxy;
  }

  /** Cuts the next answer for `path` once so many bytes of it have come, and for `downMs` each new connection. */
  cutAfter(path, bytes, downMs = 0) {
    this.#cuts.set(path, { left: bytes, downMs });
  }

  /** True while new connections are cut. */
  get isDown() {
    return performance.now() < this.#downUntil;
  }

  /** Takes new connections again. */
  restore() {
    this.#downUntil = 0;
  }

  /** The sum of what has been received for paths that fit. */
  bytes(fits) {
    return [...this.received].reduce((sum, [path, bytes]) => sum + (fits(path) ? bytes : 0), 0);
  }

  /** Ends all connections as a lost network would, without a goodbye. */
  cut() {
    for (const socket of this.#open) socket.resetAndDestroy();
  }

  /** Swallows all further bytes of the connections of now, and closes none of them. */
  swallow() {
    for (const socket of this.#open) socket.removeAllListeners('data').resume();
  }

  /** {@link close}, for `using`. */
  [Symbol.dispose]() {
    this.close();
  }

  close() {
    for (const socket of this.#open) socket.destroy();
    this.#server.close();
  }

  /** @param client is given for the server's direction: the socket whose last request is answered */
  #pass(from, to, wire, roundTripMs, ready, client) {
    /** Delivers in order, each piece half a round trip after it has left. */
    let delivered = ready;
    from.on('data', (bytes) => {
      if (!client) this.#note(bytes.toString('latin1', 0, 4096), from);
      // A piece at a time, so that connections take turns.
      from.pause();
      const left = ready.then(() => wire.send(bytes.length));
      const arrived = left.then(() => sleep(roundTripMs / 2));
      delivered = Promise.all([delivered, arrived]).then(() => this.#deliver(bytes, to, client));
      void left.then(() => from.resume());
    });
    const end = () => {
      this.#open.delete(from);
      void delivered.then(() => to.destroy());
    };
    from.on('close', end);
  }

  /** What a client sends may be the head of a request; its connection is then about that path. */
  #note(text, client) {
    const path = /^[A-Z]+ ([^\s?]+)\S* HTTP/.exec(text)?.[1];
    if (path === undefined) return;
    client.path = path;
    this.requests.push({ path, range: /^range: (.*)$/im.exec(text)?.[1].trim() ?? null });
  }

  #deliver(bytes, to, client) {
    if (to.destroyed) return;
    if (!client) return void to.write(bytes);
    const path = client.path ?? '';
    const { left, downMs } = this.#cuts.get(path) ?? { left: Infinity, downMs: 0 };
    const part = bytes.subarray(0, left);
    this.received.set(path, (this.received.get(path) ?? 0) + part.length);
    if (left === Infinity) return void to.write(bytes);
    this.#cuts.set(path, { left: left - part.length, downMs });
    if (left > bytes.length) return void to.write(part);
    // No reset: that would take what has arrived and is not yet read.
    this.#cuts.delete(path);
    this.#downUntil = Math.max(this.#downUntil, performance.now() + downMs);
    to.write(part, () => to.destroy());
  }
}
