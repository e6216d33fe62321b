// Shared code of attention and of the kernel before it: the heads of rows, their norms and rotary embedding.
struct Shape {
    heads: u32,
    kv_heads: u32,
    // Number of elements per head, a multiple of four.
    head_dim: u32,
    // Number of rotated pairs; 0: no rotation.
    pairs: u32,
    // 0: elements i and i + pairs form a pair; 1: elements 2i and 2i + 1.
    interleaved: u32,
    // Number of elements per norm, for queries and for keys; 0: no norms.
    query_norm: u32,
    key_norm: u32,
    epsilon: f32,
    // Number of tokens that a row sees, itself included; 0: all.
    window: u32,
    factor: f32,
    // Soft cap of scores; 0: none.
    cap: f32,
}

// Queries, keys and values of each row.
@group(0) @binding(0) var<storage, read> x: array<f32>;
// Cosine and sine of each pair, by position.
@group(0) @binding(1) var<storage, read> angles: array<vec2<f32>>;
// KV cache in f16. WGSL packs f16 pairs without the feature shader-f16.
@group(0) @binding(2) var<storage, read_write> keys: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> values: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> context: array<vec4<f32>>;
@group(0) @binding(5) var<uniform> shape: Shape;
@group(0) @binding(6) var<storage, read> step: Step;
// Norm scales of queries, then of keys.
@group(0) @binding(7) var<storage, read> scales: array<f32>;

// Larger values would become infinite and spoil the sums of all rows that see them.
const LARGEST_HALF = 65504.0;

fn halves(numbers: vec4<f32>) -> vec2<u32> {
    let kept = clamp(numbers, vec4<f32>(-LARGEST_HALF), vec4<f32>(LARGEST_HALF));
    return vec2<u32>(pack2x16float(kept.xy), pack2x16float(kept.zw));
}

fn widened(halves: vec2<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(halves.x), unpack2x16float(halves.y));
}

// Head of a row's queries or keys.
struct Head {
    // Index of its first element.
    first: u32,
    // Number of elements per norm, and the index of its first scale.
    norm: u32,
    scale: u32,
    position: u32,
    // Factor of the norm.
    factor: f32,
}

// Must be called by all threads of a workgroup together.
fn head_of(row: u32, number: u32, is_key: bool, local: u32, size: u32) -> Head {
    let width = shape.head_dim;
    let part = (row * (shape.heads + 2u * shape.kv_heads) + select(0u, shape.heads, is_key)) * width;
    let norm = select(shape.query_norm, shape.key_norm, is_key);
    var head = Head(part + number * width, norm, 0u, step.start + row, 1.0);
    if (norm != 0u) {
        let first = part + number * width / norm * norm;
        var squares = 0.0;
        for (var i = local; i < norm; i += THREADS) {
            squares += x[first + i] * x[first + i];
        }
        head.factor = inverseSqrt(total(squares, local, size) / f32(norm) + shape.epsilon);
        head.scale = select(0u, shape.query_norm, is_key) + number * width % norm;
    }
    return head;
}

fn normed(head: Head, i: u32) -> f32 {
    let result = head.factor * x[head.first + i];
    if (head.norm != 0u) {
        return result * scales[head.scale + i];
    }
    return result;
}

// Element of a head after norm and rotation.
fn placed(head: Head, i: u32) -> f32 {
    let result = normed(head, i);
    if (i >= 2u * shape.pairs) {
        return result;
    }
    let is_interleaved = shape.interleaved != 0u;
    let pair = select(i % shape.pairs, i / 2u, is_interleaved);
    let is_first = select(i < shape.pairs, i % 2u == 0u, is_interleaved);
    let distance = select(shape.pairs, 1u, is_interleaved);
    let partner = normed(head, select(i - distance, i + distance, is_first));
    let angle = angles[head.position * shape.pairs + pair];
    return result * angle.x + select(partner, -partner, is_first) * angle.y;
}

fn four_placed(head: Head, i: u32) -> vec4<f32> {
    var result = vec4<f32>();
    for (var place = 0u; place < 4u; place++) {
        result[place] = placed(head, i + place);
    }
    return result;
}

// Four elements of a head of values.
fn four_values(row: u32, number: u32, i: u32) -> vec4<f32> {
    let at = (row * (shape.heads + 2u * shape.kv_heads) + shape.heads + shape.kv_heads + number) * shape.head_dim + i;
    return vec4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
}
