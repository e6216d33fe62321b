//! A container as a stream of bytes: what comes before the tensors, then the tensors.

use super::{
    filling::Filling,
    parts::MatrixBuilder,
    plan::{Planned, in_file_order},
};
use crate::{error::LoadError, family::description::Description};

/// The part of a container before its tensors.
pub(crate) trait Header: Sized {
    /// Takes bytes off `input`, as many as are its own.
    fn push(&mut self, input: &mut &[u8]) -> Result<Progress, LoadError>;

    /// Bytes taken so far.
    fn position(&self) -> u64;

    /// Says what a header that has ended too early lacks.
    fn truncated(&self) -> LoadError;
}

/// A header that describes a model.
pub(crate) trait Describes<D>: Header {
    /// What the header says, once it is [`Complete`](Progress::Complete): the model's description, and where its
    /// weights are.
    fn plan(self) -> Result<(D, Vec<Planned>), LoadError>;
}

/// Pushes what a file has before its tensors; it is read a little further than that.
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

/// Whether all is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Complete,
    Incomplete,
}

/// A container that is being read.
pub(crate) struct Stream<D, H, B: MatrixBuilder> {
    stage: Stage<D, H, B>,
    total_bytes: Option<u64>,
}

enum Stage<D, H, B: MatrixBuilder> {
    Header(H),
    Tensors(Box<(D, Filling<B>)>),
    /// There was an error.
    Failed,
}

impl<D: Description, H: Describes<D>, B: MatrixBuilder> Stream<D, H, B> {
    pub(crate) fn new(header: H, total_bytes: Option<u64>) -> Self {
        Self { stage: Stage::Header(header), total_bytes }
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<(), LoadError> {
        // Only what has succeeded is put back.
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
        // What is left are the divisors of the rotary frequencies.
        if let Some((_, factors)) = parts.vectors.pop_first() {
            description.stretch(factors)?;
        }
        Ok((description, weights))
    }
}
