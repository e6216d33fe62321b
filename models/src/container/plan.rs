//! Assignment of a container's bytes to the weights that a model requests.

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

/// Tensor in a container's directory.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Shape, outermost dimension first.
    pub(super) shape: Vec<u64>,
    /// Element type, or the file's name for an unsupported one.
    pub(super) element: Result<ElementType, String>,
    /// Offset of the data in the file, in bytes.
    pub(super) start: u64,
    /// Number of outputs already taken, for tensors that hold several weights.
    pub(super) taken: usize,
}

/// Shape and storage of a weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shape {
    /// Matrix that keeps its stored type.
    Matrix { outputs: usize, inputs: usize },
    /// Matrix stored as columns `first..first + outputs` of a tensor `[inputs, stored]`.
    Columns { outputs: usize, inputs: usize, first: usize, stored: usize },
    /// Vector widened to f32, with `plus` added to each element.
    Vector { len: usize, plus: f32 },
}

/// Weight to be loaded.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Number in the order in which a model requests its weights.
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) element: ElementType,
    /// Offset in the file in bytes. Weights that are columns of one tensor have the same offset.
    pub(super) start: u64,
    /// Size in bytes; for columns that of the whole tensor.
    pub(super) size: u64,
}

impl Planned {
    /// Size in bytes of the resulting matrix; `None` for vectors.
    pub(super) fn matrix_bytes(&self) -> Option<u64> {
        match self.shape {
            Shape::Matrix { .. } => Some(self.size),
            Shape::Columns { outputs, stored, .. } => Some(self.size / stored.max(1) as u64 * outputs as u64),
            Shape::Vector { .. } => None,
        }
    }
}

/// Tensors of a file, and the plan of those requested.
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
        // Placeholder, because no data have been read.
        Ok(Vec::new())
    }
}

impl Directory {
    pub(super) fn new(mut tensors: HashMap<String, Entry>, spelling: Spelling, container: Container) -> Self {
        let unused = |name: &str| spelling.unused.iter().any(|ending| name.ends_with(ending));
        tensors.retain(|name, _| !unused(name));
        if spelling.is_tower {
            tensors = tensors.into_iter().filter_map(|(name, entry)| Some((name_in_tower(&name)?, entry))).collect();
        }
        let stored = spelling.aliases.iter().filter_map(|alias| tensors.remove(*alias));
        // All aliases are removed, and the first one found is kept.
        if let Some(entry) = stored.reduce(|first, _| first) {
            tensors.insert(spelling.aliases[0].to_owned(), entry);
        }
        Self { tensors, spelling, container, plan: Vec::new() }
    }

    /// Plans the weights that a model requests, after applying settings implied by the tensors. Settings stored as
    /// vectors come last. Fails if a tensor is left over.
    pub(super) fn plan<D: Description>(mut self, mut description: D) -> Result<(D, Vec<Planned>), LoadError> {
        let stored =
            |weight: &WeightName| Some(self.stored_name(weight)).filter(|name| self.tensors.contains_key(name));
        let settings = description.settle(self.container, &stored)?;
        description.gather(&mut self)?;
        for (name, len) in settings {
            self.take(name, Shape::Vector { len, plus: 0.0 })?;
        }
        match self.tensors.into_keys().min() {
            None => Ok((description, self.plan)),
            Some(name) => Err(LoadError::UnexpectedTensor { name }),
        }
    }

    /// Name of a weight in the file. Checkpoints saved without their output head lack the first part of names, which
    /// transformers accepts too.
    fn stored_name(&self, name: &WeightName) -> String {
        let full = self.spelling.name_of(name, self.container);
        match full.split_once('.') {
            Some((_, rest)) if !self.tensors.contains_key(&full) && self.tensors.contains_key(rest) => rest.to_owned(),
            _ => full,
        }
    }

    /// Plans a weight from the tensor of its name, or from the tensor's outputs after those already taken. Checks shape
    /// and type.
    fn take(&mut self, weight: WeightName, shape: Shape) -> Result<(), LoadError> {
        let name = self.stored_name(&weight);
        let Some(entry) = self.tensors.get_mut(&name) else {
            return Err(LoadError::MissingTensor { name });
        };
        let is_stacked = self.container == Container::Gguf && weight.is_of_expert();
        let is_shared = is_stacked || self.spelling.shares(&weight, self.container);
        let is_transposed = self.container == Container::HuggingFace && self.spelling.is_transposed(&weight);
        let mut expected = match shape {
            Shape::Matrix { outputs, inputs } if is_transposed => vec![inputs, outputs],
            Shape::Matrix { outputs, inputs } | Shape::Columns { outputs, inputs, .. } => vec![outputs, inputs],
            Shape::Vector { len, .. } => vec![len],
        };
        if is_stacked
            && let [experts, outputs, inputs] = entry.shape[..]
            && Some(outputs) == expected.first().map(|&outputs| outputs as u64)
        {
            // The experts' matrices follow each other.
            entry.shape = vec![experts.saturating_mul(outputs), inputs];
        }
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
            // Integers are for tables of them alone.
            Ok(element) if element.is_integer() != weight.fills("d2t") => {
                return Err(LoadError::TensorType { name, dtype: element.to_string() });
            }
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

/// Name that a tensor of a model with a language model inside has in that language model; `None` for tensors of its
/// other parts. Checkpoints have either of two orders of prefixes.
fn name_in_tower(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix("language_model.") {
        return Some(rest.to_owned());
    }
    match name.strip_prefix("model.language_model.") {
        Some(rest) => Some(format!("model.{rest}")),
        None => name.starts_with("lm_head.").then(|| name.to_owned()),
    }
}

/// Sorts a plan into file order, the order of reading.
///
/// Rejects overlapping tensors, and tensors that end after `total_bytes`, the file's length if known.
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
        // An untrusted offset may be any number.
        end = start.saturating_add(*size);
        if let Some(total) = total_bytes.filter(|&total| end > total) {
            let (what, remaining) = (format!("data of tensor {name}"), total.saturating_sub(*start));
            return Err(LoadError::Truncated { what, offset: *start, needed: *size, remaining });
        }
    }
    Ok(plan)
}
