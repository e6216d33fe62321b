//! e^x over a row of logits, without calls and without branches, so that loops over it vectorise.
//!
//! Logits are measured from the largest one, in binary octaves: y = (l − max)·log2(e)/T ≤ 0, and a token's weight is
//! 2^y. With n the integer nearest to y and r = y − n, 2^y = 2^n·2^r; 2^n is an exponent field, and 2^r is the Taylor
//! polynomial of degree 11, whose remainder for |r| ≤ ½ is below (ln 2/2)¹²/12! < 10⁻¹⁴. Multiplications and additions
//! are not fused: equal arguments have equal bits whether they are computed one at a time or many.

use super::scan::PIECE;

/// Number of partial sums.
const LANES: usize = 8;
/// Weights that are computed together.
const TOGETHER: usize = 4;

/// Weights below 2 to this power are 0: the smallest normal number.
const LEAST: f64 = -1022.0;

/// Coefficients of 2^r: (ln 2)^k/k!.
const TAYLOR: [f64; 12] = {
    let mut coefficients = [1.0; 12];
    let mut k = 1;
    while k < coefficients.len() {
        coefficients[k] = coefficients[k - 1] * core::f64::consts::LN_2 / k as f64;
        k += 1;
    }
    coefficients
};

/// 2^y for y ≤ 0, with a relative error below 2·10⁻¹⁴; 0 for y < −1022, and so for −∞.
#[inline(always)]
pub(super) fn exp2(y: f64) -> f64 {
    let [weight] = exp2_of([y]);
    weight
}

/// 2 to the power of several numbers at once. Each step is taken by all before the next: its constant is there for all
/// of them, which browsers load again at each use.
#[inline(always)]
fn exp2_of<const N: usize>(y: [f64; N]) -> [f64; N] {
    // Adding 1.5·2⁵² rounds to the nearest integer and leaves it in the low bits of the sum.
    const ROUND: f64 = 1.5 * (1u64 << 52) as f64;
    let inside = y.map(|y| if y > LEAST { y } else { LEAST });
    let shifted = inside.map(|y| y + ROUND);
    let mut r = inside;
    for (r, shifted) in r.iter_mut().zip(shifted) {
        *r -= shifted - ROUND;
    }
    let mut weights = [TAYLOR[TAYLOR.len() - 1]; N];
    for k in (0..TAYLOR.len() - 1).rev() {
        for (weight, r) in weights.iter_mut().zip(r) {
            *weight = *weight * r + TAYLOR[k];
        }
    }
    // −1022 ≤ n ≤ 0 makes the exponent field valid; what is above the low eleven bits is shifted out.
    for ((weight, shifted), y) in weights.iter_mut().zip(shifted).zip(y) {
        let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
        *weight = if y < LEAST { 0.0 } else { *weight * power };
    }
    weights
}

/// The octaves of a logit below `max`.
#[inline(always)]
pub(super) fn octaves(logit: f32, max: f64, rate: f64) -> f64 {
    (f64::from(logit) - max) * rate
}

/// The weights of as many logits as there is room for.
#[inline]
pub(super) fn weights(logits: &[f32], max: f64, rate: f64, out: &mut [f64]) {
    let count = logits.len().min(out.len());
    let (blocks, rest) = logits[..count].as_chunks::<TOGETHER>();
    let (room, last) = out[..count].as_chunks_mut::<TOGETHER>();
    for (weights, block) in room.iter_mut().zip(blocks) {
        *weights = exp2_of(block.map(|logit| octaves(logit, max, rate)));
    }
    for (weight, &logit) in last.iter_mut().zip(rest) {
        *weight = exp2(octaves(logit, max, rate));
    }
}

/// Σ 2^y of the logits, in an order that depends on their number alone.
#[inline]
pub(super) fn mass(logits: &[f32], max: f64, rate: f64) -> f64 {
    let mut sums = [0.0; LANES];
    // Through a buffer: a loop that adds up as it goes is not made of vector operations.
    let mut buffer = [0.0; PIECE];
    for piece in logits.chunks(PIECE) {
        let buffer = &mut buffer[..piece.len()];
        weights(piece, max, rate, buffer);
        add(&mut sums, buffer);
    }
    total(sums)
}

/// Σ 2^y and Σ y·2^y of the logits.
#[inline]
pub(super) fn moments(logits: &[f32], max: f64, rate: f64) -> (f64, f64) {
    let (mut masses, mut weighted) = ([0.0; LANES], [0.0; LANES]);
    let mut buffer = [0.0; PIECE];
    for piece in logits.chunks(PIECE) {
        let buffer = &mut buffer[..piece.len()];
        weights(piece, max, rate, buffer);
        add(&mut masses, buffer);
        for (weight, &logit) in buffer.iter_mut().zip(piece) {
            let y = octaves(logit, max, rate);
            // 0·∞ counts as 0.
            *weight *= if y > LEAST { y } else { 0.0 };
        }
        add(&mut weighted, buffer);
    }
    (total(masses), total(weighted))
}

fn add(sums: &mut [f64; LANES], terms: &[f64]) {
    let (blocks, rest) = terms.as_chunks::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            sums[lane] += block[lane];
        }
    }
    for (sum, term) in sums.iter_mut().zip(rest) {
        *sum += term;
    }
}

fn total(mut sums: [f64; LANES]) -> f64 {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn the_exponential_is_within_its_bound() {
        let mut worst = 0f64;
        for step in 0..1_000_000 {
            // Densely near 0, and to the smallest normal number.
            let y = -f64::from(step) * 1e-3 * if step % 2 == 0 { 1.0 } else { 1e-3 };
            let reference = y.exp2();
            worst = worst.max((exp2(y) - reference).abs() / reference);
        }
        assert!(worst < 2e-14, "relative error {worst:e}");
        assert!(worst > 0.0, "the comparison can fail");
        assert_eq!([0.0, -1.0, -1022.0].map(exp2), [1.0, 0.5, f64::MIN_POSITIVE]);
        assert_eq!([-1022.1, -1e300, f64::NEG_INFINITY].map(exp2), [0.0; 3]);
    }

    #[test]
    fn sums_are_the_sums_of_single_weights() {
        for length in 0..70usize {
            let logits: Vec<f32> = (0..length)
                .map(|i| if i % 7 == 3 { f32::NEG_INFINITY } else { -((i * 37 % 50) as f32) * 0.3 })
                .collect();
            let one = |&logit: &f32| exp2(octaves(logit, 0.0, 1.3));
            let (mass, weighted) = moments(&logits, 0.0, 1.3);
            let sum: f64 = logits.iter().map(one).sum();
            let finite = logits.iter().filter(|logit| logit.is_finite());
            let expected: f64 = finite.map(|logit| octaves(*logit, 0.0, 1.3) * one(logit)).sum();
            assert!((mass - sum).abs() <= 1e-13 * sum && (weighted - expected).abs() <= 1e-12, "{length}");
            assert_eq!(mass, super::mass(&logits, 0.0, 1.3));
            let mut each = vec![0.0; length];
            weights(&logits, 0.0, 1.3, &mut each);
            assert_eq!(each, logits.iter().map(one).collect::<Vec<_>>());
        }
    }
}
