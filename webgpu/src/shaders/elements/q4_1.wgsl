// Q4_1: blocks of 32, d and m f16, 32 × 4 bits. A unit is four bytes of half bytes: the low ones belong to the block's
// first 16 elements, the high ones to the others.
const PIECES = 2u;

fn place(unit: u32, piece: u32) -> u32 {
    return (unit / 4u) * 8u + unit % 4u + piece * 4u;
}

fn decode(row: u32, unit: u32, out: ptr<function, array<vec4<f32>, PIECES>>) {
    let block = row + (unit / 4u) * 20u;
    let part = unit % 4u;
    let d = half_at(block);
    let halves = word(block + 4u + part * 4u);
    let m = half_at(block + 2u);
    (*out)[0] = d * vec4<f32>(bytes(halves, 15u)) + m;
    (*out)[1] = d * vec4<f32>(bytes(halves >> 4u, 15u)) + m;
}
