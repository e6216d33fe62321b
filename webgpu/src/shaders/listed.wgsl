// How a row of logits is listed: how many of them are the largest; each of these as token and logit; and of the mass of
// all others what each workgroup has.
struct Shape {
    // Of a row, and pieces of each of them.
    groups: u32,
    pieces: u32,
    // Tokens that there is room for.
    most: u32,
}

// The i-th token of a thread. Its tokens lie apart, as those of a piece do: neighbours in a vocabulary are likely together.
fn token_of(i: u32, group: u32, local: u32) -> u32 {
    return (i * shape.groups + group) * 64u + local;
}
