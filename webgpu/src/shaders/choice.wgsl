// Parameters for choosing guesses.
struct Choice {
    // Seed of the generation.
    seed: vec2<u32>,
    // Rate log2(e)/T; 0: no noise.
    rate: f32,
    vocab_size: u32,
    // Limits of top-p and top-k; 0: top-k keeps all tokens.
    top_p: f32,
    top_k: u32,
}

// Number of tokens per thread.
const TOKENS = 8u;
