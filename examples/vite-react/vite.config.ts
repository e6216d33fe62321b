import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// An isolated page may draft on several threads. Send these headers in production, too.
const headers = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };

export default defineConfig({ plugins: [react()], server: { headers }, preview: { headers } });
