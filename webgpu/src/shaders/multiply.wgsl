// y = cap · tanh(factor · (W x + bias) / cap), or y += scale · that, of ROWS rows of x: one workgroup for OUTPUTS outputs,
// LANES threads each.
struct Shape {
    // Of a row.
    units: u32,
    outputs: u32,
    row_bytes: u32,
    // Rows of x are this many vectors of four.
    stride: u32,
    has_bias: u32,
    factor: f32,
    // 0: none.
    cap: f32,
    // 0: y is replaced.
    residual_scale: f32,
}

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> shape: Shape;
@group(0) @binding(4) var<storage, read> bias: array<f32>;

const LANES = 32u;
const OUTPUTS = 2u;

var<workgroup> sums: array<vec4<f32>, 64>;

@compute @workgroup_size(64)
fn multiply(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let lane = local % LANES;
    let output = (group.y * groups.x + group.x) * OUTPUTS + local / LANES;
    let first = group.z * ROWS * shape.stride;
    var sum = vec4<f32>();
    if (output < shape.outputs) {
        var pieces: array<vec4<f32>, PIECES>;
        for (var unit = lane; unit < shape.units; unit += LANES) {
            decode(output * shape.row_bytes, unit, &pieces);
            for (var piece = 0u; piece < PIECES; piece++) {
                let at = first + place(unit, piece);
                sum.x += dot(pieces[piece], x[at]);
                if (ROWS > 1u) {
                    sum.y += dot(pieces[piece], x[at + shape.stride]);
                    sum.z += dot(pieces[piece], x[at + 2u * shape.stride]);
                    sum.w += dot(pieces[piece], x[at + 3u * shape.stride]);
                }
            }
        }
    }
    sums[local] = sum;
    for (var span = LANES / 2u; span > 0u; span /= 2u) {
        workgroupBarrier();
        if (lane < span) {
            sums[local] += sums[local + span];
        }
    }
    if (lane != 0u || output >= shape.outputs) {
        return;
    }
    var result = sums[local];
    if (shape.has_bias != 0u) {
        result += bias[output];
    }
    result *= shape.factor;
    if (shape.cap != 0.0) {
        result = shape.cap * tanh(clamp(result / shape.cap, vec4<f32>(-15.0), vec4<f32>(15.0)));
    }
    for (var row = 0u; row < ROWS; row++) {
        let at = (group.z * ROWS + row) * shape.outputs + output;
        if (shape.residual_scale == 0.0) {
            y[at] = result[row];
        } else {
            y[at] += shape.residual_scale * result[row];
        }
    }
}
