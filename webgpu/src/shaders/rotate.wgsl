// Rotates the first elements of every head by its position.
struct Shape {
    heads: u32,
    head_dim: u32,
    // Half as many as elements are rotated.
    pairs: u32,
    // 0: elements i and i + pairs form a pair; 1: elements 2i and 2i + 1.
    interleaved: u32,
}

@group(0) @binding(0) var<storage, read_write> x: array<f32>;
// Cosine and sine of each pair, position by position.
@group(0) @binding(1) var<storage, read> angles: array<vec2<f32>>;
@group(0) @binding(2) var<uniform> shape: Shape;
@group(0) @binding(3) var<storage, read> step: Step;

@compute @workgroup_size(64)
fn rotate(@builtin(global_invocation_id) at: vec3<u32>) {
    if (at.x >= shape.heads * shape.pairs) {
        return;
    }
    let pair = at.x % shape.pairs;
    let head = (at.y * shape.heads + at.x / shape.pairs) * shape.head_dim;
    let is_interleaved = shape.interleaved != 0u;
    let i = head + select(pair, 2u * pair, is_interleaved);
    let j = i + select(shape.pairs, 1u, is_interleaved);
    let angle = angles[(step.start + at.y) * shape.pairs + pair];
    let before = vec2<f32>(x[i], x[j]);
    x[i] = before.x * angle.x - before.y * angle.y;
    x[j] = before.y * angle.x + before.x * angle.y;
}
