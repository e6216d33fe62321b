// Product of many rows of x. A workgroup computes 32 rows and 32 outputs, or 16 outputs of each half if the activation
// of one half scales the other (GATED). It copies a few elements of all these to workgroup memory, so a weight is
// decoded once for 32 rows. Each thread then computes four rows and four outputs, eight apart. More elements at a time
// are no faster in software rendering, where compile time grows with the size of workgroup memory.
const ROWS = 32u;
const OUTPUTS = 32u;
// Number of vectors of four elements per row held at a time, and number of weight units.
const COLUMNS = 4u;
const UNITS = COLUMNS / PIECES;
// Distance between columns, chosen so that threads writing adjacent columns use different banks.
const STRIDE = ROWS + 1u;

var<workgroup> tile_of_x: array<vec4<f32>, COLUMNS * STRIDE>;
var<workgroup> tile_of_weights: array<vec4<f32>, COLUMNS * STRIDE>;
var<workgroup> squares: array<vec2<f32>, 64>;

// Four values of a thread in a column.
fn four_of_x(column: u32, own: u32) -> mat4x4<f32> {
    let at = column * STRIDE + own;
    return mat4x4<f32>(tile_of_x[at], tile_of_x[at + 8u], tile_of_x[at + 16u], tile_of_x[at + 24u]);
}

fn four_of_weights(column: u32, own: u32) -> mat4x4<f32> {
    let at = column * STRIDE + own;
    return mat4x4<f32>(
        tile_of_weights[at],
        tile_of_weights[at + 8u],
        tile_of_weights[at + 16u],
        tile_of_weights[at + 24u],
    );
}

@compute @workgroup_size(64)
fn multiply(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let half = shape.outputs / 2u;
    let first = (group.y * groups.x + group.x) * select(OUTPUTS, OUTPUTS / 2u, GATED);
    let first_row = group.z * ROWS;
    // Column and row that a thread copies.
    let column = local % COLUMNS;
    let row = local / COLUMNS;
    var square = vec2<f32>();
    // Results of a thread: four outputs for each of its rows.
    var sums = mat4x4<f32>();
    for (var unit = 0u; unit < shape.units; unit += UNITS) {
        let own_unit = unit + column / PIECES;
        let is_there = own_unit < shape.units;
        let own_column = place(min(own_unit, shape.units - 1u), column % PIECES);
        for (var i = 0u; i < 2u; i++) {
            var numbers = vec4<f32>();
            if (is_there) {
                numbers = x[(first_row + row + 16u * i) * shape.stride + own_column];
            }
            if (NORMED) {
                square[i] += dot(numbers, numbers);
                numbers *= scales[own_column];
            }
            tile_of_x[column * STRIDE + row + 16u * i] = numbers;
        }
        let weight_unit = local % UNITS;
        for (var output = local / UNITS; output < OUTPUTS; output += 64u / UNITS) {
            var own = first + output;
            if (GATED && output >= OUTPUTS / 2u) {
                own += half - OUTPUTS / 2u;
            }
            // Outputs past the last one repeat it.
            let of_buffer = shape.first_row + min(own, shape.outputs - 1u);
            var pieces: array<vec4<f32>, PIECES>;
            if (unit + weight_unit < shape.units) {
                decode(of_buffer * shape.row_bytes, unit + weight_unit, &pieces);
            }
            for (var piece = 0u; piece < PIECES; piece++) {
                tile_of_weights[(weight_unit * PIECES + piece) * STRIDE + output] = pieces[piece];
            }
        }
        workgroupBarrier();
        for (var i = 0u; i < COLUMNS; i++) {
            sums += transpose(four_of_weights(i, local / 8u)) * four_of_x(i, local % 8u);
        }
        workgroupBarrier();
    }
    let own_row = local % 8u;
    var factors = vec4<f32>(1.0);
    if (NORMED) {
        squares[local] = square;
        workgroupBarrier();
        var all = vec4<f32>();
        for (var i = 0u; i < COLUMNS; i++) {
            let near = squares[own_row * COLUMNS + i];
            let far = squares[(own_row + 8u) * COLUMNS + i];
            all += vec4<f32>(near.x, far.x, near.y, far.y);
        }
        factors = inverseSqrt(all / f32(4u * shape.stride) + shape.epsilon);
    }
    let own_output = first + local / 8u;
    let most = select(shape.outputs, half, GATED);
    for (var i = 0u; i < 4u; i++) {
        let at = (first_row + own_row + 8u * i) * shape.y_stride + shape.y_first;
        let results = factors[i] * sums[i];
        for (var j = 0u; j < select(4u, 2u, GATED); j++) {
            let output = own_output + 8u * j;
            if (output < most) {
                var other = 0.0;
                if (GATED) {
                    other = adjusted(results[j + 2u], half + output);
                }
                finish(at + output, adjusted(results[j], output), other);
            }
        }
    }
}
