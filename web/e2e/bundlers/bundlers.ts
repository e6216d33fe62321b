// The bundlers that the package has to work with as it is, each in a fresh project.

/** A bundler, and how it is run. Commands have the project's programs on their path. */
export interface Bundler {
  name: string;
  /** The folder here with its project; `main.js` and `app.js` are added. */
  project: string;
  /** Packages that are installed beside ours. */
  packages: string[];
  build: string;
  /** The folder into which `build` writes the page. */
  output: string;
  /** The development server. */
  develop: (port: number) => string;
  /** Among those that are always tried. */
  isQuick?: true;
}

const vite = (major: number): Bundler => ({
  name: `Vite ${major}`,
  project: 'vite',
  packages: [`vite@${major}`],
  build: 'vite build',
  output: 'dist',
  develop: (port) => `vite --host 127.0.0.1 --port ${port} --strictPort`,
});

const next = (name: string, flag: string): Bundler => ({
  name: `Next.js with ${name}`,
  project: 'next',
  packages: ['next@16', 'react@19', 'react-dom@19'],
  build: `next build ${flag}`,
  output: 'out',
  develop: (port) => `next dev ${flag} --hostname 127.0.0.1 --port ${port}`,
});

// It follows no addresses in code: the engine's files are entries of their own.
const esbuild =
  "esbuild index.html main.js 'node_modules/outrider/npm/*.wasm' --loader:.html=copy --loader:.wasm=copy " +
  '--entry-names=[name] --bundle --format=esm --outdir=dist';

export const bundlers: readonly Bundler[] = [
  vite(5),
  vite(6),
  vite(7),
  { ...vite(8), isQuick: true },
  {
    name: 'webpack 5',
    project: 'webpack',
    packages: ['webpack@5', 'webpack-cli', 'webpack-dev-server'],
    build: 'webpack --mode production && cp index.html dist',
    output: 'dist',
    develop: (port) => `webpack serve --mode development --host 127.0.0.1 --port ${port}`,
  },
  next('Turbopack', ''),
  next('webpack', '--webpack'),
  {
    name: 'Parcel',
    project: 'parcel',
    packages: ['parcel@2'],
    build: 'parcel build index.html --dist-dir dist',
    output: 'dist',
    develop: (port) => `parcel serve index.html --host 127.0.0.1 --port ${port} --no-hmr`,
  },
  {
    name: 'esbuild',
    project: 'esbuild',
    packages: ['esbuild'],
    build: esbuild,
    output: 'dist',
    develop: (port) => `${esbuild} --serve=127.0.0.1:${port} --servedir=dist`,
    isQuick: true,
  },
];
