var<workgroup> parts: array<f32, THREADS / SMALLEST_SUBGROUP>;

// The sum of what a workgroup's threads have.
fn total(part: f32, local: u32) -> f32 {
    let subgroup = own_subgroup();
    let sum_of_own = subgroup_sum(part);
    if (subgroup.is_first) {
        parts[local / subgroup.size] = sum_of_own;
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < THREADS / subgroup.size; i++) {
        sum += parts[i];
    }
    // Nobody writes before all have read.
    workgroupBarrier();
    return sum;
}
