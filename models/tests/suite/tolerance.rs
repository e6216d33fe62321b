//! How two rows of logits are compared.

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

mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

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
