// Attention of one head of one row per workgroup. Keys are processed in tiles of one key per thread, with an online
// softmax (Milakov and Gimelshein 2018). A thread computes the score of one key, then four elements of the context over
// every `parts`-th key of a tile. The partial contexts are added at the end.
//
// A single row (ALONE) has no earlier kernel that writes its keys and values to the cache. All heads that share them
// compute them, and the first of these heads writes them.

// Number of partial maxima per tile without subgroups.
const MAXIMA = 16u;
const LOWEST = -3.0e38;

// Maximum head dimension, in vectors of four.
const LARGEST_HEAD = 64u;

// First the query, followed by the row's own key; later the partial context of each thread, which needs the same number
// of vectors.
var<workgroup> vectors_of: array<vec4<f32>, 2u * LARGEST_HEAD>;
const_assert THREADS == 2u * LARGEST_HEAD;
var<workgroup> scores: array<f32, THREADS>;
// Maximum number of subgroups, or MAXIMA.
var<workgroup> maxima: array<f32, THREADS / 4u>;

fn capped(score: f32) -> f32 {
    let result = score * shape.factor;
    if (shape.cap != 0.0) {
        return shape.cap * tanh(clamp(result / shape.cap, -15.0, 15.0));
    }
    return result;
}

@compute @workgroup_size(THREADS)
fn attend(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    // SUBGROUP SIZE
) {
    let vectors = shape.head_dim / 4u;
    let own = (group.y * shape.heads + group.x) * vectors;
    // Query heads per KV head; `width` is the number of vectors of a token's keys.
    let shared_by = shape.heads / shape.kv_heads;
    let kv_head = group.x / shared_by;
    let shared_head = kv_head * vectors;
    let width = shape.kv_heads * vectors;
    let visible = step.start + group.y + 1u;
    let cached = select(visible, visible - 1u, ALONE);
    var first = 0u;
    if (shape.window != 0u && visible > shape.window) {
        first = visible - shape.window;
    }
    let column = local % vectors;
    let part = local / vectors;
    // Threads from parts · vectors on have nothing to sum.
    let parts = THREADS / vectors;
    let count_of_maxima = select(MAXIMA, max(THREADS / subgroup_size, 1u), HAS_SUBGROUPS);
    var maximum = LOWEST;
    var mass = 0.0;
    var sum = vec4<f32>();
    // Loads the query, and the row's own key if it is computed here.
    for (var what = 0u; what < select(1u, 2u, ALONE); what++) {
        let is_key = what == 1u;
        let head = head_of(group.y, select(group.x, kv_head, is_key), is_key, local, subgroup_size);
        if (local < vectors) {
            vectors_of[what * LARGEST_HEAD + local] = four_placed(head, 4u * local);
        }
    }
    if (ALONE && local < vectors) {
        sum = four_values(group.y, kv_head, 4u * local);
        mass = 1.0;
        if (group.x % shared_by == 0u) {
            keys[cached * width + shared_head + local] = halves(vectors_of[LARGEST_HEAD + local]);
            values[cached * width + shared_head + local] = halves(sum);
        }
    }
    workgroupBarrier();
    if (ALONE) {
        // The row's own key comes first, without rounding to f16.
        maximum = 0.0;
        for (var i = 0u; i < vectors; i++) {
            maximum += dot(vectors_of[i], vectors_of[LARGEST_HEAD + i]);
        }
        maximum = capped(maximum);
    }
    for (var tile = first; tile < cached; tile += THREADS) {
        let count = min(THREADS, cached - tile);
        var score = LOWEST;
        if (local < count) {
            let key = (tile + local) * width + shared_head;
            score = 0.0;
            for (var i = 0u; i < vectors; i++) {
                score += dot(vectors_of[i], widened(keys[key + i]));
            }
            score = capped(score);
        }
        if (HAS_SUBGROUPS) {
            let largest = subgroup_largest(score);
            if (is_first_of_subgroup()) {
                maxima[local / subgroup_size] = largest;
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
        mass *= kept;
        sum *= kept;
        if (part < parts) {
            for (var i = part; i < count; i += parts) {
                mass += scores[i];
                sum += scores[i] * widened(values[(tile + i) * width + shared_head + column]);
            }
        }
        maximum = largest;
        workgroupBarrier();
    }
    // All threads have read query and key.
    workgroupBarrier();
    scores[local] = mass;
    vectors_of[local] = sum;
    workgroupBarrier();
    if (local < vectors) {
        for (var i = local + vectors; i < parts * vectors; i += vectors) {
            mass += scores[i];
            sum += vectors_of[i];
        }
        context[own + local] = sum / mass;
    }
}
