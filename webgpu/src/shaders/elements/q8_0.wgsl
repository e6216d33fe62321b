// Q8_0: blocks of 32, d f16, 32 × 8 bits. A unit is four elements.
const PIECES = 1u;

fn place(unit: u32, piece: u32) -> u32 {
    return unit;
}

fn decode(row: u32, unit: u32, out: ptr<function, array<vec4<f32>, PIECES>>) {
    let block = row + (unit / 8u) * 34u;
    (*out)[0] = half_at(block) * signed_bytes(word(block + 2u + (unit % 8u) * 4u));
}
