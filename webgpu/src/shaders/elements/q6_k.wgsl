// Q6_K: blocks of 256, 256 × 4 bits, 256 × 2 bits, sixteen scales of 8 bits, d f16. A unit is four columns of half a
// block, whose 128 elements form four rows of 32.
const PIECES = 4u;

fn place(unit: u32, piece: u32) -> u32 {
    return (unit / 8u) * 32u + unit % 8u + piece * 8u;
}

fn decode(row: u32, unit: u32, out: ptr<function, array<vec4<f32>, PIECES>>) {
    let block = row + (unit / 16u) * 210u;
    let part = (unit / 8u) % 2u;
    let column = (unit % 8u) * 4u;
    let d = half_at(block + 208u);
    let scales = block + 192u + part * 8u + column / 16u;
    let low = vec2<u32>(word(block + part * 64u + column), word(block + part * 64u + 32u + column));
    let high = word(block + 128u + part * 32u + column);
    for (var piece = 0u; piece < PIECES; piece++) {
        let halves = select(low.x, low.y, (piece & 1u) == 1u) >> ((piece / 2u) * 4u);
        let numbers = bytes(halves, 15u) + 16u * bytes(high >> (2u * piece), 3u);
        (*out)[piece] = d * signed_byte_at(scales + 2u * piece) * (vec4<f32>(numbers) - 32.0);
    }
}
