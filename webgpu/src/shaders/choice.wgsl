// What guesses are chosen by.
struct Choice {
    // Of the generation.
    seed: vec2<u32>,
    // log2(e)/T; 0: there is no noise.
    rate: f32,
    vocab_size: u32,
    // What top-p and top-k keep; 0: top-k keeps all.
    top_p: f32,
    top_k: u32,
}

const LOWEST = -3.0e38;
// A thread's.
const TOKENS = 8u;
