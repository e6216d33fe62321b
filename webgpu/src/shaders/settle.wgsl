// The best of what workgroups found. The first is the token that the next pass reads.
struct Count {
    groups: u32,
}

@group(0) @binding(0) var<storage, read> best: array<Best>;
@group(0) @binding(1) var<storage, read_write> ids: array<u32>;
@group(0) @binding(2) var<storage, read_write> step: Step;
@group(0) @binding(3) var<storage, read_write> chosen: array<vec2<u32>>;
@group(0) @binding(4) var<uniform> count: Count;

@compute @workgroup_size(64)
fn settle(@builtin(local_invocation_index) local: u32) {
    var found = nothing();
    for (var i = local; i < count.groups; i += 64u) {
        found = better(found, best[i]);
    }
    found = best_of_all(found, local);
    if (local == 0u) {
        chosen[step.guess] = vec2<u32>(found.id, found.next_id);
        // What is no token is told, and another is read in its place.
        ids[0] = select(found.id, 0u, found.id == NONE);
        step = Step(step.start + step.rows, 1u, step.guess + 1u);
    }
}
