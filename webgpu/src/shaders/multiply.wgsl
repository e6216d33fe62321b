// r = cap · tanh(factor · (W x + bias) / cap), of ROWS rows of x or of their RMSNorm; what becomes of r, its finish says.
//
// A workgroup has two sets of LANES threads, each with EACH outputs, for which a thread reads x once: neighbours, or
// where the activation of one half of all outputs scales the other (GATED) as many of each half. No subgroup has threads
// of both. Then one thread adds up what the subgroups of a set have of an output.
struct Shape {
    // Of a row.
    units: u32,
    outputs: u32,
    row_bytes: u32,
    // Rows of the buffer before the matrix.
    first_row: u32,
    // Rows of x are this many vectors of four.
    stride: u32,
    // Rows of y are this many numbers; of these the first that is written.
    y_stride: u32,
    y_first: u32,
    has_bias: u32,
    factor: f32,
    // 0: none.
    cap: f32,
    // 0: y is replaced.
    residual_scale: f32,
    // Of the norm.
    epsilon: f32,
}

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> shape: Shape;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
// Of the norm.
@group(0) @binding(5) var<storage, read> scales: array<vec4<f32>>;

// Outputs of a workgroup.
const OUTPUTS = 2u * EACH;
// Subgroups of a set, at most.
const PARTS = LANES / SMALLEST_SUBGROUP;

var<workgroup> sums: array<Results, PARTS * OUTPUTS>;
var<workgroup> squares: array<Results, PARTS>;

// Of an output of the workgroup, with the norm and what else is done to it.
fn results_of(place: u32, output: u32, parts: u32) -> Results {
    var results = Results();
    for (var part = 0u; part < parts; part++) {
        results += sums[part * OUTPUTS + place];
    }
    if (NORMED) {
        var square = Results();
        for (var part = 0u; part < parts; part++) {
            square += squares[part];
        }
        results *= inverseSqrt(square / f32(4u * shape.stride) + shape.epsilon);
    }
    if (shape.has_bias != 0u) {
        results += bias[output];
    }
    results *= shape.factor;
    if (shape.cap != 0.0) {
        results = shape.cap * tanh(clamp(results / shape.cap, Results(-15.0), Results(15.0)));
    }
    return results;
}

@compute @workgroup_size(2u * LANES)
fn multiply(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let lane = local % LANES;
    let side = local / LANES;
    let half = shape.outputs / 2u;
    // The first of the workgroup, and of the side.
    let first = (group.y * groups.x + group.x) * select(OUTPUTS, EACH, GATED);
    let output = first + side * select(EACH, half, GATED);
    let first_row = group.z * ROWS * shape.stride;
    var sum: array<Results, EACH>;
    var square = Results();
    for (var unit = lane; unit < shape.units; unit += LANES) {
        var numbers: array<Numbers, PIECES>;
        for (var piece = 0u; piece < PIECES; piece++) {
            let column = place(unit, piece);
            numbers[piece] = numbers_at(first_row + column, shape.stride);
            if (NORMED) {
                square += squares_of(numbers[piece]);
                numbers[piece] = scaled(numbers[piece], scales[column]);
            }
        }
        for (var i = 0u; i < EACH; i++) {
            // What is beyond the last is computed again.
            let row = shape.first_row + min(output + i, shape.outputs - 1u);
            var pieces: array<vec4<f32>, PIECES>;
            decode(row * shape.row_bytes, unit, &pieces);
            for (var piece = 0u; piece < PIECES; piece++) {
                sum[i] += product(pieces[piece], numbers[piece]);
            }
        }
    }
    let subgroup = own_subgroup();
    let part = lane / subgroup.size;
    for (var i = 0u; i < EACH; i++) {
        let sum_of_part = subgroup_results(sum[i]);
        if (subgroup.is_first) {
            sums[part * OUTPUTS + side * EACH + i] = sum_of_part;
        }
    }
    if (NORMED) {
        let square_of_part = subgroup_results(square);
        if (subgroup.is_first && side == 0u) {
            squares[part] = square_of_part;
        }
    }
    workgroupBarrier();
    let own = first + local;
    if (local >= select(OUTPUTS, EACH, GATED) || own >= select(shape.outputs, half, GATED)) {
        return;
    }
    let parts = LANES / subgroup.size;
    let results = results_of(local, own, parts);
    // THE GATE
    for (var row = 0u; row < ROWS; row++) {
        let at = (group.z * ROWS + row) * shape.y_stride + shape.y_first + own;
        let result = result_at(results, row);
        // THE FINISH
    }
}
