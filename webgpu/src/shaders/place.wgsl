// Appends the keys and values of several rows to the cache, one workgroup per head.
@compute @workgroup_size(THREADS)
fn place(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    // SUBGROUP SIZE
) {
    let vectors = shape.head_dim / 4u;
    let cached = ((step.start + group.y) * shape.kv_heads + group.x) * vectors;
    let head = head_of(group.y, group.x, true, local, subgroup_size);
    for (var i = local; i < vectors; i += THREADS) {
        keys[cached + i] = halves(four_placed(head, 4u * i));
        values[cached + i] = halves(four_values(group.y, group.x, 4u * i));
    }
}
