// What a forward pass is of.
struct Step {
    // Tokens in the cache before it.
    start: u32,
    rows: u32,
}
