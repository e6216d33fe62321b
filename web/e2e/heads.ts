// Trained heads for the served draft model, made up: a safetensors file that belongs to it.

import { createHash } from 'node:crypto';
import type { Server } from './server.js';

/** A gate that gives every token the score σ(`bias`); with `vocabSize`, that of another draft. */
export async function gateFile(
  server: Server,
  bias: number,
  other: { vocabSize?: number } = {},
): Promise<Buffer> {
  const [draft, tokenizer] = await Promise.all([
    fetch(`${server.url}/pair/draft`).then((answer) => answer.arrayBuffer()),
    fetch(`${server.url}/pair/tokenizer.json`).then((answer) => answer.json() as Promise<Tokenizer>),
  ]);
  const width = hiddenSize(Buffer.from(draft));
  const vocabulary = vocabularyOf(tokenizer);
  const weights = Buffer.alloc(4 * (width + 1));
  weights.writeFloatLE(bias, 4 * width);
  const tensor = (numbers: number, begin: number) => ({
    dtype: 'F32',
    shape: [numbers],
    data_offsets: [begin, begin + 4 * numbers],
  });
  const header = JSON.stringify({
    __metadata__: {
      hidden_size: String(width),
      vocab_size: String(other.vocabSize ?? vocabulary.length),
      tokenizer: fingerprint(vocabulary),
      ...{ temperature: '1', top_k: '0', top_p: '1', lambda: '1', tau: '0.5' },
      ...{ auc: '1', eta_tp: '1', eta_fp: '0' },
    },
    'gate.weight': tensor(width, 0),
    'gate.bias': tensor(1, 4 * width),
  });
  const padded = Buffer.from(header.padEnd(Math.ceil(header.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  return Buffer.concat([length, padded, weights]);
}

interface Tokenizer {
  model: { vocab: Record<string, number> };
  added_tokens: { id: number; content: string }[];
}

type Vocabulary = { id: number; token: string }[];

/** By ascending id; every id has one token. */
function vocabularyOf({ model, added_tokens }: Tokenizer): Vocabulary {
  const byId = new Map(Object.entries(model.vocab).map(([token, id]) => [id, token]));
  for (const { id, content } of added_tokens) byId.set(id, content);
  return [...byId].map(([id, token]) => ({ id, token })).sort((one, other) => one.id - other.id);
}

/** The tokenizer hash of FORMAT.md, in hexadecimal. */
function fingerprint(vocabulary: Vocabulary): string {
  const hash = createHash('sha256');
  for (const { id, token } of vocabulary) {
    const bytes = Buffer.from(token);
    const numbers = Buffer.alloc(8);
    numbers.writeUInt32LE(id, 0);
    numbers.writeUInt32LE(bytes.length, 4);
    hash.update(numbers).update(bytes);
  }
  return hash.digest('hex');
}

/** A GGUF file's `embedding_length`: the key, the type u32, which is 4, and the number. */
function hiddenSize(gguf: Buffer): number {
  const key = 'llama.embedding_length';
  const at = gguf.indexOf(key) + key.length;
  if (at < key.length || gguf.readUInt32LE(at) !== 4) throw new Error(`the draft has no ${key}`);
  return gguf.readUInt32LE(at + 4);
}
