//! Weight matrices on a device.

use candle_core::{
    DType, Device, Module, Tensor,
    quantized::{GgmlDType, QMatMul, QStorage, QTensor},
};
use outrider_models::{ElementType, StoredMatrix};

use crate::error::DeviceError;

/// Weights `[outputs, inputs]` on a device, in the type of their file; on the CPU, floats are widened to f32.
#[derive(Debug, Clone)]
pub(crate) enum Matrix {
    Plain(Tensor),
    Quantized(QMatMul),
}

/// Type of the operands in products with such weights. Keys and values do not need more precision.
pub(crate) fn activation_type(element: ElementType, device: &Device) -> DType {
    match element {
        _ if device.is_cpu() => DType::F32,
        ElementType::F32 => DType::F32,
        ElementType::BF16 => DType::BF16,
        _ => DType::F16,
    }
}

/// Matrices with the same input, concatenated if their types agree.
#[derive(Debug)]
pub(crate) struct Projections {
    matrices: Vec<Matrix>,
    outputs: Vec<usize>,
}

impl Matrix {
    /// Copies a matrix to the device; `what` is its name in errors.
    pub(crate) fn load(what: &'static str, matrix: StoredMatrix, device: &Device) -> Result<Self, DeviceError> {
        let StoredMatrix { element, outputs, inputs, bytes } = matrix;
        let needed = bytes.len();
        let plain = |dtype| -> candle_core::Result<Self> {
            let tensor = Tensor::from_raw_buffer(&bytes, dtype, &[outputs, inputs], device)?;
            Ok(Self::Plain(if device.is_cpu() { tensor.to_dtype(DType::F32)? } else { tensor }))
        };
        let quantized = |dtype| -> candle_core::Result<Self> {
            // Blocks are aligned to two bytes, allocations to more.
            let storage = QStorage::from_data(bytes.as_slice().into(), device, dtype)?;
            Ok(Self::Quantized(QMatMul::from_qtensor(QTensor::new(storage, (outputs, inputs))?)?))
        };
        let loaded = match element {
            ElementType::F32 => plain(DType::F32),
            ElementType::F16 => plain(DType::F16),
            ElementType::BF16 => plain(DType::BF16),
            ElementType::Q4_0 => quantized(GgmlDType::Q4_0),
            ElementType::Q4_1 => quantized(GgmlDType::Q4_1),
            ElementType::Q5_0 => quantized(GgmlDType::Q5_0),
            ElementType::Q5_1 => quantized(GgmlDType::Q5_1),
            ElementType::Q8_0 => quantized(GgmlDType::Q8_0),
            ElementType::Q2_K => quantized(GgmlDType::Q2K),
            ElementType::Q3_K => quantized(GgmlDType::Q3K),
            ElementType::Q4_K => quantized(GgmlDType::Q4K),
            ElementType::Q5_K => quantized(GgmlDType::Q5K),
            ElementType::Q6_K => quantized(GgmlDType::Q6K),
            ElementType::IQ4_NL | ElementType::IQ4_XS | ElementType::MXFP4 | ElementType::I32 | ElementType::I64 => {
                return Err(DeviceError::Element { what, element });
            }
        };
        loaded.map_err(|error| DeviceError::Weight { what, needed, error: error.to_string() })
    }

    /// Computes `x · weightsᵀ`: `[rows, inputs]` to `[rows, outputs]`, both f32.
    pub(crate) fn multiply(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        match self {
            Self::Plain(weights) => x.to_dtype(weights.dtype())?.matmul(&weights.t()?)?.to_dtype(DType::F32),
            Self::Quantized(weights) => weights.forward(x),
        }
    }

    /// Embeddings of `ids`, `[ids, inputs]` in f32.
    pub(crate) fn embed(&self, ids: &Tensor) -> candle_core::Result<Tensor> {
        match self {
            Self::Plain(weights) => weights.index_select(ids, 0)?.to_dtype(DType::F32),
            Self::Quantized(weights) => weights.embedding(ids),
        }
    }
}

impl Projections {
    /// Copies matrices with the same number of inputs to the device.
    pub(crate) fn load(what: &'static str, matrices: Vec<StoredMatrix>, device: &Device) -> Result<Self, DeviceError> {
        let outputs = matrices.iter().map(|matrix| matrix.outputs).collect();
        let mut matrices = matrices.into_iter();
        let mut joined: Vec<StoredMatrix> = matrices.next().into_iter().collect();
        for matrix in matrices {
            match joined.last_mut() {
                // Rows are contiguous, so one product reads all of them.
                Some(last) if (last.element, last.inputs) == (matrix.element, matrix.inputs) => {
                    last.outputs += matrix.outputs;
                    last.bytes.extend(matrix.bytes);
                }
                _ => joined.push(matrix),
            }
        }
        let matrices = joined.into_iter().map(|matrix| Matrix::load(what, matrix, device)).collect::<Result<_, _>>()?;
        Ok(Self { matrices, outputs })
    }

    /// Computes one product per matrix, `[rows, outputs]` each, in order.
    pub(crate) fn multiply(&self, x: &Tensor) -> candle_core::Result<Vec<Tensor>> {
        let products = self.matrices.iter().map(|matrix| matrix.multiply(x)).collect::<Result<Vec<_>, _>>()?;
        let all = match products.as_slice() {
            [one] => one.clone(),
            several => Tensor::cat(several, 1)?,
        };
        let mut start = 0;
        let split = self.outputs.iter().map(|&count| {
            let part = all.narrow(1, start, count)?.contiguous();
            start += count;
            part
        });
        split.collect()
    }
}
