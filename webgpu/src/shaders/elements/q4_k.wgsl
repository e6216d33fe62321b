// Q4_K: blocks of 256, d and dmin f16, eight scales and minima of 6 + 6 bits, 256 × 4 bits.
fn decode(row: u32, unit: u32, out: ptr<function, array<vec4<f32>, PIECES>>) {
    let block = row + (unit / 32u) * 144u;
    let pair = (unit / 8u) % 4u;
    let column = (unit % 8u) * 4u;
    let factors = vec2<f32>(half_at(block), -half_at(block + 2u));
    let first = factors * scale_and_minimum(block + 4u, 2u * pair);
    let second = factors * scale_and_minimum(block + 4u, 2u * pair + 1u);
    let halves = word(block + 16u + pair * 32u + column);
    (*out)[0] = first.x * vec4<f32>(bytes(halves, 15u)) + first.y;
    (*out)[1] = second.x * vec4<f32>(bytes(halves >> 4u, 15u)) + second.y;
}
