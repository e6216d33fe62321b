// Computes the largest logit of each piece of a row. A workgroup has at most one piece per thread.
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> largest: array<f32>;
@group(0) @binding(2) var<storage, read> choice: Choice;
@group(0) @binding(3) var<uniform> shape: Shape;

var<workgroup> largest_of: array<f32, 64>;

@compute @workgroup_size(64)
fn survey(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    var own = LOWEST;
    for (var i = 0u; i < TOKENS; i++) {
        let id = token_of(i, group.x, local);
        if (id < choice.vocab_size) {
            own = max(own, logits[group.y * choice.vocab_size + id]);
        }
    }
    largest_of[local] = own;
    workgroupBarrier();
    if (local < shape.pieces) {
        let threads = 64u / shape.pieces;
        var all = LOWEST;
        for (var i = 0u; i < threads; i++) {
            all = max(all, largest_of[local + i * shape.pieces]);
        }
        largest[(group.y * shape.groups + group.x) * shape.pieces + local] = all;
    }
}
