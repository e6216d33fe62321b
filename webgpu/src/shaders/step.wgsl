// Position of a forward pass.
struct Step {
    // Number of tokens in the cache before it.
    start: u32,
    rows: u32,
    // Number of guesses chosen since the last request.
    guess: u32,
}
