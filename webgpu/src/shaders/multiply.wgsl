// A product of ROWS rows of x at a time.
//
// A workgroup has two sets of LANES threads, each with EACH outputs, for which a thread reads x once: neighbours, or
// where the activation of one half of all outputs scales the other (GATED) as many of each half. No subgroup has threads
// of both. Then one thread adds up what the subgroups of a set have of an output.
// Outputs of a workgroup.
const OUTPUTS = 2u * EACH;
// Subgroups of a set, at most.
const PARTS = LANES / SMALLEST_SUBGROUP;

var<workgroup> sums: array<Results, PARTS * OUTPUTS>;
var<workgroup> squares: array<Results, PARTS>;

// Sums of an output of the workgroup, with the norm.
fn results_of(place: u32, parts: u32) -> Results {
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
    let results = results_of(local, parts);
    var gated = Results();
    if (GATED) {
        gated = results_of(EACH + local, parts);
    }
    for (var row = 0u; row < ROWS; row++) {
        let at = (group.z * ROWS + row) * shape.y_stride + shape.y_first + own;
        var other = 0.0;
        if (GATED) {
            other = adjusted(result_at(gated, row), half + own);
        }
        finish(at, adjusted(result_at(results, row), own), other);
    }
}
