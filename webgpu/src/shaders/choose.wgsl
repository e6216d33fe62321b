// Chooses the two best guesses among a workgroup's tokens of a row of logits, by argmin E(x)/q(x) or by probability
// alone, and the most likely token. Each thread computes a block of ChaCha8, the noise of eight tokens. Its integers
// equal those on the CPU; the logarithm and everything after it are in f32.
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> best: array<Best>;
@group(0) @binding(2) var<storage, read> choice: Choice;
@group(0) @binding(3) var<storage, read> step: Step;

const DOUBLE_ROUNDS = 4;

fn quarter(state: ptr<function, array<u32, 16>>, a: u32, b: u32, c: u32, d: u32) {
    (*state)[a] += (*state)[b];
    (*state)[d] = rotated((*state)[d] ^ (*state)[a], 16u);
    (*state)[c] += (*state)[d];
    (*state)[b] = rotated((*state)[b] ^ (*state)[c], 12u);
    (*state)[a] += (*state)[b];
    (*state)[d] = rotated((*state)[d] ^ (*state)[a], 8u);
    (*state)[c] += (*state)[d];
    (*state)[b] = rotated((*state)[b] ^ (*state)[c], 7u);
}

fn rotated(word: u32, by: u32) -> u32 {
    return (word << by) | (word >> (32u - by));
}

// Words of a block in the stream of a position.
fn noise(block: u32, position: u32) -> array<u32, 16> {
    let first = array<u32, 16>(
        0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u,
        choice.seed.x, choice.seed.y, 0u, 0u, 0u, 0u, 0u, 0u,
        block, 0u, position, 1u,
    );
    var state = first;
    for (var round = 0; round < DOUBLE_ROUNDS; round++) {
        quarter(&state, 0u, 4u, 8u, 12u);
        quarter(&state, 1u, 5u, 9u, 13u);
        quarter(&state, 2u, 6u, 10u, 14u);
        quarter(&state, 3u, 7u, 11u, 15u);
        quarter(&state, 0u, 5u, 10u, 15u);
        quarter(&state, 1u, 6u, 11u, 12u);
        quarter(&state, 2u, 7u, 8u, 13u);
        quarter(&state, 3u, 4u, 9u, 14u);
    }
    for (var i = 0u; i < 16u; i++) {
        state[i] += first[i];
    }
    return state;
}

// Computes -log2 of the 64 bits as a fraction.
fn minus_log2(low: u32, high: u32) -> f32 {
    let rest = f32(~high) * exp2(-32.0) + f32(~low | 1u) * exp2(-64.0);
    if (rest < 0.125) {
        // Computes -ln(1 - rest), because log2 near 1 would be imprecise.
        var sum = 0.0;
        for (var n = 9.0; n > 0.0; n -= 1.0) {
            sum = sum * rest + 1.0 / n;
        }
        return sum * rest * 1.44269504;
    }
    return -log2((f32(high) + f32(low) * exp2(-32.0) + exp2(-32.0)) * exp2(-32.0));
}

@compute @workgroup_size(64)
fn choose(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let block = group.x * 64u + local;
    let row = (step.rows - 1u) * choice.vocab_size;
    var found = nothing();
    if (block * TOKENS < choice.vocab_size) {
        var words: array<u32, 16>;
        if (choice.rate != 0.0) {
            words = noise(block, step.start + step.rows);
        }
        for (var i = 0u; i < TOKENS; i++) {
            let id = block * TOKENS + i;
            if (id < choice.vocab_size && logits[row + id] > LOWEST) {
                var score = logits[row + id];
                if (choice.rate != 0.0) {
                    score = score * choice.rate - log2(minus_log2(words[2u * i], words[2u * i + 1u]));
                }
                found = better(found, Best(score, id, LOWEST, NONE, logits[row + id], id));
            }
        }
    }
    found = best_of_all(found, local);
    if (local == 0u) {
        best[group.x] = found;
    }
}
