// The two best tokens of some; of several with the same score the first.
struct Best {
    score: f32,
    id: u32,
    next_score: f32,
    next_id: u32,
}

const LOWEST = -3.0e38;
const NONE = 0xffffffffu;

var<workgroup> found_by: array<Best, 64>;

fn nothing() -> Best {
    return Best(LOWEST, NONE, LOWEST, NONE);
}

fn is_before(score: f32, id: u32, other_score: f32, other_id: u32) -> bool {
    return score > other_score || (score == other_score && id < other_id);
}

// Of two that share no token.
fn better(a: Best, b: Best) -> Best {
    if (is_before(b.score, b.id, a.score, a.id)) {
        if (is_before(b.next_score, b.next_id, a.score, a.id)) {
            return b;
        }
        return Best(b.score, b.id, a.score, a.id);
    }
    if (is_before(b.score, b.id, a.next_score, a.next_id)) {
        return Best(a.score, a.id, b.score, b.id);
    }
    return a;
}

// The first thread has that of all 64.
fn best_of_all(own: Best, local: u32) -> Best {
    found_by[local] = own;
    for (var span = 32u; span > 0u; span /= 2u) {
        workgroupBarrier();
        if (local < span) {
            found_by[local] = better(found_by[local], found_by[local + span]);
        }
    }
    return found_by[local];
}
