// Computes the statistics of the two best guesses that top-k and top-p need, over a workgroup's tokens.
struct Count {
    groups: u32,
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> best: array<Best>;
@group(0) @binding(2) var<storage, read_write> sums: array<Sums>;
@group(0) @binding(3) var<storage, read> choice: Choice;
@group(0) @binding(4) var<storage, read> step: Step;
@group(0) @binding(5) var<uniform> count: Count;

fn logit_of(row: u32, id: u32) -> f32 {
    if (id < choice.vocab_size) {
        return logits[row + id];
    }
    return LOWEST;
}

@compute @workgroup_size(64)
fn weigh(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    var found = nothing();
    for (var i = local; i < count.groups; i += 64u) {
        found = better(found, best[i]);
    }
    found = best_of_all(found, local);
    let row = (step.rows - 1u) * choice.vocab_size;
    let first = logit_of(row, found.id);
    let second = logit_of(row, found.next_id);
    var own = Sums(0.0, 0.0, 0.0, 0.0, 0.0);
    for (var i = 0u; i < TOKENS; i++) {
        let id = (group.x * 64u + local) * TOKENS + i;
        if (id < choice.vocab_size && logits[row + id] > LOWEST) {
            let logit = logits[row + id];
            let weight = exp2((logit - found.likeliest_logit) * choice.rate);
            own.mass += weight;
            if (is_before(logit, id, first, found.id)) {
                own.before_first += weight;
                own.likelier_than_first += 1.0;
            }
            if (is_before(logit, id, second, found.next_id)) {
                own.before_second += weight;
                own.likelier_than_second += 1.0;
            }
        }
    }
    own = sum_of_all(own, local);
    if (local == 0u) {
        sums[group.x] = own;
    }
}
