// Layout of a row's list: number of listed tokens; id and logit of each; then the mass of all others, per workgroup.
struct Shape {
    // Number of workgroups per row, and of pieces per workgroup.
    groups: u32,
    pieces: u32,
    // Capacity in tokens.
    most: u32,
}

// Token i of a thread. The tokens of a thread, and of a piece, are spread out, because neighbours in a vocabulary tend
// to be likely together.
fn token_of(i: u32, group: u32, local: u32) -> u32 {
    return (i * shape.groups + group) * 64u + local;
}
