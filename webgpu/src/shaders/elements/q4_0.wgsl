// Q4_0: blocks of 32, d f16, 32 × 4 bits. A unit is four bytes of half bytes: the low ones belong to the block's first
// 16 elements, the high ones to the others.
const PIECES = 2u;

fn place(unit: u32, piece: u32) -> u32 {
    return (unit / 4u) * 8u + unit % 4u + piece * 4u;
}

fn decode(row: u32, unit: u32, out: ptr<function, array<vec4<f32>, PIECES>>) {
    let block = row + (unit / 4u) * 18u;
    let part = unit % 4u;
    let d = half_at(block);
    let halves = word(block + 2u + part * 4u);
    (*out)[0] = d * (vec4<f32>(bytes(halves, 15u)) - 8.0);
    (*out)[1] = d * (vec4<f32>(bytes(halves >> 4u, 15u)) - 8.0);
}
