import type { NextConfig } from 'next';

// An isolated page may draft on several threads.
const headers = [
  { key: 'Cross-Origin-Opener-Policy', value: 'same-origin' },
  { key: 'Cross-Origin-Embedder-Policy', value: 'require-corp' },
];

const config: NextConfig = { headers: async () => [{ source: '/:path*', headers }] };

export default config;
