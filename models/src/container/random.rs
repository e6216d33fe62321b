//! Random weights for benchmarks: the cost of a forward pass only depends on the model's shape.

use std::convert::Infallible;

use half::{bf16, f16};

use super::{element::ElementType, stored::StoredMatrix};
use crate::family::weights::{WeightName, WeightSource};

/// Generator of weights that preserve the scale of activations: matrices have standard deviation `0.5 / √inputs`, norm
/// scales are one, biases zero.
#[derive(Debug, Clone)]
pub struct RandomWeights {
    element: ElementType,
    /// State of splitmix64. Its bits have no pattern that a cache or branch predictor could learn.
    state: u64,
}

impl RandomWeights {
    /// Element types that can be generated.
    pub const ELEMENTS: [ElementType; 10] = [
        ElementType::F16,
        ElementType::BF16,
        ElementType::Q4_0,
        ElementType::Q4_1,
        ElementType::Q5_0,
        ElementType::Q5_1,
        ElementType::Q8_0,
        ElementType::Q4_K,
        ElementType::Q5_K,
        ElementType::Q6_K,
    ];

    /// Creates a generator from a seed; `None` for element types not in [`ELEMENTS`](Self::ELEMENTS).
    #[must_use]
    pub fn new(element: ElementType, seed: u64) -> Option<Self> {
        Self::ELEMENTS.contains(&element).then_some(Self { element, state: seed })
    }

    /// Generates the next blocks of a matrix with rows of `inputs` elements.
    pub fn fill(&mut self, inputs: usize, blocks: &mut [u8]) {
        for word in blocks.chunks_mut(8) {
            word.copy_from_slice(&self.next().to_le_bytes()[..word.len()]);
        }
        let deviation = 0.5 / (inputs as f64).sqrt();
        for block in blocks.chunks_exact_mut(self.element.block_bytes()) {
            tame(self.element, block, deviation);
        }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl WeightSource for RandomWeights {
    type Matrix = StoredMatrix;
    type Error = Infallible;

    fn matrix(&mut self, _: WeightName, [outputs, inputs]: [usize; 2]) -> Result<StoredMatrix, Infallible> {
        let element = self.element;
        let mut bytes = vec![0; outputs * element.row_bytes(inputs)];
        self.fill(inputs, &mut bytes);
        Ok(StoredMatrix { element, outputs, inputs, bytes })
    }

    fn vector(&mut self, name: WeightName, [len]: [usize; 1]) -> Result<Vec<f32>, Infallible> {
        Ok(vec![if name.is_scale_of_norm() { 1.0 } else { 0.0 }; len])
    }
}

/// Sets the scales of a block of random bits to give its elements the standard deviation `deviation`.
fn tame(element: ElementType, block: &mut [u8], deviation: f64) {
    let mut put = |at: usize, scale: f64| block[at..at + 2].copy_from_slice(&f16::from_f64(scale).to_le_bytes());
    match element {
        // Sign and fraction stay random; the exponent is fixed.
        ElementType::F16 | ElementType::BF16 => {
            let (bits, exponent) = match element {
                ElementType::F16 => (f16::from_f64(deviation).to_bits(), 0x7c00),
                _ => (bf16::from_f64(deviation).to_bits(), 0x7f80),
            };
            let random = u16::from_le_bytes([block[0], block[1]]);
            block.copy_from_slice(&(random & !exponent | bits & exponent).to_le_bytes());
        }
        // Integers −7 to 7. A −8 is replaced by 0, because a negative mean would add up over the layers.
        ElementType::Q4_0 => {
            put(0, deviation / 4.2);
            for pair in &mut block[2..] {
                let moved = |mask: u8| if *pair & mask == 0 { mask & 0x88 } else { 0 };
                *pair |= moved(0x0f) | moved(0xf0);
            }
        }
        // Scale × 0..16, and a minimum that cancels the mean of 7.5 scales.
        ElementType::Q4_1 => {
            put(0, deviation / 4.61);
            put(2, deviation / 4.61 * -7.5);
        }
        // Scale × 0..32, with the mean cancelled like that of Q4_1.
        ElementType::Q5_1 => {
            put(0, deviation / 9.23);
            put(2, deviation / 9.23 * -15.5);
        }
        // Integers −15 to 15. A −16 is replaced by 0 by setting the fifth bit.
        ElementType::Q5_0 => {
            put(0, deviation / 8.8);
            for i in 0..16 {
                for (mask, bit) in [(0x0f, i), (0xf0, i + 16)] {
                    if block[6 + i] & mask == 0 {
                        block[2 + bit / 8] |= 1 << (bit % 8);
                    }
                }
            }
        }
        // Integers −128..128.
        ElementType::Q8_0 => put(0, deviation / 73.9),
        // Scale × 0..64 × 0..16 − minimum × 0..64. The mean is zero if the minimum is 7.5 scales.
        ElementType::Q4_K => {
            put(0, deviation / 293.0);
            put(2, deviation / 293.0 * 7.5);
        }
        // Scale × 0..64 × 0..32; the minimum is 15.5 scales.
        ElementType::Q5_K => {
            put(0, deviation / 527.0);
            put(2, deviation / 527.0 * 15.5);
        }
        // Scale × −128..128 × −32..32.
        ElementType::Q6_K => put(208, deviation / 1365.0),
        _ => {}
    }
}
