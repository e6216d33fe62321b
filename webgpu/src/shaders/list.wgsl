// Lists the logits of a row that reach its bound, in any order, and sums the mass of the others, relative to the
// largest.
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> bounds: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> listed: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read> choice: Choice;
@group(0) @binding(4) var<uniform> shape: Shape;

var<workgroup> masses: array<f32, 64>;

@compute @workgroup_size(64)
fn list(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let first = group.y * (1u + 2u * shape.most + shape.groups);
    let bound = bounds[group.y].x;
    let most = bounds[group.y].y;
    var mass = 0.0;
    for (var i = 0u; i < TOKENS; i++) {
        let id = token_of(i, group.x, local);
        if (id < choice.vocab_size) {
            let logit = logits[group.y * choice.vocab_size + id];
            if (logit >= bound) {
                let place = atomicAdd(&listed[first], 1u);
                if (place < shape.most) {
                    atomicStore(&listed[first + 1u + 2u * place], id);
                    atomicStore(&listed[first + 2u + 2u * place], bitcast<u32>(logit));
                }
            } else {
                mass += exp2((logit - most) * choice.rate);
            }
        }
    }
    masses[local] = mass;
    for (var span = 32u; span > 0u; span /= 2u) {
        workgroupBarrier();
        if (local < span) {
            masses[local] += masses[local + span];
        }
    }
    if (local == 0u) {
        atomicStore(&listed[first + 1u + 2u * shape.most + group.x], bitcast<u32>(masses[0]));
    }
}
