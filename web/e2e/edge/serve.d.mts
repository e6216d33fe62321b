import type { Server } from 'node:http';

export const isolation: Record<string, string>;
export function serve(roots: [prefix: string, path: string][], headers?: Record<string, string>): Promise<Server>;
