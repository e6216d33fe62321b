//! Rows of logits: how they are computed and compared.

use outrider_models::{Chunk, KvCache, Model};

/// Tokens without meaning, the same for a seed.
pub fn text(vocab_size: usize, seed: usize, len: usize) -> Vec<u32> {
    (0..len).map(|index| ((index * 37 + seed * 101 + index * index) % vocab_size) as u32).collect()
}

/// Logits after every one of `tokens`, which follow those in `cache`.
pub fn logits_at_all(model: &Model, cache: &mut KvCache, tokens: &[u32]) -> Vec<Vec<f32>> {
    last_logits(model, cache, tokens, tokens.len())
}

/// Logits after each of the last `rows` of `tokens`, which begin a text.
pub fn on_cpu(model: &Model, tokens: &[u32], rows: usize) -> Vec<Vec<f32>> {
    last_logits(model, &mut model.new_cache(), tokens, rows)
}

fn last_logits(model: &Model, cache: &mut KvCache, tokens: &[u32], rows: usize) -> Vec<Vec<f32>> {
    let positions: Vec<usize> = (tokens.len() - rows..tokens.len()).collect();
    let logits = model.forward(&mut [Chunk { cache, tokens, positions: &positions }]).unwrap();
    assert_eq!(logits.len(), 1);
    logits[0].iter().map(<[f32]>::to_vec).collect()
}

/// Bits of the numbers of each row.
pub fn bits<'r>(rows: impl IntoIterator<Item = &'r [f32]>) -> Vec<Vec<u32>> {
    rows.into_iter().map(|row| row.iter().map(|x| x.to_bits()).collect()).collect()
}

/// Fails unless all numbers are the same, to the last bit, and finite.
#[track_caller]
pub fn assert_same_bits(actual: &[Vec<f32>], expected: &[Vec<f32>]) {
    let bits = |rows: &[Vec<f32>]| bits(rows.iter().map(Vec::as_slice));
    assert!(expected.iter().flatten().all(|x| x.is_finite()));
    assert!(bits(actual) == bits(expected), "logits differ");
}

/// Fails unless a row is another within a relative error.
#[track_caller]
pub fn assert_within(tolerance: f32, actual: &[f32], expected: &[f32], what: impl std::fmt::Display) {
    compare(actual, expected, tolerance).unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// The relative error of a row, max |a − b| / max |b|, if it is at most `tolerance`; a description of what is
/// wrong otherwise.
pub fn compare(actual: &[f32], expected: &[f32], tolerance: f32) -> Result<f32, String> {
    if actual.len() != expected.len() {
        return Err(format!("{} values, expected {}", actual.len(), expected.len()));
    }
    if !actual.iter().chain(expected).all(|x| x.is_finite()) {
        return Err("a value is not finite".to_owned());
    }
    let scale = expected.iter().fold(0.0f32, |scale, b| scale.max(b.abs()));
    let differences = actual.iter().zip(expected).map(|(a, b)| (a - b).abs());
    let largest = differences.fold(0.0f32, f32::max);
    if largest > tolerance * scale {
        return Err(format!("off by {largest} on a scale of {scale}, tolerance {tolerance}"));
    }
    Ok(if scale == 0.0 { 0.0 } else { largest / scale })
}

/// The index of the largest value, the first of equals.
pub fn argmax(row: &[f32]) -> usize {
    let better = |best: usize, (i, x): (usize, &f32)| if *x > row[best] { i } else { best };
    row.iter().enumerate().fold(0, better)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_rejects_what_is_wrong() {
        let expected = [1.0, -4.0, 0.0];
        assert_eq!(compare(&expected, &expected, 0.0), Ok(0.0));
        assert_eq!(compare(&[1.0, -4.0, 0.25], &expected, 0.1), Ok(0.0625));
        assert!(compare(&[1.0, -4.0, 0.25], &expected, 0.06).is_err());
        assert!(compare(&[1.0, -4.0, 1e-6], &expected, 0.0).is_err());
        assert!(compare(&[1.0, -4.0], &expected, 0.1).is_err());
        assert!(compare(&[1.0, -4.0, f32::NAN], &expected, 0.1).is_err());
        assert!(compare(&[f32::INFINITY], &[f32::INFINITY], 0.1).is_err());
        // An expected row of zeros leaves no room at all.
        assert!(compare(&[1e-9], &[0.0], 0.5).is_err());
        assert_eq!(argmax(&[1.0, 3.0, 3.0, 2.0]), 1);
    }
}
