//! The order in which top-k and top-p keep tokens: by descending logit, ties by ascending id.
//!
//! It is that of the probabilities, without their rounding. A token's key holds both, so that keys ascend in this
//! order and no two are equal.

/// Length up to which a stretch of keys is sorted.
const SHORT: usize = 32;

/// The key of a token, whose logit is not NaN.
pub(super) fn key(logit: f32, id: u32) -> u64 {
    // −0 equals 0. Then larger numbers have larger bits, once negative ones are turned around.
    let bits = (logit + 0.0).to_bits();
    let ascending = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    u64::from(!ascending) << 32 | u64::from(id)
}

/// The token id of a key.
pub(super) fn id(key: u64) -> u32 {
    key as u32
}

/// Puts the first `k` keys, or all if there are fewer, to the front in any order, and gives their number.
pub(super) fn first(keys: &mut [u64], k: usize) -> usize {
    if k < keys.len() && k > 0 {
        keys.select_nth_unstable(k - 1);
    }
    k.min(keys.len())
}

/// Puts the shortest prefix of the order whose mass is at least `wanted` to the front, and gives its length: at least
/// one key, and all of them where their mass is less.
///
/// Halves the stretch in which the prefix ends. O(n), without a sort of more than a few keys.
pub(super) fn first_of_mass(keys: &mut [u64], weight: impl Fn(u64) -> f64, wanted: f64) -> usize {
    let (mut start, mut end, mut reached) = (0, keys.len(), 0.0);
    while end - start > SHORT {
        // Most rows have most of their mass in a few tokens.
        let half = (end - start) / 4;
        keys[start..end].select_nth_unstable(half);
        let mass: f64 = keys[start..start + half].iter().map(|&key| weight(key)).sum();
        if reached + mass >= wanted {
            end = start + half;
        } else {
            start += half;
            reached += mass;
        }
    }
    keys[start..end].sort_unstable();
    let enough = keys[start..end].iter().position(|&key| {
        reached += weight(key);
        reached >= wanted
    });
    enough.map_or(end, |last| start + last + 1)
}
