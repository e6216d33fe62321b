// Selects from the workgroups' best tokens those that top-k and top-p keep: both, one of them, or else the most likely
// token. Top-p uses the probabilities of all tokens here, although it should only count those that top-k keeps. The
// next pass reads the first token.
struct Count {
    groups: u32,
}

@group(0) @binding(0) var<storage, read> best: array<Best>;
@group(0) @binding(1) var<storage, read> sums: array<Sums>;
@group(0) @binding(2) var<storage, read_write> ids: array<u32>;
@group(0) @binding(3) var<storage, read_write> step: Step;
@group(0) @binding(4) var<storage, read_write> chosen: array<vec2<u32>>;
@group(0) @binding(5) var<storage, read> choice: Choice;
@group(0) @binding(6) var<uniform> count: Count;

fn is_kept(before: f32, mass: f32, likelier: f32) -> bool {
    return (choice.top_k == 0u || likelier < f32(choice.top_k)) && (choice.top_p >= 1.0 || before < choice.top_p * mass);
}

@compute @workgroup_size(64)
fn settle(@builtin(local_invocation_index) local: u32) {
    var found = nothing();
    var all = Sums(0.0, 0.0, 0.0, 0.0, 0.0);
    for (var i = local; i < count.groups; i += 64u) {
        found = better(found, best[i]);
        all = added(all, sums[i]);
    }
    found = best_of_all(found, local);
    all = sum_of_all(all, local);
    if (local == 0u) {
        var pair = vec2<u32>(found.id, found.next_id);
        // Without noise the two best are the most likely ones.
        if (choice.rate != 0.0) {
            let second_is_kept = is_kept(all.before_second, all.mass, all.likelier_than_second);
            if (!is_kept(all.before_first, all.mass, all.likelier_than_first)) {
                pair = vec2<u32>(select(found.likeliest, found.next_id, second_is_kept), NONE);
            } else if (!second_is_kept) {
                pair.y = NONE;
            }
        }
        chosen[step.guess] = pair;
        // A missing token is reported, and another one is read in its place.
        ids[0] = select(pair.x, 0u, pair.x == NONE);
        step = Step(step.start + step.rows, 1u, step.guess + 1u);
    }
}
