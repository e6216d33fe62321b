// F32: a unit is four elements.
const PIECES = 1u;

fn place(unit: u32, piece: u32) -> u32 {
    return unit;
}

fn decode(row: u32, unit: u32, out: ptr<function, array<vec4<f32>, PIECES>>) {
    let i = (row >> 2u) + 4u * unit;
    (*out)[0] = bitcast<vec4<f32>>(vec4<u32>(weights[i], weights[i + 1u], weights[i + 2u], weights[i + 3u]));
}
