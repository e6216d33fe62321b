//! candle as the reference for element types: its blocks are as long, and stand for the same weights, as the oracle of
//! the tests says.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use candle_core::{
    Device, Tensor,
    quantized::{GgmlDType, QTensor},
};
use outrider_models::ElementType;
use outrider_testing::elements::widened;

/// The types that candle has.
const TYPES: [(ElementType, GgmlDType); 13] = [
    (ElementType::F32, GgmlDType::F32),
    (ElementType::F16, GgmlDType::F16),
    (ElementType::BF16, GgmlDType::BF16),
    (ElementType::Q4_0, GgmlDType::Q4_0),
    (ElementType::Q4_1, GgmlDType::Q4_1),
    (ElementType::Q5_0, GgmlDType::Q5_0),
    (ElementType::Q5_1, GgmlDType::Q5_1),
    (ElementType::Q8_0, GgmlDType::Q8_0),
    (ElementType::Q2_K, GgmlDType::Q2K),
    (ElementType::Q3_K, GgmlDType::Q3K),
    (ElementType::Q4_K, GgmlDType::Q4K),
    (ElementType::Q5_K, GgmlDType::Q5K),
    (ElementType::Q6_K, GgmlDType::Q6K),
];

#[test]
fn the_definition_of_every_type_is_candles() {
    for (element, dtype) in TYPES {
        let values = Tensor::from_vec(random(8 * 256, 0.12, &mut 12345), (8, 256), &Device::Cpu).unwrap();
        let rounded = QTensor::quantize(&values, dtype).unwrap();
        let expected = rounded.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let found = widened(element, &rounded.data().unwrap());
        assert_eq!(found.len(), expected.len(), "{element}");
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-6, "{element}: {found} for {expected}");
        }
    }
}

fn random(count: usize, scale: f32, state: &mut u32) -> Vec<f32> {
    let mut next = || {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next() * scale).collect()
}
