// Computes hidden += factor · RMSNorm(part) for rows, one workgroup per row.
struct Shape {
    width: u32,
    factor: f32,
    epsilon: f32,
}

@group(0) @binding(0) var<storage, read_write> hidden: array<f32>;
@group(0) @binding(1) var<storage, read> part: array<f32>;
@group(0) @binding(2) var<uniform> shape: Shape;
@group(0) @binding(3) var<storage, read> scales: array<f32>;

@compute @workgroup_size(THREADS)
fn add(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    // SUBGROUP SIZE
) {
    let width = shape.width;
    let first = group.y * width;
    var squares = 0.0;
    for (var i = local; i < width; i += THREADS) {
        squares += part[first + i] * part[first + i];
    }
    let factor = shape.factor * inverseSqrt(total(squares, local, subgroup_size) / f32(width) + shape.epsilon);
    for (var i = local; i < width; i += THREADS) {
        hidden[first + i] += factor * scales[i] * part[first + i];
    }
}
