// F16: a unit is four elements.
const PIECES = 1u;

fn place(unit: u32, piece: u32) -> u32 {
    return unit;
}

fn decode(row: u32, unit: u32, out: ptr<function, array<vec4<f32>, PIECES>>) {
    let i = (row >> 2u) + 2u * unit;
    let pairs = vec2<u32>(weights[i], weights[i + 1u]);
    let low = pairs & vec2<u32>(0xffffu);
    let high = pairs >> vec2<u32>(16u);
    (*out)[0] = vec4<f32>(half_of(low.x), half_of(high.x), half_of(low.y), half_of(high.y));
}
