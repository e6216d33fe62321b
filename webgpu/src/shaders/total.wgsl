var<workgroup> parts: array<f32, THREADS / SMALLEST_SUBGROUP>;

// Sum of the values of all threads in a workgroup.
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
    // All threads must have read before any writes again.
    workgroupBarrier();
    return sum;
}
