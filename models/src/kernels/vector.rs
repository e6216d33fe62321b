//! Vector operations: dot product, exponential, softmax, RMSNorm, SwiGLU's gate.

/// Σ aᵢ·bᵢ, summed in `LANES` interleaved partial sums that are then added pairwise.
///
/// `a` and `b` have the same length. The order of additions depends on that length only.
#[inline]
pub(crate) fn dot<const LANES: usize>(a: &[f32], b: &[f32]) -> f32 {
    debug_assert_eq!(a.len(), b.len());
    let mut lanes = [0.0f32; LANES];
    let (a_blocks, a_rest) = a.as_chunks::<LANES>();
    let (b_blocks, b_rest) = b.as_chunks::<LANES>();
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..LANES {
            lanes[lane] += x[lane] * y[lane];
        }
    }
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    lanes[0] + rest
}

/// `out += x`.
#[inline]
pub(crate) fn add_assign(out: &mut [f32], x: &[f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out += x;
    }
}

/// `out += scale · x`.
#[inline]
pub(crate) fn scaled_add(out: &mut [f32], scale: f32, x: &[f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out += scale * x;
    }
}

/// eˣ with a relative error below 3·10⁻⁷ for −87 ≤ x ≤ 88; arguments outside are clamped to that range.
///
/// x = n·ln 2 + r with |r| ≤ ln 2 / 2, and e^r by its Taylor polynomial of degree 7, whose remainder is
/// below r⁸/8! < 6·10⁻⁹. No branches and no calls, so that loops over it vectorise, and the same bits on
/// every machine.
#[inline]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding 1.5·2²³ rounds to the nearest integer and leaves it in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts: the first has 12 trailing zero bits, so that n·LN2_HIGH is exact.
    const LN2_HIGH: f32 = f32::from_bits(0x3f31_7000);
    const LN2_LOW: f32 = (std::f64::consts::LN_2 - LN2_HIGH as f64) as f32;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let series = 1.0 / 5040.0;
    let series = series * r + 1.0 / 720.0;
    let series = series * r + 1.0 / 120.0;
    let series = series * r + 1.0 / 24.0;
    let series = series * r + 1.0 / 6.0;
    let series = series * r + 0.5;
    let series = series * r + 1.0;
    let series = series * r + 1.0;
    // The low nine bits of `shifted` are n modulo 512; −126 ≤ n ≤ 127 makes the exponent field valid.
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    series * power
}

/// Replaces scores by their softmax, in place.
pub(crate) fn softmax(scores: &mut [f32]) {
    let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for score in scores.iter_mut() {
        *score = exp(*score - highest);
    }
    let total = dot_with_ones(scores);
    let scale = 1.0 / total;
    for score in scores {
        *score *= scale;
    }
}

fn dot_with_ones(x: &[f32]) -> f32 {
    let (blocks, rest) = x.as_chunks::<8>();
    let mut lanes = [0.0f32; 8];
    for block in blocks {
        for lane in 0..8 {
            lanes[lane] += block[lane];
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().sum::<f32>()
}

/// `out = x / √(mean(x²) + epsilon) · weight` for each row of `x`, `[rows, weight.len()]`.
pub(crate) fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut Vec<f32>) {
    out.clear();
    for row in x.chunks_exact(weight.len()) {
        let mean_square = dot::<8>(row, row) / row.len() as f32;
        let scale = 1.0 / (mean_square + epsilon).sqrt();
        out.extend(row.iter().zip(weight).map(|(x, w)| x * scale * w));
    }
}

/// `gate = silu(gate) · up`, the gate of SwiGLU, with silu(x) = x / (1 + e⁻ˣ).
pub(crate) fn gated_silu(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = *gate / (1.0 + exp(-*gate)) * up;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn exponential_is_within_its_bound() {
        let mut worst = 0.0f64;
        for step in -870_000..=880_000 {
            let x = step as f32 * 1e-4;
            let reference = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - reference).abs() / reference);
        }
        assert!(worst < 3e-7, "relative error {worst}");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-1e30), exp(-87.0));
        assert!(exp(1e30).is_finite());
    }

    #[test]
    fn dot_handles_every_remainder() {
        for len in 0..70 {
            let a: Vec<f32> = (0..len).map(|i| i as f32 - 7.0).collect();
            let b: Vec<f32> = (0..len).map(|i| (i % 5) as f32).collect();
            let expected: f32 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
            // Small integers: every order of addition is exact.
            assert_eq!(dot::<8>(&a, &b), expected);
            assert_eq!(dot::<32>(&a, &b), expected);
        }
    }

    #[test]
    fn softmax_sums_to_one_and_keeps_ratios() {
        let mut scores: Vec<f32> = (0..37).map(|i| (i as f32 * 0.7).sin() * 30.0).collect();
        let before = scores.clone();
        softmax(&mut scores);
        let total: f64 = scores.iter().map(|&x| f64::from(x)).sum();
        assert!((total - 1.0).abs() < 1e-6);
        let ratio = f64::from(scores[1] / scores[2]);
        let expected = f64::from(before[1] - before[2]).exp();
        assert!((ratio / expected - 1.0).abs() < 1e-5);
    }

    #[test]
    fn silu_of_large_magnitudes_stays_finite() {
        let mut gate = [-200.0, -1.0, 0.0, 1.0, 200.0];
        gated_silu(&mut gate, &[1.0; 5]);
        assert!(gate[0].abs() < 1e-30 && gate[2] == 0.0 && gate[4] == 200.0);
        assert!((gate[1] + 0.268_941_43).abs() < 1e-6 && (gate[3] - 0.731_058_6).abs() < 1e-6);
    }
}
