/** Makes a `fetch` that adds headers; those of a single request have precedence. */
export function fetchWith(headers: Readonly<Record<string, string>>): typeof fetch {
  return (input, init) => fetch(input, { ...init, headers: { ...headers, ...init?.headers } });
}
