// A target that writes what the default one does and takes longer for it: in front of the tiny one no guess is in time.

import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Server } from './server.js';

const source = path.resolve(import.meta.dirname, '../../pair/target/target-f16.gguf');

/** Bytes of GGUF's numbers, by the number of their type; strings and arrays have lengths of their own. */
const numberBytes: Readonly<Record<number, number>> = {
  ...{ 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1 },
  ...{ 10: 8, 11: 8, 12: 8 },
};
const STRING = 8;
const ARRAY = 9;
const ALIGNMENT = 32;

interface Tensor {
  name: string;
  dims: bigint[];
  type: number;
  offset: bigint;
}

/** Reads a GGUF file from its beginning. */
class Reader {
  readonly bytes: Buffer;
  at = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  u32(): number {
    return this.bytes.readUInt32LE((this.at += 4) - 4);
  }

  u64(): bigint {
    return this.bytes.readBigUInt64LE((this.at += 8) - 8);
  }

  string(): string {
    const length = Number(this.u64());
    return this.bytes.toString('utf8', this.at, (this.at += length));
  }

  skip(type: number): void {
    if (type === STRING) this.string();
    else if (type === ARRAY) {
      const [element, length] = [this.u32(), Number(this.u64())];
      for (let i = 0; i < length; i++) this.skip(element);
    } else this.at += numberBytes[type] ?? Number.NaN;
  }
}

/**
 * A server whose forward passes take several times as long as usual, of a model with `blocks` blocks instead of six.
 * `file` is written for it, and gone again.
 */
export async function startSlowServer(file: string, blocks: number): Promise<Server> {
  await writeGrownTarget(file, blocks);
  try {
    return await Server.start(['--target', file]);
  } finally {
    // It has been read; as much as a hundred megabytes need not stay.
    await rm(file);
  }
}

/**
 * Writes the default target with `blocks` blocks to `file`. Those that it has not got add nothing: their last matrices are
 * zero, the others are the first block's.
 */
export async function writeGrownTarget(file: string, blocks: number): Promise<void> {
  const bytes = Buffer.from(await readFile(source));
  const reader = new Reader(bytes);
  reader.at = 8;
  const [tensorCount, valueCount] = [Number(reader.u64()), Number(reader.u64())];
  let had = 0;
  for (let i = 0; i < valueCount; i++) {
    const key = reader.string();
    const type = reader.u32();
    if (key.endsWith('.block_count')) {
      had = bytes.readUInt32LE(reader.at);
      bytes.writeUInt32LE(blocks, reader.at);
    }
    reader.skip(type);
  }
  const values = bytes.subarray(24, reader.at);
  const tensors = Array.from({ length: tensorCount }, (): Tensor => {
    const name = reader.string();
    const dims = Array.from({ length: reader.u32() }, () => reader.u64());
    return { name, dims, type: reader.u32(), offset: reader.u64() };
  });
  const data = bytes.subarray(aligned(reader.at));

  const first = tensors.filter(({ name }) => name.startsWith('blk.0.'));
  const added: Buffer[] = [padded(data)];
  let end = BigInt(aligned(data.length));
  for (let block = had; block < blocks; block++) {
    for (const tensor of first) {
      const begin = Number(tensor.offset);
      const own = padded(data.subarray(begin, begin + bytesOf(tensor)));
      const isLast = /(attn_output|ffn_down)\.weight$/.test(tensor.name);
      tensors.push({ ...tensor, name: tensor.name.replace('blk.0.', `blk.${block}.`), offset: end });
      added.push(isLast ? Buffer.alloc(own.length) : own);
      end += BigInt(own.length);
    }
  }

  const counts = Buffer.alloc(16);
  counts.writeBigUInt64LE(BigInt(tensors.length));
  counts.writeBigUInt64LE(BigInt(valueCount), 8);
  const head = Buffer.concat([bytes.subarray(0, 8), counts, values, ...tensors.map(written)]);
  await writeFile(file, Buffer.concat([padded(head), ...added]));
}

/** The bytes of a tensor of 32-bit or 16-bit numbers, the only types of the default target. */
function bytesOf({ dims, type }: Tensor): number {
  return Number(dims.reduce((product, dim) => product * dim, 1n)) * (type === 0 ? 4 : 2);
}

function written({ name, dims, type, offset }: Tensor): Buffer {
  const text = Buffer.from(name);
  const made = Buffer.alloc(8 + text.length + 4 + 8 * dims.length + 12);
  made.writeBigUInt64LE(BigInt(text.length));
  text.copy(made, 8);
  let at = made.writeUInt32LE(dims.length, 8 + text.length);
  for (const dim of dims) at = made.writeBigUInt64LE(dim, at);
  made.writeBigUInt64LE(offset, made.writeUInt32LE(type, at));
  return made;
}

function aligned(length: number): number {
  return Math.ceil(length / ALIGNMENT) * ALIGNMENT;
}

function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(aligned(bytes.length) - bytes.length)]);
}
