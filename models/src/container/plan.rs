//! From what a container holds and what an architecture wants to a plan: which bytes become which weight.

use std::collections::HashMap;

use super::element::ElementType;
use crate::{
    error::LoadError,
    family::{
        config::ModelConfig,
        weights::{ModelWeights, WeightName, WeightSource},
    },
};

/// A tensor of a container, as its directory has it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Outermost dimension first.
    pub(super) shape: Vec<u64>,
    /// The element type; what the file calls it, if it is none of ours.
    pub(super) element: Result<ElementType, String>,
    /// Where the data begins, in bytes from the beginning of the file.
    pub(super) start: u64,
}

/// What a weight looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Stays in the type it is stored in.
    Matrix { outputs: usize, inputs: usize },
    /// Widened to f32.
    Vector { len: usize },
}

/// A weight to be loaded.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Its number in the order in which a model asks for its weights.
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) element: ElementType,
    /// In bytes from the beginning of the file.
    pub(super) start: u64,
    /// Number of bytes.
    pub(super) size: u64,
}

/// The tensors of a file, and those that a model has asked for.
pub(super) struct Directory {
    tensors: HashMap<String, Entry>,
    /// The container's names.
    name: fn(&WeightName) -> String,
    plan: Vec<Planned>,
}

impl WeightSource for Directory {
    type Matrix = ();
    type Error = LoadError;

    fn matrix(&mut self, name: WeightName, [outputs, inputs]: [usize; 2]) -> Result<(), LoadError> {
        self.take(name, Shape::Matrix { outputs, inputs })
    }

    fn vector(&mut self, name: WeightName, [len]: [usize; 1]) -> Result<Vec<f32>, LoadError> {
        self.take(name, Shape::Vector { len })?;
        // Nothing of it has come.
        Ok(Vec::new())
    }
}

impl Directory {
    pub(super) fn new(tensors: HashMap<String, Entry>, name: fn(&WeightName) -> String) -> Self {
        Self { tensors, name, plan: Vec::new() }
    }

    /// What a model of this shape asks for, and behind that its rotary factors if they are stored. No tensor may be
    /// left over.
    pub(super) fn plan(
        mut self,
        config: &ModelConfig,
        rope_factors: Option<WeightName>,
    ) -> Result<Vec<Planned>, LoadError> {
        ModelWeights::gather(config, &mut self)?;
        if let Some(factors) = rope_factors {
            self.take(factors, Shape::Vector { len: config.head_dim / 2 })?;
        }
        match self.tensors.into_keys().min() {
            None => Ok(self.plan),
            Some(name) => Err(LoadError::UnexpectedTensor { name }),
        }
    }

    /// Plans the tensor of this name, if it is there and can be the weight that is wanted.
    fn take(&mut self, name: WeightName, shape: Shape) -> Result<(), LoadError> {
        let name = (self.name)(&name);
        let Some(entry) = self.tensors.remove(&name) else {
            return Err(LoadError::MissingTensor { name });
        };
        let expected = match shape {
            Shape::Matrix { outputs, inputs } => vec![outputs, inputs],
            Shape::Vector { len } => vec![len],
        };
        if !entry.shape.iter().copied().eq(expected.iter().map(|&n| n as u64)) {
            return Err(LoadError::TensorShape { name, expected, found: entry.shape });
        }
        let element = match entry.element {
            Ok(element) if matches!(shape, Shape::Matrix { .. }) || element.block_len() == 1 => element,
            Ok(element) => return Err(LoadError::TensorType { name, dtype: element.to_string() }),
            Err(dtype) => return Err(LoadError::TensorType { name, dtype }),
        };
        let columns = expected.last().copied().unwrap_or(0);
        if !columns.is_multiple_of(element.block_len()) {
            return Err(LoadError::PartialBlock { name, columns, block: element.block_len() });
        }
        // Dimensions are at most 2²⁴, so a matrix has at most 2⁵⁰ bytes.
        let rows = expected.iter().rev().skip(1).map(|&n| n as u64).product::<u64>();
        let size = rows * element.row_bytes(columns) as u64;
        self.plan.push(Planned { number: self.plan.len(), name, shape, element, start: entry.start, size });
        Ok(())
    }
}

/// Puts a plan in the order of the file, in which it is going to be read.
///
/// Refuses tensors that overlap, and those that end behind `total_bytes`, the file's length if it is known.
pub(super) fn in_file_order(mut plan: Vec<Planned>, total_bytes: Option<u64>) -> Result<Vec<Planned>, LoadError> {
    plan.sort_by_key(|tensor| tensor.start);
    let mut end = 0;
    for tensor in &plan {
        let Planned { name, start, size, .. } = tensor;
        if *start < end {
            return Err(LoadError::Overlap { name: name.clone(), offset: *start, end });
        }
        // An offset may be any number.
        end = start.saturating_add(*size);
        if let Some(total) = total_bytes.filter(|&total| end > total) {
            let (what, remaining) = (format!("data of tensor {name}"), total.saturating_sub(*start));
            return Err(LoadError::Truncated { what, offset: *start, needed: *size, remaining });
        }
    }
    Ok(plan)
}
