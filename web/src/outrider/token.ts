// The bearer token that a server may ask for.

import { describe, invalidOption, OutriderError } from './errors.js';
import type { ToWorker } from './messages.js';

/** A bearer token, or a function that gives a valid one for each connection. */
export type TokenSource = string | (() => string | Promise<string>);

/** Checks a token: the letters that RFC 6750 allows. @throws {@link OutriderError} `invalid-option` */
export function checkedToken(token: unknown): string {
  if (typeof token === 'string' && /^[\w.~+/-]+=*$/.test(token)) return token;
  throw invalidOption(
    'token must have letters, digits and - . _ ~ + / only, and = at the end; or it is a function that gives one',
  );
}

/** The token for a new connection. @throws {@link OutriderError} `unauthorized`, `invalid-option` */
export async function tokenOf(source: TokenSource): Promise<string> {
  if (typeof source !== 'function') return checkedToken(source);
  const token = await Promise.resolve()
    .then(source)
    .catch((cause: unknown) => {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new OutriderError('unauthorized', `the option token gave none: ${why}`, { cause });
    });
  return checkedToken(token);
}

/** The answer to a worker that needs a token for a connection. */
export async function tokenMessage(id: number, source: TokenSource | undefined): Promise<ToWorker> {
  try {
    return { type: 'token', id, token: await tokenOf(source ?? '') };
  } catch (error) {
    return { type: 'no-token', id, error: describe(error) };
  }
}
