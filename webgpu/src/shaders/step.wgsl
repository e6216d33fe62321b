// What a forward pass is of.
struct Step {
    // Tokens in the cache before it.
    start: u32,
    rows: u32,
    // Guesses that were chosen since somebody asked for some.
    guess: u32,
}
