// Where there are no subgroups, each thread is one.
const HAS_SUBGROUPS = false;
const SMALLEST_SUBGROUP = 1u;

struct Subgroup {
    size: u32,
    is_first: bool,
}

fn own_subgroup() -> Subgroup {
    return Subgroup(1u, true);
}

fn subgroup_sum(part: f32) -> f32 {
    return part;
}

fn subgroup_sums(parts: vec4<f32>) -> vec4<f32> {
    return parts;
}

fn subgroup_largest(value: f32) -> f32 {
    return value;
}
