// Product of ROWS rows of x at a time.
//
// A workgroup has two sets of LANES threads. Each thread of a set reads x once for EACH outputs. The sets' outputs are
// adjacent or, if the activation of one half of all outputs scales the other (GATED), from different halves. Subgroups
// sum the partial results of an output, and one thread adds the sums of the subgroups.

const LANES = 32u;
// Number of outputs per workgroup.
const OUTPUTS = 2u * EACH;
// Maximum number of subgroups per workgroup.
const SUBGROUPS = 2u * LANES / SMALLEST_SUBGROUP;

var<workgroup> sums: array<Results, SUBGROUPS * OUTPUTS>;
var<workgroup> squares: array<Results, SUBGROUPS>;

// Sums of an output of the workgroup, after the norm. `subgroups`: number per set; 0 if one subgroup has threads of
// both sets.
fn results_of(place: u32, subgroups: u32) -> Results {
    let first = place / EACH * subgroups;
    var results = Results();
    for (var i = 0u; i < max(subgroups, 1u); i++) {
        results += sums[(first + i) * OUTPUTS + place];
    }
    if (NORMED) {
        var square = Results();
        for (var i = 0u; i < max(subgroups, 1u); i++) {
            square += squares[i];
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
    // SUBGROUP SIZE
) {
    let lane = local % LANES;
    let side = local / LANES;
    let half = shape.outputs / 2u;
    // First output of the workgroup, and of the set.
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
            // Outputs past the last one repeat it.
            let row = shape.first_row + min(output + i, shape.outputs - 1u);
            var pieces: array<vec4<f32>, PIECES>;
            decode(row * shape.row_bytes, unit, &pieces);
            for (var piece = 0u; piece < PIECES; piece++) {
                sum[i] += product(pieces[piece], numbers[piece]);
            }
        }
    }
    let is_first = is_first_of_subgroup();
    let own_subgroup = local / subgroup_size;
    // A larger subgroup has threads of both sets. Browsers report no reliable bound on its size beforehand.
    if (subgroup_size <= LANES) {
        for (var i = 0u; i < EACH; i++) {
            let part = subgroup_results(sum[i]);
            if (is_first) {
                sums[own_subgroup * OUTPUTS + side * EACH + i] = part;
            }
        }
    } else {
        for (var i = 0u; i < OUTPUTS; i++) {
            let part = subgroup_results(select(Results(), sum[i % EACH], side == i / EACH));
            if (is_first) {
                sums[i] = part;
            }
        }
    }
    if (NORMED) {
        let part = subgroup_results(select(Results(), square, side == 0u));
        if (is_first) {
            squares[own_subgroup] = part;
        }
    }
    workgroupBarrier();
    let own = first + local;
    if (local >= select(OUTPUTS, EACH, GATED) || own >= select(shape.outputs, half, GATED)) {
        return;
    }
    let subgroups = LANES / subgroup_size;
    let results = results_of(local, subgroups);
    var gated = Results();
    if (GATED) {
        gated = results_of(EACH + local, subgroups);
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
