//! Vector operations: dot product, exponential, norms, activations.

use crate::family::block::{Activation, ClampedSwiglu};

/// Computes Σ aᵢ·bᵢ in `LANES` interleaved partial sums, which are then added pairwise.
///
/// `a` and `b` must have the same length. The order of additions only depends on that length.
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

/// Computes `out += x`, element by element.
#[inline]
pub(crate) fn add_assign(out: &mut [f32], x: &[f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out += x;
    }
}

/// Computes `x *= scale`, element by element.
#[inline]
pub(crate) fn scale_by(x: &mut [f32], scale: f32) {
    for x in x {
        *x *= scale;
    }
}

/// Maximum of numbers that are not NaN.
#[inline]
pub(super) fn maximum<const N: usize>(x: &[f32; N]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; 8];
    for block in x.as_chunks::<8>().0 {
        for lane in 0..8 {
            lanes[lane] = if block[lane] > lanes[lane] { block[lane] } else { lanes[lane] };
        }
    }
    lanes.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// Computes Σ xᵢ in eight interleaved partial sums, which are then added pairwise.
#[inline]
pub(super) fn sum<const N: usize>(x: &[f32; N]) -> f32 {
    let mut lanes = [0.0f32; 8];
    for block in x.as_chunks::<8>().0 {
        for lane in 0..8 {
            lanes[lane] += block[lane];
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Computes eˣ with a relative error below 3·10⁻⁷ for −87 ≤ x ≤ 88; other arguments are clamped to that range.
///
/// x = n·ln 2 + r with |r| ≤ ln 2 / 2, and e^r is its Taylor polynomial of degree 7, whose remainder is below r⁸/8! <
/// 6·10⁻⁹. Without branches and calls, loops over it vectorize, and every machine gets the same bits.
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

/// Computes `out = x / √(mean(x²) + epsilon) · scales` for each row of `x`, `[rows, scales.len()]`.
pub(crate) fn rms_norm(x: &[f32], scales: &[f32], epsilon: f32, out: &mut Vec<f32>) {
    out.resize(x.len(), 0.0);
    for (row, out) in x.chunks_exact(scales.len()).zip(out.chunks_exact_mut(scales.len())) {
        let factor = rms_factor(row, epsilon);
        for ((out, x), scale) in out.iter_mut().zip(row).zip(scales) {
            *out = x * factor * scale;
        }
    }
}

/// Computes [`rms_norm`] in place.
pub(crate) fn rms_norm_in_place(x: &mut [f32], scales: &[f32], epsilon: f32) {
    for row in x.chunks_exact_mut(scales.len()) {
        let factor = rms_factor(row, epsilon);
        for (x, scale) in row.iter_mut().zip(scales) {
            *x = *x * factor * scale;
        }
    }
}

fn rms_factor(row: &[f32], epsilon: f32) -> f32 {
    let mean_square = dot::<8>(row, row) / row.len() as f32;
    1.0 / (mean_square + epsilon).sqrt()
}

/// Computes `out = (x − mean(x)) / √(var(x) + epsilon) · scales + biases` for each row of `x`, `[rows, scales.len()]`.
pub(crate) fn layer_norm(x: &[f32], scales: &[f32], biases: &[f32], epsilon: f32, out: &mut Vec<f32>) {
    out.resize(x.len(), 0.0);
    for (row, out) in x.chunks_exact(scales.len()).zip(out.chunks_exact_mut(scales.len())) {
        let mean = total(row) / row.len() as f32;
        for (out, x) in out.iter_mut().zip(row) {
            *out = x - mean;
        }
        let factor = rms_factor(out, epsilon);
        for ((out, scale), bias) in out.iter_mut().zip(scales).zip(biases) {
            *out = *out * factor * scale + bias;
        }
    }
}

/// Computes Σ xᵢ in eight interleaved partial sums.
fn total(x: &[f32]) -> f32 {
    let (blocks, rest) = x.as_chunks::<8>();
    let mut lanes = [0.0f32; 8];
    for block in blocks {
        for lane in 0..8 {
            lanes[lane] += block[lane];
        }
    }
    sum(&lanes) + rest.iter().sum::<f32>()
}

/// Computes `row += biases` for each row of `x`, `[rows, biases.len()]`.
pub(crate) fn add_to_rows(x: &mut [f32], biases: &[f32]) {
    x.chunks_exact_mut(biases.len()).for_each(|row| add_assign(row, biases));
}

/// Computes `x = cap · tanh(x / cap)`, element by element.
pub(crate) fn soft_cap(x: &mut [f32], cap: f32) {
    for x in x {
        *x = cap * (1.0 - 2.0 / (exp(2.0 * (*x / cap)) + 1.0));
    }
}

/// Computes `gate = activation(gate) · up`, element by element.
pub(crate) fn gated(activation: Activation, gate: &mut [f32], up: &[f32]) {
    let gates = gate.iter_mut().zip(up);
    match activation {
        Activation::Silu => gates.for_each(|(gate, up)| *gate = silu(*gate) * up),
        Activation::GeluTanh => gates.for_each(|(gate, up)| *gate = gelu_tanh(*gate) * up),
        Activation::Relu => gates.for_each(|(gate, up)| *gate = gate.max(0.0) * up),
    }
}

/// Computes `gate = clamp(gate, up)` as [`ClampedSwiglu`] defines it, element by element.
pub(crate) fn gated_within(ClampedSwiglu { slope, limit }: ClampedSwiglu, gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        let x = gate.min(limit);
        *gate = x / (1.0 + exp(-slope * x)) * (up.clamp(-limit, limit) + 1.0);
    }
}

/// Computes `x = activation(x)`, element by element.
pub(crate) fn activate(activation: Activation, x: &mut [f32]) {
    match activation {
        Activation::Silu => x.iter_mut().for_each(|x| *x = silu(*x)),
        Activation::GeluTanh => x.iter_mut().for_each(|x| *x = gelu_tanh(*x)),
        Activation::Relu => x.iter_mut().for_each(|x| *x = x.max(0.0)),
    }
}

/// Computes the activation x / (1 + e⁻ˣ).
#[inline]
fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// Computes ½x·(1 + tanh(y)) = x / (1 + e⁻²ʸ) with y = √(2/π)·(x + 0.044715x³).
#[inline]
fn gelu_tanh(x: f32) -> f32 {
    // −2·√(2/π)
    const FACTOR: f32 = -1.595_769;
    x / (1.0 + exp(FACTOR * (x + 0.044_715 * x * x * x)))
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
            // With small integers every order of addition is exact.
            assert_eq!(dot::<8>(&a, &b), expected);
            assert_eq!(dot::<32>(&a, &b), expected);
        }
    }

    #[test]
    fn a_clamped_gate_is_bounded_on_its_sides() {
        let clamp = ClampedSwiglu { slope: 1.702, limit: 7.0 };
        let mut gate = [0.5, 9.0, 7.0, -9.0, 0.5, 0.5];
        gated_within(clamp, &mut gate, &[0.25, 2.0, 2.0, 2.0, 50.0, -50.0]);
        let logistic = |x: f64| 1.0 / (1.0 + (-1.702 * x).exp());
        let expected = [
            0.5 * logistic(0.5) * 1.25,
            7.0 * logistic(7.0) * 3.0,
            7.0 * logistic(7.0) * 3.0,
            -9.0 * logistic(-9.0) * 3.0,
            0.5 * logistic(0.5) * 8.0,
            0.5 * logistic(0.5) * -6.0,
        ];
        for (found, expected) in gate.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() <= 1e-6 * expected.abs(), "{found}, {expected}");
        }
    }

    #[test]
    fn silu_of_large_magnitudes_stays_finite() {
        let mut gate = [-200.0, -1.0, 0.0, 1.0, 200.0];
        gated(Activation::Silu, &mut gate, &[1.0; 5]);
        assert!(gate[0].abs() < 1e-30 && gate[2] == 0.0 && gate[4] == 200.0);
        assert!((gate[1] + 0.268_941_43).abs() < 1e-6 && (gate[3] - 0.731_058_6).abs() < 1e-6);
    }
}
