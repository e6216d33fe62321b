// RMSNorm, x / √(mean(x²) + ε) · scale, or LayerNorm, (x − mean(x)) / √(var(x) + ε) · scale + bias, of vectors, a
// workgroup each. IN and OUT are the same buffer where a norm is in place.
struct Shape {
    width: u32,
    epsilon: f32,
}

var<workgroup> sums: array<f32, 64>;

fn total(value: f32, local: u32) -> f32 {
    sums[local] = value;
    for (var span = 32u; span > 0u; span /= 2u) {
        workgroupBarrier();
        if (local < span) {
            sums[local] += sums[local + span];
        }
    }
    workgroupBarrier();
    let sum = sums[0];
    // Nobody writes before all have read.
    workgroupBarrier();
    return sum;
}

@compute @workgroup_size(64)
fn norm(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let width = shape.width;
    let first = (group.y * groups.x + group.x) * width;
    var mean = 0.0;
    if (LAYER) {
        var sum = 0.0;
        for (var i = local; i < width; i += 64u) {
            sum += IN[first + i];
        }
        mean = total(sum, local) / f32(width);
    }
    var squares = 0.0;
    for (var i = local; i < width; i += 64u) {
        let difference = IN[first + i] - mean;
        squares += difference * difference;
    }
    let factor = inverseSqrt(total(squares, local) / f32(width) + shape.epsilon);
    for (var i = local; i < width; i += 64u) {
        OUT[first + i] = (IN[first + i] - mean) * factor * scales[i] + BIAS;
    }
}
