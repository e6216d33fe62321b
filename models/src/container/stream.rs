//! Container as a stream of bytes: its header, then the tensors.

use super::{
    filling::Filling,
    parts::MatrixBuilder,
    plan::{Planned, in_file_order},
};
use crate::{error::LoadError, family::description::Description};

/// Part of a container before its tensors.
pub(crate) trait Header: Sized {
    /// Consumes bytes of `input` that belong to the header.
    fn push(&mut self, input: &mut &[u8]) -> Result<Progress, LoadError>;

    /// Number of bytes consumed so far.
    fn position(&self) -> u64;

    /// Error for a header that ends too early.
    fn truncated(&self) -> LoadError;
}

/// Header that describes a model.
pub(crate) trait Describes<D>: Header {
    /// Description of the model and positions of its weights, once the header is [`Complete`](Progress::Complete).
    fn plan(self) -> Result<(D, Vec<Planned>), LoadError>;
}

/// Reads a header from a file; reads up to one buffer too far.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn read_header(header: &mut impl Header, file: &mut impl std::io::Read) -> Result<(), LoadError> {
    let mut piece = [0; 4096];
    loop {
        let count = file.read(&mut piece)?;
        match header.push(&mut &piece[..count])? {
            Progress::Complete => return Ok(()),
            Progress::Incomplete if count == 0 => return Err(header.truncated()),
            Progress::Incomplete => {}
        }
    }
}

/// Completeness of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Complete,
    Incomplete,
}

/// Container that is being read.
pub(crate) struct Stream<D, H, B: MatrixBuilder> {
    stage: Stage<D, H, B>,
    total_bytes: Option<u64>,
}

enum Stage<D, H, B: MatrixBuilder> {
    Header(H),
    Tensors(Box<(D, Filling<B>)>),
    /// An error has occurred.
    Failed,
}

impl<D: Description, H: Describes<D>, B: MatrixBuilder> Stream<D, H, B> {
    pub(crate) fn new(header: H, total_bytes: Option<u64>) -> Self {
        Self { stage: Stage::Header(header), total_bytes }
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<(), LoadError> {
        // The state is only restored on success.
        self.stage = match std::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Header(mut header) => match header.push(&mut bytes)? {
                Progress::Incomplete => Stage::Header(header),
                Progress::Complete => {
                    let position = header.position();
                    let (description, plan) = header.plan()?;
                    let plan = in_file_order(plan, self.total_bytes)?;
                    let mut filling = Filling::new(plan, position, self.total_bytes.is_some());
                    filling.push(bytes)?;
                    Stage::Tensors(Box::new((description, filling)))
                }
            },
            Stage::Tensors(mut model) => {
                model.1.push(bytes)?;
                Stage::Tensors(model)
            }
            Stage::Failed => return Err(LoadError::AfterFailure),
        };
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<(D, D::Weights<B::Matrix>), LoadError> {
        let (mut description, mut parts) = match self.stage {
            Stage::Header(header) => return Err(header.truncated()),
            Stage::Tensors(model) => (model.0, model.1.finish()?),
            Stage::Failed => return Err(LoadError::AfterFailure),
        };
        let weights = description.gather(&mut parts)?;
        // The remaining vectors are settings.
        description.take_stored(parts.vectors.into_values().collect())?;
        Ok((description, weights))
    }
}
