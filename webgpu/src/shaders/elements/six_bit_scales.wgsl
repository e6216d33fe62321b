// Shared code of Q4_K and Q5_K. A unit is four bytes of half bytes: the low ones belong to one part of 32 elements, the
// high ones to the next part.
const PIECES = 2u;

fn place(unit: u32, piece: u32) -> u32 {
    return (unit / 8u) * 16u + unit % 8u + piece * 8u;
}

// Scale and minimum of a part, six bits each, packed into twelve bytes.
fn scale_and_minimum(scales: u32, part: u32) -> vec2<f32> {
    if (part < 4u) {
        return vec2<f32>(vec2<u32>(byte_at(scales + part), byte_at(scales + part + 4u)) & vec2<u32>(63u));
    }
    let low = byte_at(scales + part + 4u);
    let high = vec2<u32>(byte_at(scales + part - 4u), byte_at(scales + part)) >> vec2<u32>(6u);
    return vec2<f32>(vec2<u32>(low & 15u, low >> 4u) | (high << vec2<u32>(4u)));
}
