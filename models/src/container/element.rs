//! Element types of weights in GGUF files, some of which also occur in safetensors.
//!
//! Block types store a fixed number of consecutive elements of a row together, with shared scales (`ggml-common.h` of
//! <https://github.com/ggml-org/ggml>):
//!
//! ```text
//! Q4_0  d f16, 32 × 4 bits                     Q2_K  16 scales and minima of 4 + 4 bits, 256 × 2 bits, d, dmin f16
//! Q4_1  d, m f16, 32 × 4 bits                  Q3_K  256 × 1 bit, 256 × 2 bits, 16 scales of 6 bits, d f16
//! Q5_0  d f16, 32 × 1 bit, 32 × 4 bits         Q4_K  d, dmin f16, 8 scales and minima of 6 + 6 bits, 256 × 4 bits
//! Q5_1  d, m f16, 32 × 1 bit, 32 × 4 bits      Q5_K  as Q4_K, and 256 × 1 bit
//! Q8_0  d f16, 32 × 8 bits                     Q6_K  256 × 4 bits, 256 × 2 bits, 16 scales of 8 bits, d f16
//!
//! IQ4_NL  as Q4_0, and its 4 bits name one of sixteen values
//! IQ4_XS  d f16, 8 scales of 6 bits, 256 × 4 bits, which name the same values
//! MXFP4   an exponent of 8 bits, 32 × 4 bits: sign, 2 bits of exponent and 1 of fraction
//! ```

use std::fmt;

/// Element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types, reason = "the names that GGUF gives them")]
pub enum ElementType {
    /// Single precision (32-bit float).
    F32,
    /// Half precision (IEEE 16-bit float).
    F16,
    /// Upper half of a 32-bit float (bfloat16).
    BF16,
    /// 4 bits, one scale per 32 elements.
    Q4_0,
    /// 4 bits, scale and minimum per 32 elements.
    Q4_1,
    /// 5 bits, one scale per 32 elements.
    Q5_0,
    /// 5 bits, scale and minimum per 32 elements.
    Q5_1,
    /// 8 bits, one scale per 32 elements.
    Q8_0,
    /// 2 bits, scales and minima in blocks of 256.
    Q2_K,
    /// 3 bits, scales in blocks of 256.
    Q3_K,
    /// 4 bits, scales and minima in blocks of 256.
    Q4_K,
    /// 5 bits, scales and minima in blocks of 256.
    Q5_K,
    /// 6 bits, scales in blocks of 256.
    Q6_K,
    /// 4 bits that index one of 16 values, one scale per 32 elements.
    IQ4_NL,
    /// 4 bits that index one of 16 values, scales in blocks of 256.
    IQ4_XS,
    /// 4-bit floats, one power of two per 32 elements (OCP Microscaling).
    MXFP4,
    /// 32-bit integer, for tables such as `d2t` only.
    I32,
    /// 64-bit integer, for tables such as `d2t` only.
    I64,
}

/// Properties of an element type.
struct Row {
    element: ElementType,
    name: &'static str,
    /// Code in a GGUF tensor directory (`ggml_type`).
    code: u32,
    block_len: usize,
    block_bytes: usize,
}

const fn row(element: ElementType, name: &'static str, code: u32, block_len: usize, block_bytes: usize) -> Row {
    Row { element, name, code, block_len, block_bytes }
}

/// Properties of every type, in the order of [`ElementType`].
const TABLE: [Row; 18] = [
    row(ElementType::F32, "F32", 0, 1, 4),
    row(ElementType::F16, "F16", 1, 1, 2),
    row(ElementType::BF16, "BF16", 30, 1, 2),
    row(ElementType::Q4_0, "Q4_0", 2, 32, 2 + 16),
    row(ElementType::Q4_1, "Q4_1", 3, 32, 4 + 16),
    row(ElementType::Q5_0, "Q5_0", 6, 32, 2 + 4 + 16),
    row(ElementType::Q5_1, "Q5_1", 7, 32, 4 + 4 + 16),
    row(ElementType::Q8_0, "Q8_0", 8, 32, 2 + 32),
    row(ElementType::Q2_K, "Q2_K", 10, 256, 16 + 64 + 4),
    row(ElementType::Q3_K, "Q3_K", 11, 256, 32 + 64 + 12 + 2),
    row(ElementType::Q4_K, "Q4_K", 12, 256, 4 + 12 + 128),
    row(ElementType::Q5_K, "Q5_K", 13, 256, 4 + 12 + 32 + 128),
    row(ElementType::Q6_K, "Q6_K", 14, 256, 128 + 64 + 16 + 2),
    row(ElementType::IQ4_NL, "IQ4_NL", 20, 32, 2 + 16),
    row(ElementType::IQ4_XS, "IQ4_XS", 23, 256, 4 + 4 + 128),
    row(ElementType::MXFP4, "MXFP4", 39, 32, 1 + 16),
    row(ElementType::I32, "I32", 26, 1, 4),
    row(ElementType::I64, "I64", 27, 1, 8),
];

impl ElementType {
    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Type with this code in a GGUF tensor directory (`ggml_type`).
    pub(crate) fn from_gguf_code(code: u32) -> Option<Self> {
        TABLE.iter().find(|row| row.code == code).map(|row| row.element)
    }

    /// Code of the type in a GGUF tensor directory (`ggml_type`).
    #[must_use]
    pub const fn gguf_code(self) -> u32 {
        self.row().code
    }

    /// Number of elements per block; 1 for types without blocks.
    #[must_use]
    pub const fn block_len(self) -> usize {
        self.row().block_len
    }

    /// Number of bytes per block, or per element for types without blocks.
    #[must_use]
    pub const fn block_bytes(self) -> usize {
        self.row().block_bytes
    }

    /// Number of bytes in a row of `elements`, which must be whole blocks.
    #[must_use]
    pub const fn row_bytes(self, elements: usize) -> usize {
        elements / self.block_len() * self.block_bytes()
    }

    /// Returns whether elements are integers, not weights.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::I32 | Self::I64)
    }

    /// Name of the type in GGUF's documentation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_types_and_codes_lead_back() {
        for (number, row) in TABLE.iter().enumerate() {
            assert_eq!((row.element as usize, ElementType::from_gguf_code(row.code)), (number, Some(row.element)));
        }
        assert_eq!([4, 5, 9, 15, 29, 31, u32::MAX].map(ElementType::from_gguf_code), [None; 7]);
    }
}
