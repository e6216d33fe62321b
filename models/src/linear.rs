//! Weight matrices: one type for embedding table, projections and output head.

use candle_core::quantized::GgmlDType;

use crate::kernels::{
    dense::DenseWeights,
    format::{Format, LANES},
    isa::Isa,
    matrix::Matrix,
    multiply::{Factor, multiply},
    rounded::Activations,
    widened::{WidenedFormat, WidenedMatrix},
};

/// A matrix of weights, `[outputs, inputs]`.
pub(crate) struct Linear {
    weights: Weights,
    outputs: usize,
    inputs: usize,
}

enum Weights {
    Strips(Matrix),
    Widened(WidenedMatrix),
}

/// Takes a matrix in, sixteen rows at a time.
pub(crate) struct LinearBuilder {
    linear: Linear,
    row_bytes: usize,
}

impl LinearBuilder {
    /// A matrix of `dtype`, without rows yet, that will have `outputs`. None if `dtype` is no type of weights.
    pub(crate) fn new(dtype: GgmlDType, outputs: usize, inputs: usize) -> Option<Self> {
        let kind = kind(dtype)?;
        let (weights, (len, bytes)) = match kind {
            Kind::Strips(format) => (Weights::Strips(Matrix::new(format, inputs, Isa::current())), format.block()),
            Kind::Widened(format) => (Weights::Widened(WidenedMatrix::new(format, inputs)), format.block()),
        };
        Some(Self { linear: Linear { weights, outputs, inputs }, row_bytes: inputs / len * bytes })
    }

    /// Bytes of the strips to be pushed; the last may have fewer rows.
    pub(crate) fn strip_bytes(&self) -> usize {
        LANES * self.row_bytes
    }

    /// Makes room for all rows.
    pub(crate) fn reserve(&mut self) {
        match &mut self.linear.weights {
            Weights::Strips(matrix) => matrix.reserve(self.linear.outputs),
            Weights::Widened(matrix) => matrix.reserve(self.linear.outputs),
        }
    }

    /// Appends rows as they stand in a file.
    pub(crate) fn push_strip(&mut self, rows: &[u8]) {
        match &mut self.linear.weights {
            Weights::Strips(matrix) => matrix.push_strip(rows),
            Weights::Widened(matrix) => matrix.push(rows),
        }
    }

    /// The matrix, which has all its rows.
    pub(crate) fn finish(self) -> Linear {
        let rows = match &self.linear.weights {
            Weights::Strips(matrix) => matrix.outputs(),
            Weights::Widened(matrix) => matrix.outputs(),
        };
        assert_eq!(rows, self.linear.outputs, "rows were left out");
        self.linear
    }
}

enum Kind {
    Strips(Format),
    Widened(WidenedFormat),
}

fn kind(dtype: GgmlDType) -> Option<Kind> {
    Some(match dtype {
        GgmlDType::Q8_0 => Kind::Strips(Format::Q8_0),
        GgmlDType::Q4_0 => Kind::Strips(Format::Q4_0),
        GgmlDType::Q4K => Kind::Strips(Format::Q4K),
        GgmlDType::Q6K => Kind::Strips(Format::Q6K),
        GgmlDType::F16 => Kind::Strips(Format::F16),
        GgmlDType::BF16 => Kind::Strips(Format::Bf16),
        GgmlDType::F32 => Kind::Strips(Format::F32),
        GgmlDType::Q4_1 => Kind::Widened(WidenedFormat::Q4_1),
        GgmlDType::Q5_0 => Kind::Widened(WidenedFormat::Q5_0),
        GgmlDType::Q5_1 => Kind::Widened(WidenedFormat::Q5_1),
        GgmlDType::Q2K => Kind::Widened(WidenedFormat::Q2K),
        GgmlDType::Q3K => Kind::Widened(WidenedFormat::Q3K),
        GgmlDType::Q5K => Kind::Widened(WidenedFormat::Q5K),
        _ => return None,
    })
}

impl Linear {
    /// A matrix from all its rows as they stand in a file. None if `dtype` is no type of weights.
    pub(crate) fn from_rows(dtype: GgmlDType, rows: &[u8], outputs: usize, inputs: usize) -> Option<Self> {
        let mut builder = LinearBuilder::new(dtype, outputs, inputs)?;
        builder.reserve();
        rows.chunks(builder.strip_bytes()).for_each(|strip| builder.push_strip(strip));
        Some(builder.finish())
    }

    /// Unquantized weights; as many as `outputs × inputs`.
    pub(crate) fn dense(weights: DenseWeights, outputs: usize, inputs: usize) -> Self {
        let made = match &weights {
            DenseWeights::F32(weights) => {
                Self::from_rows(GgmlDType::F32, bytemuck::cast_slice(weights), outputs, inputs)
            }
            DenseWeights::F16(weights) => {
                Self::from_rows(GgmlDType::F16, bytemuck::cast_slice(weights), outputs, inputs)
            }
            DenseWeights::Bf16(weights) => {
                Self::from_rows(GgmlDType::BF16, bytemuck::cast_slice(weights), outputs, inputs)
            }
        };
        made.unwrap_or_else(|| unreachable!())
    }

    /// Blocks of a GGUF file.
    pub(crate) fn blocks(
        dtype: GgmlDType,
        buffer: Vec<u64>,
        size: usize,
        outputs: usize,
        inputs: usize,
    ) -> Option<Self> {
        Self::from_rows(dtype, &bytemuck::cast_slice(&buffer)[..size], outputs, inputs)
    }

    /// Multiplications for one row.
    pub(crate) fn multiplications(&self) -> usize {
        self.inputs * self.outputs
    }

    /// Writes the rows of `ids`, widened to f32, to `out`: `[ids, inputs]`. Every id is below `outputs`.
    pub(crate) fn embed(&self, ids: &[u32], out: &mut Vec<f32>) {
        out.resize(ids.len() * self.inputs, 0.0);
        for (&id, out) in ids.iter().zip(out.chunks_exact_mut(self.inputs)) {
            match &self.weights {
                Weights::Strips(matrix) => matrix.widen_row(id as usize, out),
                Weights::Widened(matrix) => matrix.widen_row(id as usize, out),
            }
        }
    }
}

/// `out = x · weightsᵀ` for matrices that share their input: `x`: `[rows, inputs]`, each `out`: `[rows, outputs]`.
///
/// An element has the same bits whatever other rows there are, on every machine and with every number of threads.
pub(crate) fn products<const N: usize>(
    x: &[f32],
    activations: &mut Activations,
    mut linears: [(&Linear, &mut Vec<f32>); N],
) {
    let factors = linears.each_mut().map(|(linear, out)| {
        out.resize(x.len() / linear.inputs * linear.outputs, 0.0);
        match &linear.weights {
            Weights::Strips(matrix) => Factor::Strips(matrix, out),
            Weights::Widened(matrix) => Factor::Widened(matrix, out),
        }
    });
    multiply(x, activations, factors);
}
