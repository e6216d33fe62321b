import { createServer, request as ask } from 'node:http';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { expect, test } from './fixtures.js';

test('a server that dies says so, and works again once it is back', async ({ demo, ownServer }) => {
  await demo.open(ownServer, { scheme: 'k-sqs', maxNewTokens: 256 });
  await demo.slide('round-trip', 300);
  await demo.start();
  await demo.waitForTokens(2);
  await ownServer.kill();
  await expect(demo.alert).toHaveText(/The server (went away|could not be reached).*\./, { timeout: 30_000 });
  await expect(demo.main).toHaveAttribute('data-state', 'failed');

  // Still gone: another sentence, and again no waiting for ever.
  await demo.page.getByRole('button', { name: 'Generate' }).click();
  await expect(demo.main).toHaveAttribute('data-state', 'failed', { timeout: 30_000 });
  await expect(demo.alert).toHaveText(/The server could not be reached/, { timeout: 30_000 });

  await ownServer.startAgain();
  await demo.slide('round-trip', 0);
  await demo.set('maxNewTokens', 16);
  await demo.run();
  expect((await demo.tokens()).length).toBeGreaterThan(0);
});

test('a server that restarted while nobody generated is not even noticed', async ({ demo, ownServer }) => {
  await demo.open(ownServer, { maxNewTokens: 8 });
  await demo.run();
  await ownServer.kill();
  await ownServer.startAgain();
  await demo.run();
  expect((await demo.tokens()).length).toBeGreaterThan(0);
});

test('a damaged draft model is called that, and can be tried again', async ({ demo, server }) => {
  const { page } = demo;
  await page.route('**/pair/draft', (route) => route.fulfill({ body: Buffer.alloc(100_000, 0x5a) }));
  await page.goto(server.url);
  await expect(demo.alert).toHaveText(/The draft model file is damaged\./, { timeout: 30_000 });
  await expect(demo.main).toHaveAttribute('data-state', 'failed');

  await page.unroute('**/pair/draft');
  await page.getByRole('button', { name: 'Try again' }).click();
  await demo.ready();
  await expect(demo.alert).toHaveText('');
});

test('a draft model that is not there is a sentence', async ({ demo, server }) => {
  await demo.page.route('**/pair/draft', (route) => route.fulfill({ status: 404 }));
  await demo.page.goto(server.url);
  await expect(demo.alert).toHaveText(/The draft model could not be downloaded \(.*pair\/draft/, { timeout: 30_000 });
});

test('an engine that cannot be loaded is a sentence', async ({ demo, server }) => {
  await demo.page.route('**/*.wasm', (route) => route.fulfill({ status: 404 }));
  await demo.page.goto(server.url);
  await expect(demo.alert).toHaveText(/could not start the draft engine/, { timeout: 30_000 });
});

test('a crashed worker is a sentence, and the next run starts another', async ({ demo, server }) => {
  await demo.open(server, { scheme: 'k-sqs', maxNewTokens: 256 });
  await demo.slide('round-trip', 300);
  await demo.start();
  await demo.waitForTokens(2);
  const [worker] = demo.page.workers();
  await worker?.evaluate(
    () =>
      void setTimeout(() => {
        throw new Error('out of luck');
      }),
  );
  await expect(demo.alert).toHaveText(/The draft engine crashed\./);
  await demo.set('maxNewTokens', 8);
  await demo.run();
  // The new worker has the link of the old one.
  expect(await demo.counter('roundTripMs')).toBeGreaterThanOrEqual(300);
});

test('behind a proxy that hides its name the server refuses the page, and the page says so at once', async ({
  demo,
  server,
}) => {
  const { hostname, port } = new URL(server.url);
  const hidden = (request: IncomingMessage) => ({
    ...{ host: hostname, port, path: request.url, method: request.method },
    headers: { ...request.headers, host: 'hidden.example' },
  });
  const proxy = createServer((request, response) => {
    const onward = ask(hidden(request), (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    request.pipe(onward);
  });
  proxy.on('upgrade', (request: IncomingMessage, socket: Duplex) => {
    const onward = ask(hidden(request), (answer) => {
      socket.end(`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}\r\nConnection: close\r\n\r\n`);
    });
    onward.end();
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  try {
    await demo.page.goto(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}/`);
    await expect(demo.alert).toHaveText(/does not let pages of this address in\..*--allow-origin/, { timeout: 30_000 });
    await expect(demo.main).toHaveAttribute('data-state', 'failed');
  } finally {
    proxy.close();
    proxy.closeAllConnections();
  }
});
