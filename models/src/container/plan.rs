//! From what a container holds and what an architecture wants to a plan: which bytes become which weight.

use std::collections::HashMap;

use super::element::ElementType;
use crate::{
    error::LoadError,
    family::{
        config::LARGEST_DIMENSION,
        description::Description,
        spelling::Spelling,
        weights::{Container, WeightName, WeightSource},
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
    /// Outputs that have become weights, of a tensor that several are stored in.
    pub(super) taken: usize,
}

/// What a weight looks like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shape {
    /// Stays in the type it is stored in.
    Matrix { outputs: usize, inputs: usize },
    /// The same, stored as `[inputs, stored]`, of whose columns it has some, from `first` on.
    Columns { outputs: usize, inputs: usize, first: usize, stored: usize },
    /// Widened to f32, with `plus` added to each.
    Vector { len: usize, plus: f32 },
}

/// A weight to be loaded.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Its number in the order in which a model asks for its weights.
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) element: ElementType,
    /// In bytes from the beginning of the file. Weights that are columns of one tensor begin alike.
    pub(super) start: u64,
    /// Number of bytes; of columns, those of the whole tensor.
    pub(super) size: u64,
}

impl Planned {
    /// Bytes of the matrix that it becomes, if it does.
    pub(super) fn matrix_bytes(&self) -> Option<u64> {
        match self.shape {
            Shape::Matrix { .. } => Some(self.size),
            Shape::Columns { outputs, stored, .. } => Some(self.size / stored.max(1) as u64 * outputs as u64),
            Shape::Vector { .. } => None,
        }
    }
}

/// The tensors of a file, and those that a model has asked for.
pub(super) struct Directory {
    tensors: HashMap<String, Entry>,
    spelling: Spelling,
    container: Container,
    plan: Vec<Planned>,
}

impl WeightSource for Directory {
    type Matrix = ();
    type Error = LoadError;

    fn matrix(&mut self, name: WeightName, [outputs, inputs]: [usize; 2]) -> Result<(), LoadError> {
        self.take(name, Shape::Matrix { outputs, inputs })
    }

    fn vector(&mut self, name: WeightName, [len]: [usize; 1]) -> Result<Vec<f32>, LoadError> {
        let stored_less_one = self.container == Container::HuggingFace && self.spelling.norms_less_one;
        let plus = if stored_less_one && name.is_scale_of_norm() { 1.0 } else { 0.0 };
        self.take(name, Shape::Vector { len, plus })?;
        // Nothing of it has come.
        Ok(Vec::new())
    }
}

impl Directory {
    pub(super) fn new(mut tensors: HashMap<String, Entry>, spelling: Spelling, container: Container) -> Self {
        let unused = |name: &str| spelling.unused.iter().any(|ending| name.ends_with(ending));
        tensors.retain(|name, _| !unused(name));
        let stored = spelling.aliases.iter().filter_map(|alias| tensors.remove(*alias));
        // All are taken out, the first in their order is kept.
        if let Some(entry) = stored.reduce(|first, _| first) {
            tensors.insert(spelling.aliases[0].to_owned(), entry);
        }
        Self { tensors, spelling, container, plan: Vec::new() }
    }

    /// What a model of this description asks for, with what the tensors themselves say of it; behind that its rotary
    /// factors if they are stored. No tensor may be left over.
    pub(super) fn plan<D: Description>(mut self, mut description: D) -> Result<(D, Vec<Planned>), LoadError> {
        let stored =
            |weight: &WeightName| Some(self.stored_name(weight)).filter(|name| self.tensors.contains_key(name));
        let setting = description.settle(self.container, &stored)?;
        description.gather(&mut self)?;
        if let Some((name, len)) = setting {
            self.take(name, Shape::Vector { len, plus: 0.0 })?;
        }
        match self.tensors.into_keys().min() {
            None => Ok((description, self.plan)),
            Some(name) => Err(LoadError::UnexpectedTensor { name }),
        }
    }

    /// What the file calls a weight. Checkpoints that were saved without their output head have names without the
    /// first part, as transformers understands too.
    fn stored_name(&self, name: &WeightName) -> String {
        let full = self.spelling.name_of(name, self.container);
        match full.split_once('.') {
            Some((_, rest)) if !self.tensors.contains_key(&full) && self.tensors.contains_key(rest) => rest.to_owned(),
            _ => full,
        }
    }

    /// Plans the tensor of this name, or those of its outputs that follow the ones taken before, if it is there and
    /// can be the weight that is wanted.
    fn take(&mut self, weight: WeightName, shape: Shape) -> Result<(), LoadError> {
        let name = self.stored_name(&weight);
        let Some(entry) = self.tensors.get_mut(&name) else {
            return Err(LoadError::MissingTensor { name });
        };
        let is_shared = self.spelling.shares(&weight, self.container);
        let is_transposed = self.container == Container::HuggingFace && self.spelling.is_transposed(&weight);
        let mut expected = match shape {
            Shape::Matrix { outputs, inputs } if is_transposed => vec![inputs, outputs],
            Shape::Matrix { outputs, inputs } | Shape::Columns { outputs, inputs, .. } => vec![outputs, inputs],
            Shape::Vector { len, .. } => vec![len],
        };
        let along = usize::from(is_transposed && expected.len() == 2);
        let outputs = expected[along];
        let stored = entry.shape.get(along).copied().unwrap_or(0);
        if is_shared && stored >= (entry.taken + outputs) as u64 && stored <= LARGEST_DIMENSION as u64 {
            expected[along] = stored as usize;
        }
        if !entry.shape.iter().copied().eq(expected.iter().map(|&n| n as u64)) {
            return Err(LoadError::TensorShape { name, expected, found: entry.shape.clone() });
        }
        let element = match &entry.element {
            Ok(element) if matches!(shape, Shape::Matrix { .. }) || element.block_len() == 1 => *element,
            Ok(element) => return Err(LoadError::TensorType { name, dtype: element.to_string() }),
            Err(dtype) => return Err(LoadError::TensorType { name, dtype: dtype.clone() }),
        };
        let columns = expected.last().copied().unwrap_or(0);
        if !columns.is_multiple_of(element.block_len()) {
            return Err(LoadError::PartialBlock { name, columns, block: element.block_len() });
        }
        let first = entry.taken;
        entry.taken += outputs;
        // Dimensions are at most 2²⁴, so a matrix has at most 2⁵⁰ bytes.
        let bytes = |outputs: usize, inputs: usize| outputs as u64 * element.row_bytes(inputs) as u64;
        let (shape, start, size) = match shape {
            Shape::Matrix { outputs, inputs } if is_transposed => {
                let stored = expected[1];
                let shape = Shape::Columns { outputs, inputs, first, stored };
                (shape, entry.start, bytes(inputs, stored))
            }
            Shape::Matrix { outputs, inputs } | Shape::Columns { outputs, inputs, .. } => {
                (shape, entry.start.saturating_add(bytes(first, inputs)), bytes(outputs, inputs))
            }
            Shape::Vector { len, .. } => (shape, entry.start.saturating_add(bytes(first, 1)), bytes(len, 1)),
        };
        if entry.taken == expected[along] {
            self.tensors.remove(&name);
        }
        self.plan.push(Planned { number: self.plan.len(), name, shape, element, start, size });
        Ok(())
    }
}

/// Puts a plan in the order of the file, in which it is going to be read.
///
/// Refuses tensors that overlap, and those that end behind `total_bytes`, the file's length if it is known.
pub(super) fn in_file_order(mut plan: Vec<Planned>, total_bytes: Option<u64>) -> Result<Vec<Planned>, LoadError> {
    plan.sort_by_key(|tensor| tensor.start);
    let (mut end, mut before) = (0, None);
    for tensor in &plan {
        let Planned { name, start, size, .. } = tensor;
        if before.replace(name) == Some(name) && matches!(tensor.shape, Shape::Columns { .. }) {
            continue;
        }
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
