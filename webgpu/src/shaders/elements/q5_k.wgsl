// Q5_K: as Q4_K, and 256 × 1 bit between scales and half bytes.
// A unit is four bytes of half bytes: the low ones are of one part of 32 elements, the high ones of the part behind it.
const PIECES = 2u;

fn place(unit: u32, piece: u32) -> u32 {
    return (unit / 8u) * 16u + unit % 8u + piece * 8u;
}

// Scale and minimum of a part, six bits each, in twelve bytes.
fn scale_and_minimum(scales: u32, part: u32) -> vec2<f32> {
    if (part < 4u) {
        return vec2<f32>(vec2<u32>(byte_at(scales + part), byte_at(scales + part + 4u)) & vec2<u32>(63u));
    }
    let low = byte_at(scales + part + 4u);
    let high = vec2<u32>(byte_at(scales + part - 4u), byte_at(scales + part)) >> vec2<u32>(6u);
    return vec2<f32>(vec2<u32>(low & 15u, low >> 4u) | (high << vec2<u32>(4u)));
}

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
