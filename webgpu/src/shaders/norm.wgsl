// RMSNorm, x / √(mean(x²) + ε) · scale, or LayerNorm, (x − mean(x)) / √(var(x) + ε) · scale + bias, of rows, one
// workgroup per row.
struct Shape {
    width: u32,
    epsilon: f32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> shape: Shape;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> biases: array<f32>;

@compute @workgroup_size(THREADS)
fn norm(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    // SUBGROUP SIZE
) {
    let width = shape.width;
    let first = group.y * width;
    var mean = 0.0;
    if (LAYER) {
        var sum = 0.0;
        for (var i = local; i < width; i += THREADS) {
            sum += x[first + i];
        }
        mean = total(sum, local, subgroup_size) / f32(width);
    }
    var squares = 0.0;
    for (var i = local; i < width; i += THREADS) {
        let difference = x[first + i] - mean;
        squares += difference * difference;
    }
    let factor = inverseSqrt(total(squares, local, subgroup_size) / f32(width) + shape.epsilon);
    for (var i = local; i < width; i += THREADS) {
        var result = (x[first + i] - mean) * factor * scales[i];
        if (LAYER) {
            result += biases[i];
        }
        out[first + i] = result;
    }
}
