// Q5_K: as Q4_K, with 256 × 1 bit between scales and half bytes.
fn decode(row: u32, unit: u32, out: ptr<function, array<vec4<f32>, PIECES>>) {
    let block = row + (unit / 32u) * 176u;
    let pair = (unit / 8u) % 4u;
    let column = (unit % 8u) * 4u;
    let factors = vec2<f32>(half_at(block), -half_at(block + 2u));
    let first = factors * scale_and_minimum(block + 4u, 2u * pair);
    let second = factors * scale_and_minimum(block + 4u, 2u * pair + 1u);
    let halves = word(block + 48u + pair * 32u + column);
    let high = word(block + 16u + column) >> (2u * pair);
    (*out)[0] = first.x * vec4<f32>(bytes(halves, 15u) + 16u * bytes(high, 1u)) + first.y;
    (*out)[1] = second.x * vec4<f32>(bytes(halves >> 4u, 15u) + 16u * bytes(high >> 1u, 1u)) + second.y;
}
