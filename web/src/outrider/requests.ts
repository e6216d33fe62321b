/** `fetch` that sends these headers along; those of a single request come before them. */
export function fetchWith(headers: Readonly<Record<string, string>>): typeof fetch {
  return (input, init) => fetch(input, { ...init, headers: { ...headers, ...init?.headers } });
}
