//! Tests of every kernel against one reference: the definition in `products`, applied to the blocks of a file.

use half::{bf16, f16};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::{
    format::{Format, LANES},
    isa::Isa,
    matrix::Matrix,
    memory::Arena,
    multiply::{Factor, multiply},
    rounded::{ActivationBits, Activations, round_block},
};

/// Pseudo-random numbers, equal on all platforms (splitmix64).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Uniform number in [−1, 1).
    fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// Rows of a file with random values and scales of moderate size and either sign.
fn random_rows(format: Format, outputs: usize, inputs: usize, noise: &mut Noise) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..outputs * format.row_bytes(inputs)).map(|_| noise.next() as u8).collect();
    for block in bytes.chunks_exact_mut(format.block().1) {
        let mut half =
            |at: usize| block[at..at + 2].copy_from_slice(&f16::from_f32(noise.signed() * 0.02).to_le_bytes());
        match format {
            Format::Q8_0 | Format::Q4_0 | Format::Q5_0 | Format::Iq4Nl | Format::Iq4Xs | Format::F16 => half(0),
            Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => [0, 2].into_iter().for_each(half),
            Format::Q2K => [80, 82].into_iter().for_each(half),
            Format::Q3K => half(108),
            Format::Q6K => half(208),
            Format::Mxfp4 => block[0] = block[0] % 8 + 118,
            Format::Bf16 => block.copy_from_slice(&bf16::from_f32(noise.signed()).to_le_bytes()),
            Format::F32 => block.copy_from_slice(&noise.signed().to_le_bytes()),
        }
    }
    bytes
}

/// Weight as integer, step and minimum: w = step · (q − offset) − minimum.
struct Weight {
    q: i32,
    step: f32,
    minimum: f32,
}

/// Scale and minimum of the `part`-th 32 inputs of a `Q4_K` or `Q5_K` block.
fn q4k_part(packed: &[u8], part: usize) -> (u8, u8) {
    match part {
        0..4 => (packed[part] & 63, packed[part + 4] & 63),
        _ => (packed[part + 4] & 15 | packed[part - 4] >> 6 << 4, packed[part + 4] >> 4 | packed[part] >> 6 << 4),
    }
}

/// Scale and minimum of the `part`-th 16 inputs of a `Q2_K` or `Q3_K` block.
fn sixteenth(format: Format, block: &[u8], part: usize) -> (i32, i32) {
    if format == Format::Q2K {
        return (i32::from(block[part] & 15), i32::from(block[part] >> 4));
    }
    let low = if part < 8 { block[96 + part] & 15 } else { block[96 + part - 8] >> 4 };
    (i32::from(low | (block[104 + part % 4] >> (part / 4 * 2) & 3) << 4) - 32, 0)
}

/// Values of the half bytes of `IQ4_NL` and `MXFP4`.
const IQ4: [i32; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
const FP4: [i32; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Definition of each format, one weight at a time.
fn weight(format: Format, row: &[u8], index: usize) -> Weight {
    let (len, size) = format.block();
    let (block, i) = (&row[index / len * size..][..size], index % len);
    let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    // Half byte i of 32 from `at` on: low halves first.
    let nibble = |at: usize| i32::from(block[at + i % 16] >> (i % 32 / 16 * 4) & 15);
    let bit = |at: usize, index: usize| i32::from(block[at + index / 8] >> (index % 8) & 1);
    match format {
        Format::Q4_1 => Weight { q: nibble(4), step: half(0), minimum: -half(2) },
        Format::Q5_0 => Weight { q: nibble(6) + 16 * bit(2, i) - 16, step: half(0), minimum: 0.0 },
        Format::Q5_1 => Weight { q: nibble(8) + 16 * bit(4, i), step: half(0), minimum: -half(2) },
        Format::Iq4Nl => Weight { q: IQ4[nibble(2) as usize], step: half(0), minimum: 0.0 },
        Format::Mxfp4 => {
            let step = 2.0f32.powi(i32::from(block[0]) - 128);
            Weight { q: FP4[nibble(1) as usize], step, minimum: 0.0 }
        }
        Format::Iq4Xs => {
            let part = i / 32;
            let high = u16::from_le_bytes([block[2], block[3]]) >> (2 * part) & 3;
            let scale = i32::from(block[4 + part / 2] >> (4 * (part % 2)) & 15) + 16 * i32::from(high) - 32;
            Weight { q: IQ4[nibble(8 + 16 * part) as usize], step: half(0) * scale as f32, minimum: 0.0 }
        }
        Format::Q2K => {
            let q = block[16 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
            let (scale, minimum) = sixteenth(format, block, i / 16);
            Weight { q: q.into(), step: half(80) * scale as f32, minimum: half(82) * minimum as f32 }
        }
        Format::Q3K => {
            let low = block[32 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
            let q = i32::from(low) - if block[i % 32] >> (i / 32) & 1 == 0 { 4 } else { 0 };
            Weight { q, step: half(108) * sixteenth(format, block, i / 16).0 as f32, minimum: 0.0 }
        }
        Format::Q5K => {
            let (scale, minimum) = q4k_part(&block[4..16], i / 32);
            let byte = block[48 + i / 64 * 32 + i % 32];
            let low = if i / 32 % 2 == 0 { byte & 15 } else { byte >> 4 };
            let q = i32::from(low) + 16 * i32::from(block[16 + i % 32] >> (i / 32) & 1);
            Weight { q, step: half(0) * f32::from(scale), minimum: half(2) * f32::from(minimum) }
        }
        Format::Q8_0 => Weight { q: i32::from(block[2 + i] as i8), step: half(0), minimum: 0.0 },
        Format::Q4_0 => {
            let q = if i < 16 { block[2 + i] & 15 } else { block[2 + i - 16] >> 4 };
            Weight { q: i32::from(q) - 8, step: half(0), minimum: 0.0 }
        }
        Format::Q4K => {
            let (scale, minimum) = q4k_part(&block[4..16], i / 32);
            let byte = block[16 + i / 64 * 32 + i % 32];
            let q = if i / 32 % 2 == 0 { byte & 15 } else { byte >> 4 };
            Weight { q: q.into(), step: half(0) * f32::from(scale), minimum: half(2) * f32::from(minimum) }
        }
        Format::Q6K => {
            let (n, quarter, l) = (i / 128, i / 32 % 4, i % 32);
            let low = block[64 * n + 32 * (quarter % 2) + l] >> (4 * (quarter / 2)) & 15;
            let high = block[128 + 32 * n + l] >> (2 * quarter) & 3;
            let scale = f32::from(block[192 + i / 16] as i8);
            Weight { q: i32::from(low | high << 4) - 32, step: half(208) * scale, minimum: 0.0 }
        }
        Format::F16 => Weight { q: 1, step: half(0), minimum: 0.0 },
        Format::Bf16 => Weight { q: 1, step: bf16::from_le_bytes([block[0], block[1]]).to_f32(), minimum: 0.0 },
        Format::F32 => {
            Weight { q: 1, step: f32::from_le_bytes([block[0], block[1], block[2], block[3]]), minimum: 0.0 }
        }
    }
}

/// One element of a product by the definition, exact to the last bit.
fn element(format: Format, row: &[u8], x: &[f32]) -> f32 {
    let dense = |parity: usize| {
        let inputs = (parity..x.len()).step_by(2);
        inputs.fold(0.0f32, |sum, i| sum + weight(format, row, i).step * x[i])
    };
    let per_sum = match format {
        Format::Q6K => 16,
        Format::Q2K | Format::Q3K => return element_of_sixteenths(format, row, x),
        Format::F16 | Format::Bf16 | Format::F32 => return dense(0) + dense(1),
        _ => 32,
    };
    let mut sum = 0.0f32;
    for first in (0..x.len()).step_by(per_sum) {
        let block: &[f32; 32] = x[first / 32 * 32..][..32].try_into().unwrap();
        let (scale, q) = round_block(block);
        let parts = (first..first + per_sum).map(|i| (weight(format, row, i), i32::from(q[i % 32])));
        let (mut ints, mut total, mut step, mut minimum) = (0, 0, 0.0, 0.0);
        for (weight, q) in parts {
            ints += weight.q * q;
            total += q;
            (step, minimum) = (weight.step, weight.minimum);
        }
        sum += ints as f32 * (step * scale);
        if matches!(format, Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K) {
            sum -= minimum * (scale * total as f32);
        }
    }
    sum
}

/// Element of a product for formats with an integer scale per 16 inputs and one floating-point scale per 256.
fn element_of_sixteenths(format: Format, row: &[u8], x: &[f32]) -> f32 {
    let size = format.block().1;
    let mut sum = 0.0f32;
    for (whole, x) in x.chunks_exact(256).enumerate() {
        let block = &row[whole * size..][..size];
        let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
        let (d, dmin) = if format == Format::Q2K { (half(80), half(82)) } else { (half(108), 0.0) };
        let (mut parts, mut least) = (0.0f32, 0.0f32);
        for (index, x) in x.as_chunks::<32>().0.iter().enumerate() {
            let (scale, q) = round_block(x);
            let (mut ints, mut minima) = (0, 0);
            for (i, q) in q.into_iter().enumerate() {
                let i = 32 * index + i;
                let (factor, minimum) = sixteenth(format, block, i / 16);
                ints += factor * weight(format, row, 256 * whole + i).q * i32::from(q);
                minima += minimum * i32::from(q);
            }
            parts += ints as f32 * scale;
            least += minima as f32 * scale;
        }
        sum += parts * d;
        sum -= least * dmin;
    }
    sum
}

fn pack(format: Format, rows: &[u8], inputs: usize, isa: Isa) -> Matrix {
    let mut matrix = Matrix::new(format, inputs, isa);
    matrix.try_reserve(rows.len() / format.row_bytes(inputs), &mut Arena::default()).unwrap();
    rows.chunks(LANES * format.row_bytes(inputs)).for_each(|strip| matrix.push_strip(strip));
    matrix
}

/// Shapes at tile edges: outputs around a strip, rows around every group, inputs of one block and of several.
const SHAPES: [(usize, usize, usize); 12] = [
    (1, 1, 1),
    (2, 15, 2),
    (3, 16, 1),
    (4, 17, 3),
    (5, 31, 1),
    (7, 33, 2),
    (8, 16, 4),
    (9, 48, 1),
    (12, 5, 2),
    (16, 64, 1),
    (17, 19, 3),
    (1, 300, 5),
];

#[test]
fn every_kernel_gives_the_bits_of_the_definition() {
    let mut noise = Noise(1);
    let mut compared = 0;
    for format in Format::ALL {
        for (rows, outputs, blocks) in SHAPES {
            let dense = format.block().0 == 1;
            let inputs = if dense { 31 * blocks + rows % 2 } else { format.block().0 * blocks };
            let weights = random_rows(format, outputs, inputs, &mut noise);
            let mut x: Vec<f32> = (0..rows * inputs).map(|_| noise.signed() * 3.0).collect();
            // Edge cases: a block of zeros, one with a single large value, one below the smallest magnitude.
            if !dense {
                x[..32].fill(0.0);
                x[inputs * (rows - 1)] = 1e4;
                x[inputs * rows - 32..].iter_mut().for_each(|x| *x *= 1e-24);
            }
            for isa in Isa::available() {
                let matrix = pack(format, &weights, inputs, isa);
                let mut out = vec![f32::NAN; rows * outputs];
                multiply(&x, &mut Activations::default(), [Factor { matrix: &matrix, out: &mut out }]);
                for (index, &actual) in out.iter().enumerate() {
                    let row = &weights[index % outputs * format.row_bytes(inputs)..][..format.row_bytes(inputs)];
                    let x = &x[index / outputs * inputs..][..inputs];
                    let expected = element(format, row, x);
                    assert!(
                        actual.to_bits() == expected.to_bits() || actual == expected,
                        "{format:?} {isa:?} {rows} × {outputs} × {inputs}, element {index}: {actual} ≠ {expected}"
                    );
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 10_000);
}

#[test]
fn widened_rows_are_the_weights() {
    let mut noise = Noise(2);
    for format in Format::ALL {
        let (outputs, inputs) = (35, format.block().0.max(32) * 2);
        let weights = random_rows(format, outputs, inputs, &mut noise);
        for isa in Isa::available() {
            let matrix = pack(format, &weights, inputs, isa);
            let mut row = vec![f32::NAN; inputs];
            for output in 0..outputs {
                matrix.widen_row(output, &mut row);
                let bytes = &weights[output * format.row_bytes(inputs)..][..format.row_bytes(inputs)];
                for (i, &actual) in row.iter().enumerate() {
                    let Weight { q, step, minimum } = weight(format, bytes, i);
                    assert_eq!(actual, step * q as f32 - minimum, "{format:?} {isa:?} {output} {i}");
                }
            }
        }
    }
}

/// Bound: |Σ w·x − product| ≤ Σ_b Σ |w| · d_b/2 from rounding activations, plus f32's rounding of the sums.
#[test]
fn products_are_within_their_bound_of_the_real_ones() {
    let mut noise = Noise(3);
    let mut tightest = f64::INFINITY;
    for format in Format::ALL {
        let (rows, outputs, inputs) = (3, 20, 1024);
        let weights = random_rows(format, outputs, inputs, &mut noise);
        let x: Vec<f32> = (0..rows * inputs).map(|_| noise.signed()).collect();
        let matrix = pack(format, &weights, inputs, Isa::current());
        let mut out = vec![f32::NAN; rows * outputs];
        multiply(&x, &mut Activations::default(), [Factor { matrix: &matrix, out: &mut out }]);
        let mut row = vec![0.0; inputs];
        for output in 0..outputs {
            matrix.widen_row(output, &mut row);
            for (index, x) in x.chunks_exact(inputs).enumerate() {
                let exact: f64 = x.iter().zip(&row).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                let size: f64 = x.iter().zip(&row).map(|(x, w)| f64::from((x * w).abs())).sum();
                let rounding: f64 = match format {
                    Format::F16 | Format::Bf16 | Format::F32 => 0.0,
                    _ => {
                        let blocks = x.as_chunks::<32>().0.iter().zip(row.as_chunks::<32>().0);
                        blocks
                            .map(|(x, w)| f64::from(round_block(x).0 / 2.0 * w.iter().map(|w| w.abs()).sum::<f32>()))
                            .sum()
                    }
                };
                let bound = rounding + size * inputs as f64 * f64::from(f32::EPSILON) / 2.0;
                let error = (f64::from(out[index * outputs + output]) - exact).abs();
                assert!(error <= bound, "{format:?}: off by {error}, bound {bound}");
                tightest = tightest.min(bound / error);
            }
        }
    }
    // A bound that is never approached would pass anything.
    assert!(tightest < 50.0, "the bound is {tightest} times the largest error");
}

/// With two parts the error of an activation is at most d_b/508, and every kernel gives the same bits, also for one row
/// alone.
#[test]
fn products_with_sixteen_bits_are_within_their_bound_of_the_real_ones() {
    let mut noise = Noise(4);
    for format in Format::ALL.into_iter().filter(|format| format.block().0 > 1) {
        let (rows, outputs, inputs) = (3, 20, 512);
        let weights = random_rows(format, outputs, inputs, &mut noise);
        let x: Vec<f32> = (0..rows * inputs).map(|_| noise.signed()).collect();
        let product = |isa, x: &[f32]| {
            let matrix = pack(format, &weights, inputs, isa);
            let mut activations = Activations::default();
            activations.set_bits(ActivationBits::Sixteen);
            let mut out = vec![f32::NAN; x.len() / inputs * outputs];
            multiply(x, &mut activations, [Factor { matrix: &matrix, out: &mut out }]);
            (matrix, out)
        };
        let (matrix, out) = product(Isa::current(), &x);
        for isa in Isa::available() {
            assert_eq!(product(isa, &x).1, out, "{format:?} {isa:?}");
            assert_eq!(product(isa, &x[inputs..2 * inputs]).1, out[outputs..2 * outputs], "{format:?} {isa:?}");
        }
        let mut row = vec![0.0; inputs];
        for (index, &actual) in out.iter().enumerate() {
            matrix.widen_row(index % outputs, &mut row);
            let x = &x[index / outputs * inputs..][..inputs];
            let (mut exact, mut size, mut rounding) = (0.0, 0.0, 0.0);
            for (x, w) in x.as_chunks::<32>().0.iter().zip(row.as_chunks::<32>().0) {
                let d = f64::from(round_block(x).0);
                for (&x, &w) in x.iter().zip(w) {
                    exact += f64::from(x) * f64::from(w);
                    size += f64::from((x * w).abs());
                    rounding += f64::from(w.abs()) * d / 508.0;
                }
            }
            let bound = rounding + size * inputs as f64 * f64::from(f32::EPSILON) / 2.0;
            let error = (f64::from(actual) - exact).abs();
            assert!(error <= bound, "{format:?}: off by {error}, bound {bound}");
        }
    }
}
