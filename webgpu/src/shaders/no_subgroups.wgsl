// Replacement for subgroups: each thread is its own subgroup.
const HAS_SUBGROUPS = false;
const SMALLEST_SUBGROUP = 1u;
const subgroup_size = 1u;

fn is_first_of_subgroup() -> bool {
    return true;
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
