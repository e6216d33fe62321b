// Unnormalised probability of a set of tokens, and of those in it that are more likely than each of the two best
// guesses, with their numbers.
struct Sums {
    mass: f32,
    before_first: f32,
    before_second: f32,
    likelier_than_first: f32,
    likelier_than_second: f32,
}

var<workgroup> sums_of: array<Sums, 64>;

fn added(a: Sums, b: Sums) -> Sums {
    return Sums(
        a.mass + b.mass,
        a.before_first + b.before_first,
        a.before_second + b.before_second,
        a.likelier_than_first + b.likelier_than_first,
        a.likelier_than_second + b.likelier_than_second,
    );
}

// Adds the sums of all 64 threads.
fn sum_of_all(own: Sums, local: u32) -> Sums {
    sums_of[local] = own;
    for (var span = 32u; span > 0u; span /= 2u) {
        workgroupBarrier();
        if (local < span) {
            sums_of[local] = added(sums_of[local], sums_of[local + span]);
        }
    }
    workgroupBarrier();
    return sums_of[0];
}
