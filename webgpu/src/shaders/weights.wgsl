// Matrix in the layout of its file: consecutive rows of whole blocks. Blocks start at even bytes.
@group(0) @binding(0) var<storage, read> weights: array<u32>;

// Four bytes at an even offset.
fn word(byte: u32) -> u32 {
    let first = weights[byte >> 2u];
    if ((byte & 2u) == 0u) {
        return first;
    }
    return (first >> 16u) | (weights[(byte >> 2u) + 1u] << 16u);
}

// Finite half-precision float from its bits. unpack2x16float may flush subnormals to zero, and scales can be subnormal.
fn half_of(bits: u32) -> f32 {
    let magnitude = bits & 0x7fffu;
    let normal = bitcast<f32>((magnitude << 13u) + 0x38000000u);
    // Multiplied by 2⁻²⁴.
    let value = select(normal, f32(magnitude) * 5.9604644775390625e-8, magnitude < 0x400u);
    return select(value, -value, (bits & 0x8000u) != 0u);
}

// Half-precision float at an even offset.
fn half_at(byte: u32) -> f32 {
    return half_of((weights[byte >> 2u] >> ((byte & 2u) * 8u)) & 0xffffu);
}

fn byte_at(byte: u32) -> u32 {
    return (weights[byte >> 2u] >> ((byte & 3u) * 8u)) & 255u;
}

fn signed_byte_at(byte: u32) -> f32 {
    return f32(i32(byte_at(byte) << 24u) >> 24u);
}

// The four bytes of a word, masked.
fn bytes(word: u32, mask: u32) -> vec4<u32> {
    return vec4<u32>(word, word >> 8u, word >> 16u, word >> 24u) & vec4<u32>(mask);
}

fn signed_bytes(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4<u32>(word << 24u, word << 16u, word << 8u, word)) >> vec4<u32>(24u));
}

// Four bits from the lowest on, each times 16: the contribution of the fifth bit.
fn sixteens(bits: u32) -> vec4<u32> {
    return (vec4<u32>(bits, bits >> 1u, bits >> 2u, bits >> 3u) & vec4<u32>(1u)) * 16u;
}
