// Computes a bound that at least K logits of a row reach, but few more: the K-th largest of the pieces' maxima. Also
// computes the largest logit.
@group(0) @binding(0) var<storage, read> largest: array<f32>;
@group(0) @binding(1) var<storage, read_write> bounds: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> listed: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read> choice: Choice;
@group(0) @binding(4) var<uniform> shape: Shape;

// Maximum number of pieces per thread.
const PIECES = 32u;

var<workgroup> counts: array<u32, 64>;

// Integer key with the order of logits.
fn key(logit: f32) -> u32 {
    let bits = bitcast<u32>(logit);
    return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

fn logit_of(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, (key & 0x80000000u) != 0u));
}

// Largest key that at least `by` of all threads' keys reach.
fn reached(own: ptr<function, array<u32, PIECES>>, pieces: u32, by: u32, local: u32) -> u32 {
    var result = 0u;
    for (var bit = 0x80000000u; bit > 0u; bit >>= 1u) {
        let tried = result | bit;
        var count = 0u;
        for (var i = 0u; i < pieces; i++) {
            count += select(0u, 1u, (*own)[i] >= tried);
        }
        counts[local] = count;
        for (var span = 32u; span > 0u; span /= 2u) {
            workgroupBarrier();
            if (local < span) {
                counts[local] += counts[local + span];
            }
        }
        workgroupBarrier();
        if (counts[0] >= by) {
            result = tried;
        }
        workgroupBarrier();
    }
    return result;
}

@compute @workgroup_size(64)
fn bound(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let all = shape.groups * shape.pieces;
    var own: array<u32, PIECES>;
    var pieces = 0u;
    for (var i = local; i < all; i += 64u) {
        own[pieces] = key(largest[group.y * all + i]);
        pieces += 1u;
    }
    let bound = reached(&own, pieces, choice.top_k, local);
    let most = reached(&own, pieces, 1u, local);
    if (local == 0u) {
        bounds[group.y] = vec2<f32>(logit_of(bound), logit_of(most));
        atomicStore(&listed[group.y * (1u + 2u * shape.most + shape.groups)], 0u);
    }
}
