// The generated module is not in the repository; without it this stands in, so that the types can be checked.
declare module '*/wasm/outrider_edge.js' {
  export default function init(): Promise<unknown>;
  export const Edge: unknown;
  export const EdgeLoader: unknown;
}
