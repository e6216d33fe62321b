// The two best tokens of a set, and the most likely one. Ties go to the lowest id.
struct Best {
    score: f32,
    id: u32,
    next_score: f32,
    next_id: u32,
    likeliest_logit: f32,
    likeliest: u32,
}

const NONE = 0xffffffffu;

var<workgroup> found_by: array<Best, 64>;

fn nothing() -> Best {
    return Best(LOWEST, NONE, LOWEST, NONE, LOWEST, NONE);
}

fn is_before(score: f32, id: u32, other_score: f32, other_id: u32) -> bool {
    return score > other_score || (score == other_score && id < other_id);
}

// Combines two sets without common tokens.
fn better(a: Best, b: Best) -> Best {
    var result = a;
    if (is_before(b.score, b.id, a.score, a.id)) {
        result = b;
        if (is_before(a.score, a.id, b.next_score, b.next_id)) {
            result.next_score = a.score;
            result.next_id = a.id;
        }
    } else if (is_before(b.score, b.id, a.next_score, a.next_id)) {
        result.next_score = b.score;
        result.next_id = b.id;
    }
    if (is_before(b.likeliest_logit, b.likeliest, a.likeliest_logit, a.likeliest)) {
        result.likeliest_logit = b.likeliest_logit;
        result.likeliest = b.likeliest;
    } else {
        result.likeliest_logit = a.likeliest_logit;
        result.likeliest = a.likeliest;
    }
    return result;
}

// Combines the sets of all 64 threads.
fn best_of_all(own: Best, local: u32) -> Best {
    found_by[local] = own;
    for (var span = 32u; span > 0u; span /= 2u) {
        workgroupBarrier();
        if (local < span) {
            found_by[local] = better(found_by[local], found_by[local + span]);
        }
    }
    workgroupBarrier();
    return found_by[0];
}
