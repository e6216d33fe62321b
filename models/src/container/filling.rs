//! Transfer of tensor data from a stream to its final place.
//!
//! The stream may be cut anywhere. A tensor is passed on in strips: directly from a piece that holds a whole strip,
//! otherwise through a buffer of one strip. Additional memory never exceeds that.

use std::collections::BTreeMap;

use half::{bf16, f16};

use super::{
    element::ElementType,
    mxfp4,
    parts::{MatrixBuilder, Parts},
    plan::{Planned, Shape},
};
use crate::error::LoadError;

/// Memory allocated for a tensor ahead of its bytes if the file's length is unknown. A tensor that has already proved
/// longer may double. A false length costs at most this much, and data of a true one are rarely moved.
const UNPROVED_BYTES: u64 = 64 << 20;
/// Number of bytes per strip of a tensor from which weights are cut.
const WHOLE_STRIP: usize = 64 << 10;
/// Number of vector elements widened at a time.
const VECTOR_STRIP: usize = 4096;

/// Weights while they are loaded.
pub(super) struct Filling<B: MatrixBuilder> {
    /// Tensors in file order; those before `next` are done or in progress.
    plan: Vec<Planned>,
    next: usize,
    /// Tensor being filled. It holds `plan[next - 1]`, and weights before that are columns of the same tensor.
    tensor: Option<Tensor<B>>,
    /// Beginning of a strip that was cut.
    strip: Vec<u8>,
    /// Number of bytes of the file seen so far.
    position: u64,
    /// True if the file is known to be long enough for the plan.
    length_known: bool,
    memory: B::Memory,
    parts: Parts<B::Matrix>,
    /// Blocks that wait for their scales, or scales that wait for their blocks, by the number of their first weight.
    halves: BTreeMap<usize, Vec<u8>>,
}

/// Tensor whose bytes are arriving.
struct Tensor<B> {
    builder: Builder<B>,
    /// Number of planned weights in this tensor.
    weights: usize,
    /// Number of bytes passed on.
    done: u64,
    /// Number of bytes with allocated memory, including `done`.
    room: u64,
}

enum Builder<B> {
    Matrix(B),
    Vector {
        element: ElementType,
        len: usize,
        values: Vec<f32>,
    },
    /// Bytes from which weights are cut once all are present.
    Whole {
        size: usize,
        bytes: Vec<u8>,
    },
}

impl<B: MatrixBuilder> Filling<B> {
    /// Creates the state after `position` bytes of the file. `plan` is in file order. `length_known`: the file is known
    /// to hold all planned bytes.
    pub(super) fn new(plan: Vec<Planned>, position: u64, length_known: bool) -> Self {
        let memory = B::memory(plan.iter().filter_map(Planned::matrix_bytes));
        let parts = Parts { matrices: BTreeMap::new(), vectors: BTreeMap::new() };
        let halves = BTreeMap::new();
        Self { plan, next: 0, tensor: None, strip: Vec::new(), position, length_known, memory, parts, halves }
    }

    /// Takes the next bytes of the file.
    pub(super) fn push(&mut self, mut input: &[u8]) -> Result<(), LoadError> {
        loop {
            let Some(mut tensor) = self.tensor.take() else {
                let Some(planned) = self.plan.get(self.next) else {
                    // Bytes after the last tensor are padding.
                    self.position += input.len() as u64;
                    return Ok(());
                };
                // Tensors do not overlap, so none starts before the position.
                let gap = planned.start - self.position;
                take(&mut self.position, &mut input, usize::try_from(gap).unwrap_or(usize::MAX));
                if input.is_empty() {
                    return Ok(());
                }
                let same = |other: &&Planned| other.start == planned.start && other.name == planned.name;
                let weights = self.plan[self.next..].iter().take_while(same).count();
                self.tensor = Some(Tensor::new(planned, weights)?);
                self.next += weights;
                continue;
            };
            let needed = tensor.strip_bytes();
            if needed == 0 {
                let weights = &self.plan[self.next - tensor.weights..self.next];
                tensor.finish(weights, &mut self.parts, &mut self.halves, &mut self.memory)?;
                continue;
            }
            let planned = &self.plan[self.next - 1];
            if self.strip.is_empty() && input.len() >= needed {
                tensor.make_room(planned, needed, self.length_known, &mut self.memory)?;
                tensor.push_strip(take(&mut self.position, &mut input, needed));
            } else {
                let piece = take(&mut self.position, &mut input, needed - self.strip.len());
                self.strip.extend_from_slice(piece);
                if self.strip.len() < needed {
                    self.tensor = Some(tensor);
                    return Ok(());
                }
                tensor.make_room(planned, needed, self.length_known, &mut self.memory)?;
                tensor.push_strip(&self.strip);
                self.strip.clear();
            }
            self.tensor = Some(tensor);
        }
    }

    /// Returns all weights, if the file has not ended before the last one.
    pub(super) fn finish(self) -> Result<Parts<B::Matrix>, LoadError> {
        // A tensor in progress lacks bytes: complete ones have been moved to `parts`.
        let missing = self.next - usize::from(self.tensor.is_some());
        match self.plan.get(missing) {
            None => Ok(self.parts),
            Some(Planned { name, start, size, .. }) => Err(LoadError::Truncated {
                what: format!("data of tensor {name}"),
                offset: *start,
                needed: *size,
                remaining: self.position.saturating_sub(*start),
            }),
        }
    }
}

/// Takes up to `count` bytes from `input` and advances `position`.
fn take<'i>(position: &mut u64, input: &mut &'i [u8], count: usize) -> &'i [u8] {
    let (taken, rest) = input.split_at(count.min(input.len()));
    *position += taken.len() as u64;
    *input = rest;
    taken
}

impl<B: MatrixBuilder> Tensor<B> {
    fn new(planned: &Planned, weights: usize) -> Result<Self, LoadError> {
        let builder = match planned.shape {
            Shape::Matrix { outputs, inputs } => Builder::Matrix(matrix(planned, outputs, inputs)?),
            Shape::Vector { len, .. } => Builder::Vector { element: planned.element, len, values: Vec::new() },
            Shape::Columns { .. } | Shape::Blocks { .. } | Shape::Scales { .. } | Shape::Elements { .. } => {
                let size = usize::try_from(planned.size).map_err(|_| out_of_memory(planned))?;
                Builder::Whole { size, bytes: Vec::new() }
            }
        };
        Ok(Self { builder, weights, done: 0, room: 0 })
    }

    /// Size of the next strip in bytes; 0 after the last one.
    fn strip_bytes(&self) -> usize {
        match &self.builder {
            Builder::Matrix(builder) => builder.strip_bytes(),
            Builder::Vector { element, len, values } => element.row_bytes((len - values.len()).min(VECTOR_STRIP)),
            Builder::Whole { size, bytes } => (size - bytes.len()).min(WHOLE_STRIP),
        }
    }

    /// Allocates memory for a strip of `strip_bytes`. If the file is known to be long enough, all missing memory is
    /// allocated, otherwise as much as the bytes seen so far justify.
    fn make_room(
        &mut self,
        planned: &Planned,
        strip_bytes: usize,
        length_known: bool,
        memory: &mut B::Memory,
    ) -> Result<(), LoadError> {
        if self.room >= self.done + strip_bytes as u64 {
            return Ok(());
        }
        let missing = planned.size - self.done;
        let believed = match length_known {
            true => missing,
            false => missing.min(self.done.max(UNPROVED_BYTES)),
        };
        let strips = believed.div_ceil(strip_bytes as u64);
        let strips = usize::try_from(strips).unwrap_or(usize::MAX);
        let reserved = match &mut self.builder {
            Builder::Matrix(builder) => builder.try_reserve(strips, memory),
            Builder::Vector { len, values, .. } => {
                values.try_reserve_exact(strips.saturating_mul(VECTOR_STRIP).min(*len - values.len()))
            }
            Builder::Whole { size, bytes } => {
                bytes.try_reserve_exact(strips.saturating_mul(WHOLE_STRIP).min(*size - bytes.len()))
            }
        };
        reserved.map_err(|_| out_of_memory(planned))?;
        self.room = self.done + believed.max(strip_bytes as u64);
        Ok(())
    }

    fn push_strip(&mut self, bytes: &[u8]) {
        self.done += bytes.len() as u64;
        match &mut self.builder {
            Builder::Matrix(builder) => builder.push_strip(bytes),
            Builder::Whole { bytes: whole, .. } => whole.extend_from_slice(bytes),
            Builder::Vector { element, values, .. } => widen(*element, bytes, values),
        }
    }

    /// Moves the tensor's weights to `parts`.
    fn finish(
        self,
        weights: &[Planned],
        parts: &mut Parts<B::Matrix>,
        halves: &mut BTreeMap<usize, Vec<u8>>,
        memory: &mut B::Memory,
    ) -> Result<(), LoadError> {
        match self.builder {
            Builder::Matrix(builder) => {
                parts.matrices.insert(weights[0].number, builder.finish());
            }
            Builder::Vector { mut values, .. } => {
                if let Shape::Vector { plus, .. } = weights[0].shape {
                    values.iter_mut().for_each(|value| *value += plus);
                }
                parts.vectors.insert(weights[0].number, values);
            }
            Builder::Whole { bytes, .. } => {
                let first = weights[0].number;
                let half = match weights[0].shape {
                    Shape::Blocks { .. } | Shape::Scales { .. } => match halves.remove(&first) {
                        Some(half) => half,
                        None => {
                            halves.insert(first, bytes);
                            return Ok(());
                        }
                    },
                    _ => Vec::new(),
                };
                for planned in weights {
                    if let Shape::Elements { len, every } = planned.shape {
                        let mut values = Vec::new();
                        widen(planned.element, &bytes, &mut values);
                        parts.vectors.insert(planned.number, every.outputs(len).map(|at| values[at]).collect());
                    } else {
                        parts.matrices.insert(planned.number, cut::<B>(planned, [&bytes, &half], memory)?);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Matrix that is cut from the bytes of its tensor. `half`: bytes of the other tensor, for a matrix in MXFP4.
fn cut<B: MatrixBuilder>(
    planned: &Planned,
    [bytes, half]: [&[u8]; 2],
    memory: &mut B::Memory,
) -> Result<B::Matrix, LoadError> {
    let failed = |_| out_of_memory(planned);
    let (Shape::Columns { outputs, inputs, .. }
    | Shape::Blocks { outputs, inputs, .. }
    | Shape::Scales { outputs, inputs, .. }) = planned.shape
    else {
        unreachable!("other weights are not cut from bytes");
    };
    let mut rows = Vec::new();
    rows.try_reserve_exact(outputs * planned.element.row_bytes(inputs)).map_err(failed)?;
    match planned.shape {
        Shape::Columns { every, stored, .. } => {
            let width = planned.element.row_bytes(1);
            for output in every.outputs(outputs) {
                for row in bytes.chunks_exact(stored * width) {
                    rows.extend_from_slice(&row[output * width..][..width]);
                }
            }
        }
        Shape::Blocks { every, .. } => mxfp4::pack(bytes, half, inputs, every.outputs(outputs), &mut rows),
        Shape::Scales { every, .. } => mxfp4::pack(half, bytes, inputs, every.outputs(outputs), &mut rows),
        _ => {}
    }
    matrix::<B>(planned, outputs, inputs)?.of(&rows, memory).map_err(failed)
}

/// Builder for a matrix without any data yet.
fn matrix<B: MatrixBuilder>(planned: &Planned, outputs: usize, inputs: usize) -> Result<B, LoadError> {
    let Planned { element, name, .. } = planned;
    let unknown = || LoadError::TensorType { name: name.clone(), dtype: element.to_string() };
    B::new(*element, outputs, inputs).ok_or_else(unknown)
}

/// Error for a tensor for which there is not enough memory.
fn out_of_memory(planned: &Planned) -> LoadError {
    LoadError::OutOfMemory { what: format!("tensor {}", planned.name), needed: planned.size }
}

/// Appends the elements of a vector, widened to f32.
fn widen(element: ElementType, bytes: &[u8], values: &mut Vec<f32>) {
    match element {
        ElementType::F16 => values.extend(bytes.as_chunks().0.iter().map(|&x| f16::from_le_bytes(x).to_f32())),
        ElementType::BF16 => values.extend(bytes.as_chunks().0.iter().map(|&x| bf16::from_le_bytes(x).to_f32())),
        // The plan admits integers below 2²⁴ only, which f32 represents.
        ElementType::I32 => values.extend(bytes.as_chunks().0.iter().map(|&x| i32::from_le_bytes(x) as f32)),
        ElementType::I64 => values.extend(bytes.as_chunks().0.iter().map(|&x| i64::from_le_bytes(x) as f32)),
        // Vectors of other types are excluded by the plan.
        _ => values.extend(bytes.as_chunks().0.iter().map(|&x| f32::from_le_bytes(x))),
    }
}
