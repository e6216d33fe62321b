// Attention of one head of one row, a workgroup each: keys in tiles of as many as there are threads, the softmax kept
// up as they come (Milakov and Gimelshein 2018). A thread has a key's score, and then four elements of the context of
// every so many keys of a tile, which is added up at the end.
//
// A row that is alone (ALONE) has nobody before it who takes its keys and values to the cache: all of its heads that share
// them compute them, and the first of these heads writes them.

// Maxima of a tile without subgroups.
const MAXIMA = 16u;
const LOWEST = -3.0e38;

// Of a head in vectors of four, at most.
const LARGEST_HEAD = 64u;

// First the query and behind it the own key, then each thread's part of the context: as many vectors.
var<workgroup> vectors_of: array<vec4<f32>, 2u * LARGEST_HEAD>;
const_assert THREADS == 2u * LARGEST_HEAD;
var<workgroup> scores: array<f32, THREADS>;
// As many as there are subgroups at most, or MAXIMA.
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
    // Heads that share keys and values; of a token these are so many vectors.
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
    // Threads beyond the last of them have nothing to add up.
    let parts = THREADS / vectors;
    let count_of_maxima = select(MAXIMA, max(THREADS / subgroup_size, 1u), HAS_SUBGROUPS);
    var maximum = LOWEST;
    var mass = 0.0;
    var sum = vec4<f32>();
    // The query, and where it is computed here its own key.
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
        // Its own key is the first one, of which nothing is rounded yet.
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
    // All have read query and key.
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
