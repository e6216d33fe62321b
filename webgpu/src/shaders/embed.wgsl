// Writes embeddings of tokens, or adds those of positions.
struct Shape {
    units: u32,
    row_bytes: u32,
    // Row length of `hidden`, in vectors of four.
    stride: u32,
    of_positions: u32,
    // Row of the buffer at which the table, or that of the first position, starts.
    first_row: u32,
    factor: f32,
}

@group(0) @binding(1) var<storage, read> ids: array<u32>;
@group(0) @binding(2) var<storage, read_write> hidden: array<vec4<f32>>;
@group(0) @binding(3) var<uniform> shape: Shape;
@group(0) @binding(4) var<storage, read> step: Step;
// Row of the table for each token, if not every token has one.
@group(0) @binding(5) var<storage, read> row_of: array<u32>;

@compute @workgroup_size(64)
fn embed(@builtin(global_invocation_id) at: vec3<u32>) {
    let unit = at.x;
    if (unit >= shape.units) {
        return;
    }
    let of_positions = shape.of_positions != 0u;
    var row = step.start + at.y;
    if (!of_positions) {
        row = ids[at.y];
        if (MAPPED) {
            row = row_of[row];
        }
    }
    let index = shape.first_row + row;
    var pieces: array<vec4<f32>, PIECES>;
    decode(index * shape.row_bytes, unit, &pieces);
    for (var piece = 0u; piece < PIECES; piece++) {
        let place = at.y * shape.stride + place(unit, piece);
        if (of_positions) {
            hidden[place] += pieces[piece];
        } else {
            hidden[place] = shape.factor * pieces[piece];
        }
    }
}
