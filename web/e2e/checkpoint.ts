// A draft of random weights as the hub has models: settings, an index, and weights in two safetensors files.

import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { safetensors } from './safetensors.js';
import type { Tensor } from './safetensors.js';

const config = {
  model_type: 'llama',
  hidden_act: 'silu',
  vocab_size: 4096,
  hidden_size: 32,
  intermediate_size: 48,
  num_hidden_layers: 1,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  max_position_embeddings: 512,
  rms_norm_eps: 1e-5,
  tie_word_embeddings: true,
  // What the built-in pair's texts begin with.
  bos_token_id: 0,
};

const { hidden_size: width, intermediate_size: inner } = config;
const layer = (name: string): string => `model.layers.0.${name}.weight`;
/** Names and shapes, by file. */
const files: Record<string, Record<string, number[]>> = {
  'model-00001-of-00002.safetensors': {
    'model.embed_tokens.weight': [config.vocab_size, width],
    [layer('input_layernorm')]: [width],
    [layer('self_attn.q_proj')]: [width, width],
    [layer('self_attn.k_proj')]: [width / 2, width],
  },
  'model-00002-of-00002.safetensors': {
    [layer('self_attn.v_proj')]: [width / 2, width],
    [layer('self_attn.o_proj')]: [width, width],
    [layer('post_attention_layernorm')]: [width],
    [layer('mlp.gate_proj')]: [inner, width],
    [layer('mlp.up_proj')]: [inner, width],
    [layer('mlp.down_proj')]: [width, inner],
    'model.norm.weight': [width],
  },
};

/** Writes it into a folder. */
export async function writeCheckpoint(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const map = Object.entries(files).flatMap(([file, tensors]) =>
    Object.keys(tensors).map((name) => [name, file] as const),
  );
  await writeFile(path.join(folder, 'config.json'), JSON.stringify(config));
  await writeFile(
    path.join(folder, 'model.safetensors.index.json'),
    JSON.stringify({ weight_map: Object.fromEntries(map) }),
  );
  for (const [file, shapes] of Object.entries(files)) {
    const tensors = Object.entries(shapes).map(([name, shape]) => [name, randomTensor(shape)]);
    await writeFile(path.join(folder, file), safetensors(Object.fromEntries(tensors)));
  }
}

/** Makes a tensor of BF16 numbers between 2⁻⁷ and 2⁻⁵ of either sign, pseudo-random. */
function randomTensor(shape: readonly number[]): Tensor {
  const data = Buffer.alloc(2 * shape.reduce((product, size) => product * size, 1));
  let seed = 1;
  for (let at = 0; at < data.length; at += 2) {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    data.writeUInt16LE(((seed >>> 31) << 15) | 0x3c00 | ((seed >>> 16) & 0xff), at);
  }
  return { dtype: 'BF16', shape, data };
}
