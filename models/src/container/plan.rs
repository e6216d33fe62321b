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

/// Weight that a model requests.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Matrix {
        outputs: usize,
        inputs: usize,
    },
    /// Vector to be widened to f32, with `plus` added to each element.
    Vector {
        len: usize,
        plus: f32,
    },
}

/// Shape and storage of a weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shape {
    /// Matrix that keeps its stored type.
    Matrix { outputs: usize, inputs: usize },
    /// Matrix stored as columns of a tensor `[inputs, stored]`.
    Columns { outputs: usize, inputs: usize, every: Every, stored: usize },
    /// Matrix in MXFP4 whose rows are some of those in a tensor of half bytes, `[rows, inputs / 32, 16]`. Its scales
    /// are planned under the same number.
    Blocks { outputs: usize, inputs: usize, every: Every },
    /// Scales of the matrix in MXFP4 with the same number, `[rows, inputs / 32]`.
    Scales { outputs: usize, inputs: usize, every: Every },
    /// Vector widened to f32, with `plus` added to each element.
    Vector { len: usize, plus: f32 },
    /// Vector of some elements of a stored one, widened to f32.
    Elements { len: usize, every: Every },
}

/// Outputs of a tensor that a weight consists of: `first`, `first + step` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Every {
    pub(super) first: usize,
    pub(super) step: usize,
}

impl Every {
    /// Numbers of the first `count` outputs.
    pub(super) fn outputs(self, count: usize) -> impl Iterator<Item = usize> {
        (self.first..).step_by(self.step).take(count)
    }
}

/// Weight to be loaded.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Number in the order in which a model requests its weights.
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) element: ElementType,
    /// Offset in the file in bytes. Weights that are cut from the same bytes have the same offset.
    pub(super) start: u64,
    /// Size in bytes; for weights that are cut from more bytes, the size of these.
    pub(super) size: u64,
}

impl Planned {
    /// Size in bytes of the resulting matrix; `None` for vectors.
    pub(super) fn matrix_bytes(&self) -> Option<u64> {
        match self.shape {
            Shape::Matrix { .. } => Some(self.size),
            Shape::Columns { outputs, stored, .. } => Some(self.size / stored.max(1) as u64 * outputs as u64),
            Shape::Blocks { outputs, inputs, .. } => Some(outputs as u64 * self.element.row_bytes(inputs) as u64),
            Shape::Scales { .. } | Shape::Vector { .. } | Shape::Elements { .. } => None,
        }
    }

    /// Weight that is cut from bytes whose place is not known yet.
    fn cut(number: usize, shape: Shape, element: ElementType) -> Self {
        Self { number, name: String::new(), shape, element, start: 0, size: 0 }
    }

    /// Returns whether other weights may be cut from the same bytes.
    pub(super) fn is_cut(&self) -> bool {
        !matches!(self.shape, Shape::Matrix { .. } | Shape::Vector { .. })
    }
}

/// Type of a tensor of bytes, as safetensors name it.
const BYTES: &str = "U8";

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
        self.take(name, Wanted::Matrix { outputs, inputs })
    }

    fn vector(&mut self, name: WeightName, [len]: [usize; 1]) -> Result<Vec<f32>, LoadError> {
        let stored_less_one = self.container == Container::HuggingFace && self.spelling.norms_less_one;
        let plus = if stored_less_one && name.is_scale_of_norm() { 1.0 } else { 0.0 };
        self.take(name, Wanted::Vector { len, plus })?;
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
            self.take(name, Wanted::Vector { len, plus: 0.0 })?;
        }
        match self.tensors.into_keys().min() {
            None => Ok((description, self.plan)),
            Some(name) => Err(LoadError::UnexpectedTensor { name }),
        }
    }

    /// Name of a weight in the file. Checkpoints saved without their output head lack the first part of names, which
    /// transformers accepts too.
    fn stored_name(&self, name: &WeightName) -> String {
        self.stored(self.spelling.name_of(name, self.container))
    }

    /// Variant of [`stored_name`](Self::stored_name) for a full name.
    fn stored(&self, full: String) -> String {
        match full.split_once('.') {
            Some((_, rest)) if !self.tensors.contains_key(&full) && self.tensors.contains_key(rest) => rest.to_owned(),
            _ => full,
        }
    }

    /// Plans a weight from the tensor of its name, or from the tensor's outputs after those already taken. Checks shape
    /// and type.
    fn take(&mut self, weight: WeightName, wanted: Wanted) -> Result<(), LoadError> {
        if self.container == Container::HuggingFace && self.spelling.is_fused(&weight) {
            return self.take_fused(&weight, wanted);
        }
        let name = self.stored_name(&weight);
        let Some(entry) = self.tensors.get_mut(&name) else {
            return Err(LoadError::MissingTensor { name });
        };
        let is_stacked = self.container == Container::Gguf && weight.is_of_expert();
        let is_shared = is_stacked || self.spelling.shares(&weight, self.container);
        let is_transposed = self.container == Container::HuggingFace && self.spelling.is_transposed(&weight);
        let mut expected = match wanted {
            Wanted::Matrix { outputs, inputs } if is_transposed => vec![inputs, outputs],
            Wanted::Matrix { outputs, inputs } => vec![outputs, inputs],
            Wanted::Vector { len, .. } => vec![len],
        };
        if is_stacked
            && let [experts, outputs, inputs @ ..] = &entry.shape[..]
            && inputs.len() + 1 == expected.len()
            && *outputs == expected[0] as u64
        {
            // The experts' weights follow each other.
            entry.shape = [&[experts.saturating_mul(*outputs)], inputs].concat();
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
            Ok(element) if matches!(wanted, Wanted::Matrix { .. }) || element.block_len() == 1 => *element,
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
        let (shape, start, size) = match wanted {
            Wanted::Matrix { outputs, inputs } if is_transposed => {
                let (stored, every) = (expected[1], Every { first, step: 1 });
                (Shape::Columns { outputs, inputs, every, stored }, entry.start, bytes(inputs, stored))
            }
            Wanted::Matrix { outputs, inputs } => {
                let start = entry.start.saturating_add(bytes(first, inputs));
                (Shape::Matrix { outputs, inputs }, start, bytes(outputs, inputs))
            }
            Wanted::Vector { len, plus } => {
                (Shape::Vector { len, plus }, entry.start.saturating_add(bytes(first, 1)), bytes(len, 1))
            }
        };
        if entry.taken == expected[along] {
            self.tensors.remove(&name);
        }
        self.plan.push(Planned { number: self.plan.len(), name, shape, element, start, size });
        Ok(())
    }

    /// Variant of [`take`](Self::take) for weights of an expert in [tensors of all experts](super::mxfp4).
    fn take_fused(&mut self, weight: &WeightName, wanted: Wanted) -> Result<(), LoadError> {
        let name = self.spelling.name_of(weight, self.container);
        let [first, step] = self.spelling.place(weight, self.container);
        let every = Every { first, step };
        let blocks = self.stored(format!("{name}_blocks"));
        let number = self.plan.len();
        match wanted {
            Wanted::Matrix { outputs, inputs } if self.tensors.contains_key(&blocks) => {
                let (element, rows) = (ElementType::MXFP4, outputs * step);
                if !inputs.is_multiple_of(element.block_len()) {
                    return Err(LoadError::PartialBlock { name: blocks, columns: inputs, block: element.block_len() });
                }
                let groups = inputs / element.block_len();
                let shape = Shape::Blocks { outputs, inputs, every };
                self.take_slab(weight, blocks, &[rows, groups, 16], Planned::cut(number, shape, element))?;
                let shape = Shape::Scales { outputs, inputs, every };
                let scales = self.stored(format!("{name}_scales"));
                self.take_slab(weight, scales, &[rows, groups], Planned::cut(number, shape, element))
            }
            Wanted::Matrix { outputs, inputs } => {
                let shape = Shape::Columns { outputs, inputs, every, stored: outputs * step };
                let (name, planned) = (self.stored(name), Planned::cut(number, shape, ElementType::F32));
                self.take_slab(weight, name, &[inputs, outputs * step], planned)
            }
            Wanted::Vector { len, .. } => {
                let planned = Planned::cut(number, Shape::Elements { len, every }, ElementType::F32);
                let name = self.stored(name);
                self.take_slab(weight, name, &[len * step], planned)
            }
        }
    }

    /// Plans a weight from its expert's part of a tensor, which has the shape `of_each`. The plan lacks name, place and
    /// element type of floats.
    fn take_slab(
        &mut self,
        weight: &WeightName,
        name: String,
        of_each: &[usize],
        mut planned: Planned,
    ) -> Result<(), LoadError> {
        let Some(entry) = self.tensors.get_mut(&name) else {
            return Err(LoadError::MissingTensor { name });
        };
        let experts = match &entry.shape[..] {
            [experts, found @ ..] if found.iter().copied().eq(of_each.iter().map(|&n| n as u64)) => *experts,
            found => {
                let experts = found.first().map_or(0, |&experts| usize::try_from(experts).unwrap_or(usize::MAX));
                let expected = [&[experts], of_each].concat();
                return Err(LoadError::TensorShape { name, expected, found: found.to_vec() });
            }
        };
        let is_packed = planned.element == ElementType::MXFP4;
        let bytes = match &entry.element {
            Ok(element) if !is_packed && element.block_len() == 1 && !element.is_integer() => {
                planned.element = *element;
                element.block_bytes()
            }
            Err(dtype) if is_packed && dtype == BYTES => 1,
            Ok(element) => return Err(LoadError::TensorType { name, dtype: element.to_string() }),
            Err(dtype) => return Err(LoadError::TensorType { name, dtype: dtype.clone() }),
        };
        planned.size = of_each.iter().fold(bytes as u64, |size, &n| size.saturating_mul(n as u64));
        planned.start = entry.start.saturating_add(planned.size.saturating_mul(weight.expert() as u64));
        entry.taken += 1;
        let [_, weights] = self.spelling.place(weight, self.container);
        if entry.taken as u64 == experts.saturating_mul(weights as u64) {
            self.tensors.remove(&name);
        }
        planned.name = name;
        self.plan.push(planned);
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
        if before.replace((name, start)) == Some((name, start)) && tensor.is_cut() {
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
