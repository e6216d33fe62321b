import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const web = path.resolve(import.meta.dirname, '..');

test('the lint of the check finds a cycle of modules, also one of types alone', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'outrider-cycle-'));
  await writeFile(
    path.join(folder, 'one.ts'),
    "import type { Other } from './other.js';\nexport type One = Other[];\n",
  );
  await writeFile(
    path.join(folder, 'other.ts'),
    "import type { One } from './one.js';\nexport type Other = One | 1;\n",
  );
  const oxlint = promisify(execFile)('npx', ['oxlint', '--config', '.oxlintrc.json', folder], { cwd: web });
  await expect(oxlint).rejects.toMatchObject({ code: 1, stdout: expect.stringContaining('import(no-cycle)') });
  await rm(folder, { recursive: true });
});
