//! What containers are read by: whoever describes a model says what its settings mean and which weights it has.

use super::{
    beside::Beside,
    config::ModelConfig,
    gguf_settings::Metadata,
    rotary::RopeScaling,
    spelling::Spelling,
    weights::{Container, ModelWeights, WeightName, WeightSource},
};
use crate::error::LoadError;

/// Gives the shape of a file's tensor by its name, outermost dimension first.
pub(crate) type ShapeOf<'s, 'f> = &'s dyn Fn(&str) -> Option<&'f [u64]>;

/// The description of a model, which its files give.
pub(crate) trait Description: Clone {
    /// All weights of such a model, with `M` for each of its matrices.
    type Weights<M>;

    /// Reads a `config.json`.
    fn of_config_json(json: &[u8]) -> Result<(Spelling, Self), LoadError>;

    /// Reads the settings of a GGUF file.
    fn of_gguf(settings: &Metadata, shape_of: ShapeOf<'_, '_>) -> Result<(Spelling, Self), LoadError>;

    /// Takes what only the presence of tensors tells; `stored` gives the name of a weight that is there. A setting that
    /// is stored as a vector is asked for by its name and length, and comes to [`stretch`](Self::stretch).
    fn settle(
        &mut self,
        _container: Container,
        _stored: &dyn Fn(&WeightName) -> Option<String>,
    ) -> Result<Option<(WeightName, usize)>, LoadError> {
        Ok(None)
    }

    /// Asks for all weights.
    fn gather<S: WeightSource>(&self, source: &mut S) -> Result<Self::Weights<S::Matrix>, S::Error>;

    /// Takes the vector that [`settle`](Self::settle) has asked for.
    fn stretch(&mut self, _factors: Vec<f32>) -> Result<(), LoadError> {
        Ok(())
    }

    /// Takes what the other files of a checkpoint say.
    fn amend(&mut self, file: Beside<'_>) -> Result<(), LoadError>;
}

impl Description for ModelConfig {
    type Weights<M> = ModelWeights<M>;

    fn of_config_json(json: &[u8]) -> Result<(Spelling, Self), LoadError> {
        Self::from_hugging_face(json)
    }

    fn of_gguf(settings: &Metadata, shape_of: ShapeOf<'_, '_>) -> Result<(Spelling, Self), LoadError> {
        Self::from_gguf(settings, shape_of)
    }

    fn settle(
        &mut self,
        container: Container,
        stored: &dyn Fn(&WeightName) -> Option<String>,
    ) -> Result<Option<(WeightName, usize)>, LoadError> {
        if container == Container::HuggingFace {
            // A head that is stored is used, as the reference implementation does: it need not be the table.
            self.tied_embeddings &= stored(&WeightName::HEAD).is_none();
            return Ok(None);
        }
        let factors = WeightName::ROPE_FACTORS;
        let head_dim = self.head_dim;
        let (Some(rotary), Some(name)) = (self.rotary_mut(), stored(&factors)) else { return Ok(None) };
        if rotary.scaling != RopeScaling::None {
            let found = format!("{name} beside rope.scaling");
            return Err(LoadError::Unsupported { what: "two rope scalings", found });
        }
        Ok(Some((factors, rotary.dimensions.unwrap_or(head_dim) / 2)))
    }

    fn gather<S: WeightSource>(&self, source: &mut S) -> Result<ModelWeights<S::Matrix>, S::Error> {
        ModelWeights::gather(self, source)
    }

    fn stretch(&mut self, factors: Vec<f32>) -> Result<(), LoadError> {
        Self::stretch(self, factors)
    }

    fn amend(&mut self, file: Beside<'_>) -> Result<(), LoadError> {
        Self::amend(self, file)
    }
}
