// Trained heads for the served draft model, made up: a safetensors file that belongs to it.

import { createHash } from 'node:crypto';
import { safetensors } from './safetensors.js';
import type { Tensor } from './safetensors.js';
import type { Server } from './server.js';

/** A gate that gives every token the score σ(`bias`); with `vocabSize`, that of another draft. */
export async function gateFile(server: Server, bias: number, other: { vocabSize?: number } = {}): Promise<Buffer> {
  const [draft, tokenizer] = await Promise.all([
    fetch(`${server.url}/pair/draft`).then((answer) => answer.arrayBuffer()),
    fetch(`${server.url}/pair/tokenizer.json`).then((answer) => answer.json() as Promise<Tokenizer>),
  ]);
  const width = hiddenSize(Buffer.from(draft));
  const vocabulary = vocabularyOf(tokenizer);
  const weights = Buffer.alloc(4 * (width + 1));
  weights.writeFloatLE(bias, 4 * width);
  const tensors: Record<string, Tensor> = {
    'gate.weight': { dtype: 'F32', shape: [width], data: weights.subarray(0, 4 * width) },
    'gate.bias': { dtype: 'F32', shape: [1], data: weights.subarray(4 * width) },
  };
  return safetensors(tensors, {
    hidden_size: String(width),
    vocab_size: String(other.vocabSize ?? vocabulary.length),
    tokenizer: fingerprint(vocabulary),
    ...{ temperature: '1', top_k: '0', top_p: '1', lambda: '1', tau: '0.5' },
    ...{ auc: '1', eta_tp: '1', eta_fp: '0' },
  });
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
