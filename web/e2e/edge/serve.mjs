// Files over HTTP, isolated by COOP and COEP, unless they are to be had otherwise, so that workers may share memory.

import { createReadStream, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';

const types = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.wasm': 'application/wasm',
};

export const isolation = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
};

/**
 * Serves what lies under the first of `roots`, pairs of a path and a folder or file, that a path begins with. Gives the
 * server, which listens on a free port of 127.0.0.1.
 */
export async function serve(roots, headers = isolation) {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://localhost').pathname));
    const root = roots.find(([prefix]) => path.startsWith(prefix));
    const rest = root && path.slice(root[0].length);
    // A file may be a root itself.
    const file = root && (rest === '' && root[0] !== '/' ? root[1] : join(root[1], rest || 'index.html'));
    const found = file && statSync(file, { throwIfNoEntry: false });
    if (!found?.isFile()) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, {
      'content-type': types[extname(file)] ?? 'application/octet-stream',
      'content-length': found.size,
      'cache-control': 'no-store',
      ...headers,
    });
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}
