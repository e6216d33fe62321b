// BF16, the upper half of an F32: a unit is four elements.
const PIECES = 1u;

fn place(unit: u32, piece: u32) -> u32 {
    return unit;
}

fn decode(row: u32, unit: u32, out: ptr<function, array<vec4<f32>, PIECES>>) {
    let i = (row >> 2u) + 2u * unit;
    let pairs = vec2<u32>(weights[i], weights[i + 1u]);
    let low = pairs << vec2<u32>(16u);
    let high = pairs & vec2<u32>(0xffff0000u);
    (*out)[0] = bitcast<vec4<f32>>(vec4<u32>(low.x, high.x, low.y, high.y));
}
