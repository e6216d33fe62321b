//! Bytes of a stream to where they stay.
//!
//! Whatever the pieces are that the stream comes in, a tensor is handed on in strips: straight from the piece where
//! it holds a whole strip, else through a buffer of one. Beyond the weights themselves there is never more than that.

use std::collections::BTreeMap;

use half::{bf16, f16};

use super::{
    element::ElementType,
    parts::{MatrixBuilder, Parts},
    plan::{Planned, Shape},
};
use crate::error::LoadError;

/// Memory that a tensor gets ahead of its bytes if the length of the file is not known, unless it has already
/// proved to be longer: a file that lies costs no more than this, one that does not is rarely moved.
const UNPROVED_BYTES: u64 = 64 << 20;
/// Elements of a vector that are widened together.
const VECTOR_STRIP: usize = 4096;

/// Weights that are being loaded.
pub(super) struct Filling<B: MatrixBuilder> {
    /// In the order of the file; those before `next` are done or under way.
    plan: Vec<Planned>,
    next: usize,
    /// The tensor of `plan[next - 1]`, while its bytes come.
    tensor: Option<Tensor<B>>,
    /// The beginning of a strip that was cut.
    strip: Vec<u8>,
    /// Bytes of the file that have come.
    position: u64,
    /// Whether the file is known to be long enough for the plan.
    length_known: bool,
    parts: Parts<B::Matrix>,
}

/// A tensor whose bytes come.
struct Tensor<B> {
    builder: Builder<B>,
    /// Bytes that have been handed on.
    done: u64,
    /// Bytes that there is memory for, `done` included.
    room: u64,
}

enum Builder<B> {
    Matrix(B),
    Vector { element: ElementType, len: usize, values: Vec<f32> },
}

impl<B: MatrixBuilder> Filling<B> {
    /// `plan` is in the order of the file, of which `position` bytes have gone. If `length_known`, the file is known
    /// to have all the bytes that the plan wants.
    pub(super) fn new(plan: Vec<Planned>, position: u64, length_known: bool) -> Self {
        let parts = Parts { matrices: BTreeMap::new(), vectors: BTreeMap::new() };
        Self { plan, next: 0, tensor: None, strip: Vec::new(), position, length_known, parts }
    }

    /// Takes the next bytes of the file.
    pub(super) fn push(&mut self, mut input: &[u8]) -> Result<(), LoadError> {
        loop {
            let Some(mut tensor) = self.tensor.take() else {
                let Some(planned) = self.plan.get(self.next) else {
                    // What follows the last tensor is padding.
                    self.position += input.len() as u64;
                    return Ok(());
                };
                // No tensor begins before the position: they do not overlap.
                let gap = planned.start - self.position;
                take(&mut self.position, &mut input, usize::try_from(gap).unwrap_or(usize::MAX));
                if input.is_empty() {
                    return Ok(());
                }
                self.tensor = Some(Tensor::new(&self.plan[self.next])?);
                self.next += 1;
                continue;
            };
            let planned = &self.plan[self.next - 1];
            let needed = tensor.strip_bytes();
            if needed == 0 {
                tensor.finish(planned.number, &mut self.parts);
                continue;
            }
            if self.strip.is_empty() && input.len() >= needed {
                tensor.make_room(planned, needed, self.length_known)?;
                tensor.push_strip(take(&mut self.position, &mut input, needed));
            } else {
                let piece = take(&mut self.position, &mut input, needed - self.strip.len());
                self.strip.extend_from_slice(piece);
                if self.strip.len() < needed {
                    self.tensor = Some(tensor);
                    return Ok(());
                }
                tensor.make_room(planned, needed, self.length_known)?;
                tensor.push_strip(&self.strip);
                self.strip.clear();
            }
            self.tensor = Some(tensor);
        }
    }

    /// All weights, if the file has ended behind the last of them.
    pub(super) fn finish(self) -> Result<Parts<B::Matrix>, LoadError> {
        // A tensor that is still under way lacks bytes: whatever is complete has been put aside.
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

/// Takes up to `count` bytes off `input`, which is at `position`.
fn take<'i>(position: &mut u64, input: &mut &'i [u8], count: usize) -> &'i [u8] {
    let (taken, rest) = input.split_at(count.min(input.len()));
    *position += taken.len() as u64;
    *input = rest;
    taken
}

impl<B: MatrixBuilder> Tensor<B> {
    fn new(planned: &Planned) -> Result<Self, LoadError> {
        let element = planned.element;
        let builder =
            match planned.shape {
                Shape::Matrix { outputs, inputs } => {
                    let builder = B::new(element, outputs, inputs);
                    Builder::Matrix(builder.ok_or_else(|| LoadError::TensorType {
                        name: planned.name.clone(),
                        dtype: element.to_string(),
                    })?)
                }
                Shape::Vector { len } => Builder::Vector { element, len, values: Vec::new() },
            };
        Ok(Self { builder, done: 0, room: 0 })
    }

    /// Bytes of the next strip; 0 if there is none.
    fn strip_bytes(&self) -> usize {
        match &self.builder {
            Builder::Matrix(builder) => builder.strip_bytes(),
            Builder::Vector { element, len, values } => element.row_bytes((len - values.len()).min(VECTOR_STRIP)),
        }
    }

    /// Makes sure that there is memory for a strip of `strip_bytes`, which have come: for all that is missing if the
    /// file is known to hold it, else for as much as has proved to be there.
    fn make_room(&mut self, planned: &Planned, strip_bytes: usize, length_known: bool) -> Result<(), LoadError> {
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
            Builder::Matrix(builder) => builder.try_reserve(strips),
            Builder::Vector { len, values, .. } => {
                values.try_reserve_exact(strips.saturating_mul(VECTOR_STRIP).min(*len - values.len()))
            }
        };
        reserved
            .map_err(|_| LoadError::OutOfMemory { what: format!("tensor {}", planned.name), needed: planned.size })?;
        self.room = self.done + believed.max(strip_bytes as u64);
        Ok(())
    }

    fn push_strip(&mut self, bytes: &[u8]) {
        self.done += bytes.len() as u64;
        match &mut self.builder {
            Builder::Matrix(builder) => builder.push_strip(bytes),
            Builder::Vector { element, values, .. } => match element {
                ElementType::F16 => {
                    values.extend(bytes.as_chunks().0.iter().map(|&x| f16::from_le_bytes(x).to_f32()));
                }
                ElementType::BF16 => {
                    values.extend(bytes.as_chunks().0.iter().map(|&x| bf16::from_le_bytes(x).to_f32()));
                }
                // The plan has no vectors of other types.
                _ => values.extend(bytes.as_chunks().0.iter().map(|&x| f32::from_le_bytes(x))),
            },
        }
    }

    fn finish(self, number: usize, parts: &mut Parts<B::Matrix>) {
        match self.builder {
            Builder::Matrix(builder) => {
                parts.matrices.insert(number, builder.finish());
            }
            Builder::Vector { values, .. } => {
                parts.vectors.insert(number, values);
            }
        }
    }
}
