// Writes safetensors files.

/** A tensor with its numbers as bytes. */
export interface Tensor {
  dtype: 'BF16' | 'F32';
  shape: readonly number[];
  data: Buffer;
}

/** Makes a safetensors file of tensors by name. */
export function safetensors(tensors: Readonly<Record<string, Tensor>>, metadata?: Record<string, string>): Buffer {
  const header: Record<string, unknown> = metadata ? { __metadata__: metadata } : {};
  let end = 0;
  for (const [name, { dtype, shape, data }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [end, (end += data.length)] };
  }
  const json = JSON.stringify(header);
  const padded = Buffer.from(json.padEnd(Math.ceil(json.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  return Buffer.concat([length, padded, ...Object.values(tensors).map(({ data }) => data)]);
}
