// Computes r = cap · tanh(factor · (W x + bias) / cap) for rows of x or for their RMSNorm, and passes r to `finish`.
struct Shape {
    // Number of units per row.
    units: u32,
    outputs: u32,
    row_bytes: u32,
    // Number of rows in the buffer before the matrix.
    first_row: u32,
    // Row length of x, in vectors of four.
    stride: u32,
    // Row length of y in numbers, and the first column that is written.
    y_stride: u32,
    y_first: u32,
    has_bias: u32,
    factor: f32,
    // Soft cap; 0: none.
    cap: f32,
    // Factor of the residual addition; 0: y is replaced.
    residual_scale: f32,
    // Constant ε of the norm.
    epsilon: f32,
}

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> shape: Shape;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
// Scales of the norm.
@group(0) @binding(5) var<storage, read> scales: array<vec4<f32>>;

// Result of an output from its sum.
fn adjusted(sum: f32, output: u32) -> f32 {
    var result = sum;
    if (shape.has_bias != 0u) {
        result += bias[output];
    }
    result *= shape.factor;
    if (shape.cap != 0.0) {
        result = shape.cap * tanh(clamp(result / shape.cap, -15.0, 15.0));
    }
    return result;
}
