var<workgroup> parts: array<f32, THREADS / SMALLEST_SUBGROUP>;

// The sum of what a workgroup's threads have.
fn total(part: f32, local: u32, size: u32) -> f32 {
    let sum_of_own = subgroup_sum(part);
    if (is_first_of_subgroup()) {
        parts[local / size] = sum_of_own;
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < max(THREADS / size, 1u); i++) {
        sum += parts[i];
    }
    // Nobody writes before all have read.
    workgroupBarrier();
    return sum;
}
