// A subgroup adds up what its threads have without memory between them. It is of neighbours.
const HAS_SUBGROUPS = true;
const SMALLEST_SUBGROUP = 4u;

struct Subgroup {
    size: u32,
    // Whether the thread is the first of it.
    is_first: bool,
}

fn own_subgroup() -> Subgroup {
    return Subgroup(subgroupAdd(1u), subgroupExclusiveAdd(1u) == 0u);
}

fn subgroup_sum(part: f32) -> f32 {
    return subgroupAdd(part);
}

fn subgroup_sums(parts: vec4<f32>) -> vec4<f32> {
    return subgroupAdd(parts);
}

fn subgroup_largest(value: f32) -> f32 {
    return subgroupMax(value);
}
