var<workgroup> parts: array<f32, 64>;

// The sum of what a workgroup's threads have.
fn total(part: f32, local: u32) -> f32 {
    parts[local] = part;
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < 64u; i++) {
        sum += parts[i];
    }
    // Nobody writes before all have read.
    workgroupBarrier();
    return sum;
}
