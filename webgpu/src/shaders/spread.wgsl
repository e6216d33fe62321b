// Copies the logits of a head with rows for some tokens to the places of these tokens.
struct Shape {
    vocab_size: u32,
    // Number of rows of the head, and the length of a row of its logits.
    rows: u32,
    stride: u32,
}

@group(0) @binding(0) var<storage, read> head_logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> logits: array<f32>;
@group(0) @binding(2) var<uniform> shape: Shape;
// Row of the head for each token; `rows` for those without one.
@group(0) @binding(3) var<storage, read> row_of: array<u32>;

@compute @workgroup_size(64)
fn spread(@builtin(global_invocation_id) at: vec3<u32>) {
    let id = at.x;
    if (id >= shape.vocab_size) {
        return;
    }
    let row = row_of[id];
    var logit = LOWEST;
    if (row < shape.rows) {
        logit = head_logits[at.y * shape.stride + row];
    }
    logits[at.y * shape.vocab_size + id] = logit;
}
