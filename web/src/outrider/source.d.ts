// What vite.config.ts makes of a worker's file: all that it needs as the text of one module.
declare module '*?source' {
  const source: string;
  export default source;
}
