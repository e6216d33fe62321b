// Takes the queries, keys and values of rows to where attention reads them, a workgroup for each head: norms of queries
// and keys, their rotation by position, and keys and values behind those in the cache.
struct Shape {
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    // Half as many as elements are rotated; 0: none are.
    pairs: u32,
    // 0: elements i and i + pairs form a pair; 1: elements 2i and 2i + 1.
    interleaved: u32,
    // Elements that have a norm together, of queries and of keys; 0: there are no norms.
    query_norm: u32,
    key_norm: u32,
    epsilon: f32,
}

// Of each row queries, keys, values.
@group(0) @binding(0) var<storage, read> x: array<f32>;
// Cosine and sine of each pair, position by position.
@group(0) @binding(1) var<storage, read> angles: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> query: array<f32>;
@group(0) @binding(3) var<storage, read_write> keys: array<f32>;
@group(0) @binding(4) var<storage, read_write> values: array<f32>;
@group(0) @binding(5) var<uniform> shape: Shape;
@group(0) @binding(6) var<storage, read> step: Step;
// Of the norm of queries, and behind them those of keys.
@group(0) @binding(7) var<storage, read> scales: array<f32>;

@compute @workgroup_size(64)
fn place(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let width = shape.head_dim;
    let row = group.y * (shape.heads + 2u * shape.kv_heads) * width;
    let cached = (step.start + group.y) * shape.kv_heads * width;
    let is_query = group.x < shape.heads;
    let head = select(group.x - shape.heads, group.x, is_query);
    if (head >= shape.kv_heads && !is_query) {
        let value = row + group.x * width;
        for (var i = local; i < width; i += 64u) {
            values[cached + (head - shape.kv_heads) * width + i] = x[value + i];
        }
        return;
    }
    // Of all queries, or all keys.
    let part = row + select(shape.heads * width, 0u, is_query);
    let norm = select(shape.key_norm, shape.query_norm, is_query);
    var factor = 1.0;
    var scale = 0u;
    if (norm != 0u) {
        let first = part + head * width / norm * norm;
        var squares = 0.0;
        for (var i = local; i < norm; i += 64u) {
            squares += x[first + i] * x[first + i];
        }
        factor = inverseSqrt(total(squares, local) / f32(norm) + shape.epsilon);
        scale = select(shape.query_norm, 0u, is_query) + head * width % norm;
    }
    for (var i = local; i < width; i += 64u) {
        var result = factor * x[part + head * width + i];
        if (norm != 0u) {
            result *= scales[scale + i];
        }
        if (i < 2u * shape.pairs) {
            let is_interleaved = shape.interleaved != 0u;
            let pair = select(i % shape.pairs, i / 2u, is_interleaved);
            let is_first = select(i < shape.pairs, i % 2u == 0u, is_interleaved);
            let distance = select(shape.pairs, 1u, is_interleaved);
            let other = select(i - distance, i + distance, is_first);
            var partner = factor * x[part + head * width + other];
            if (norm != 0u) {
                partner *= scales[scale + other];
            }
            let angle = angles[(step.start + group.y) * shape.pairs + pair];
            result = result * angle.x + select(partner, -partner, is_first) * angle.y;
        }
        if (is_query) {
            query[(group.y * shape.heads + head) * width + i] = result;
        } else {
            keys[cached + head * width + i] = result;
        }
    }
}
