//! WGSL code that decodes each type of weights; kernels begin with it.

use outrider_models::ElementType;

use crate::error::GpuError;

/// Code shared by two of the types.
macro_rules! six_bit_scales {
    () => {
        include_str!("shaders/elements/six_bit_scales.wgsl")
    };
}

/// Type of weights with GPU kernels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Element {
    /// WGSL code that decodes a unit of elements.
    pub(crate) shader: &'static str,
    /// Number of elements per unit.
    pub(crate) unit: usize,
}

impl Element {
    /// Decoder for an element type.
    pub(crate) fn of(element: ElementType) -> Result<Self, GpuError> {
        let (shader, unit) = match element {
            ElementType::F32 => (include_str!("shaders/elements/f32.wgsl"), 4),
            ElementType::F16 => (include_str!("shaders/elements/f16.wgsl"), 4),
            ElementType::BF16 => (include_str!("shaders/elements/bf16.wgsl"), 4),
            ElementType::Q8_0 => (include_str!("shaders/elements/q8_0.wgsl"), 4),
            ElementType::Q4_0 => (include_str!("shaders/elements/q4_0.wgsl"), 8),
            ElementType::Q4_1 => (include_str!("shaders/elements/q4_1.wgsl"), 8),
            ElementType::Q5_0 => (include_str!("shaders/elements/q5_0.wgsl"), 8),
            ElementType::Q5_1 => (include_str!("shaders/elements/q5_1.wgsl"), 8),
            ElementType::Q4_K => (concat!(six_bit_scales!(), include_str!("shaders/elements/q4_k.wgsl")), 8),
            ElementType::Q5_K => (concat!(six_bit_scales!(), include_str!("shaders/elements/q5_k.wgsl")), 8),
            ElementType::Q6_K => (include_str!("shaders/elements/q6_k.wgsl"), 16),
            other => return Err(GpuError::Element(other)),
        };
        Ok(Self { shader, unit })
    }
}
