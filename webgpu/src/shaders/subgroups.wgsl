// Subgroups sum their threads' values without shared memory. WGSL does not specify their threads. This code assumes
// adjacent ones, which holds in SwiftShader and lavapipe.
const HAS_SUBGROUPS = true;
const SMALLEST_SUBGROUP = 4u;

fn is_first_of_subgroup() -> bool {
    return subgroupExclusiveAdd(1u) == 0u;
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
