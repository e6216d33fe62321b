// Attention of one head of one row, a workgroup each: keys in tiles of as many as there are threads, the softmax kept
// up as they come (Milakov and Gimelshein 2018). A thread has a key's score, and then four elements of the context of
// every so many keys of a tile, which is added up at the end.
struct Shape {
    heads: u32,
    // Heads that share keys and values.
    shared_by: u32,
    // Elements of a head, and of a token's keys, in vectors of four.
    head: u32,
    width: u32,
    // Tokens that a row sees, itself included; 0: all.
    window: u32,
    factor: f32,
    // 0: none.
    cap: f32,
}

@group(0) @binding(0) var<storage, read> query: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> keys: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> values: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> context: array<vec4<f32>>;
@group(0) @binding(4) var<uniform> shape: Shape;
@group(0) @binding(5) var<storage, read> step: Step;

const THREADS = 128u;
// Maxima of a tile without subgroups.
const MAXIMA = 16u;
const LOWEST = -3.0e38;

var<workgroup> scores: array<f32, THREADS>;
var<workgroup> maxima: array<f32, THREADS / 4u>;
var<workgroup> sums: array<vec4<f32>, THREADS>;

@compute @workgroup_size(THREADS)
fn attend(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let own = (group.y * shape.heads + group.x) * shape.head;
    let shared_head = (group.x / shape.shared_by) * shape.head;
    let visible = step.start + group.y + 1u;
    var first = 0u;
    if (shape.window != 0u && visible > shape.window) {
        first = visible - shape.window;
    }
    let column = local % shape.head;
    let part = local / shape.head;
    // Threads beyond the last of them have nothing to add up.
    let parts = THREADS / shape.head;
    let subgroup = own_subgroup();
    let count_of_maxima = select(MAXIMA, THREADS / subgroup.size, HAS_SUBGROUPS);
    var maximum = LOWEST;
    var total = 0.0;
    var sum = vec4<f32>();
    for (var tile = first; tile < visible; tile += THREADS) {
        let count = min(THREADS, visible - tile);
        var score = LOWEST;
        if (local < count) {
            let key = (tile + local) * shape.width + shared_head;
            score = 0.0;
            for (var i = 0u; i < shape.head; i++) {
                score += dot(query[own + i], keys[key + i]);
            }
            score *= shape.factor;
            if (shape.cap != 0.0) {
                score = shape.cap * tanh(clamp(score / shape.cap, -15.0, 15.0));
            }
        }
        if (HAS_SUBGROUPS) {
            let largest = subgroup_largest(score);
            if (subgroup.is_first) {
                maxima[local / subgroup.size] = largest;
            }
        } else {
            scores[local] = score;
            workgroupBarrier();
            if (local < MAXIMA) {
                var largest = LOWEST;
                for (var i = local; i < THREADS; i += MAXIMA) {
                    largest = max(largest, scores[i]);
                }
                maxima[local] = largest;
            }
        }
        workgroupBarrier();
        var largest = maximum;
        for (var i = 0u; i < count_of_maxima; i++) {
            largest = max(largest, maxima[i]);
        }
        scores[local] = exp(score - largest);
        workgroupBarrier();
        let kept = exp(maximum - largest);
        total *= kept;
        sum *= kept;
        if (part < parts) {
            for (var i = part; i < count; i += parts) {
                total += scores[i];
                sum += scores[i] * values[(tile + i) * shape.width + shared_head + column];
            }
        }
        maximum = largest;
        workgroupBarrier();
    }
    scores[local] = total;
    sums[local] = sum;
    workgroupBarrier();
    if (local < shape.head) {
        for (var i = local + shape.head; i < parts * shape.head; i += shape.head) {
            total += scores[i];
            sum += sums[i];
        }
        context[own + local] = sum / total;
    }
}
