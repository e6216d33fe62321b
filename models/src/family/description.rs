//! Interface between containers and model descriptions: the meaning of settings, and the list of weights.

use super::{
    beside::Beside,
    config::ModelConfig,
    gguf_settings::Metadata,
    rotary::RopeScaling,
    spelling::Spelling,
    weights::{Container, ModelWeights, WeightName, WeightSource},
};
use crate::error::LoadError;

/// Returns the shape of a tensor in the file by name, outermost dimension first.
pub(crate) type ShapeOf<'s, 'f> = &'s dyn Fn(&str) -> Option<&'f [u64]>;

/// Description of a model, read from its files.
pub(crate) trait Description: Clone {
    /// All weights of such a model, with type `M` for matrices.
    type Weights<M>;

    /// Parses a `config.json`.
    fn of_config_json(json: &[u8]) -> Result<(Spelling, Self), LoadError>;

    /// Parses the settings of a GGUF file.
    fn of_gguf(settings: &Metadata, shape_of: ShapeOf<'_, '_>) -> Result<(Spelling, Self), LoadError>;

    /// Applies settings that follow from the presence of tensors; `stored` returns the name of a weight in the file.
    /// Returns name and length of each setting that is stored as a vector; the vectors are passed to
    /// [`take_stored`](Self::take_stored).
    fn settle(
        &mut self,
        _container: Container,
        _stored: &dyn Fn(&WeightName) -> Option<String>,
    ) -> Result<Vec<(WeightName, usize)>, LoadError> {
        Ok(Vec::new())
    }

    /// Requests all weights from a source.
    fn gather<S: WeightSource>(&self, source: &mut S) -> Result<Self::Weights<S::Matrix>, S::Error>;

    /// Applies the vectors that [`settle`](Self::settle) has requested, in its order.
    fn take_stored(&mut self, _vectors: Vec<Vec<f32>>) -> Result<(), LoadError> {
        Ok(())
    }

    /// Applies the other files of a checkpoint.
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
    ) -> Result<Vec<(WeightName, usize)>, LoadError> {
        let mut vectors = Vec::new();
        vectors.extend(self.draft_vocabulary.iter().map(|vocabulary| (WeightName::D2T, vocabulary.rows)));
        if container == Container::HuggingFace {
            // A stored head takes precedence over the embedding table, as in the reference implementation.
            self.tied_embeddings &= stored(&WeightName::HEAD).is_none();
            return Ok(vectors);
        }
        let factors = WeightName::ROPE_FACTORS;
        let head_dim = self.head_dim;
        let (Some(rotary), Some(name)) = (self.rotary_mut(), stored(&factors)) else { return Ok(vectors) };
        if rotary.scaling != RopeScaling::None {
            let found = format!("{name} beside rope.scaling");
            return Err(LoadError::Unsupported { what: "two rope scalings", found });
        }
        vectors.push((factors, rotary.dimensions.unwrap_or(head_dim) / 2));
        Ok(vectors)
    }

    fn gather<S: WeightSource>(&self, source: &mut S) -> Result<ModelWeights<S::Matrix>, S::Error> {
        ModelWeights::gather(self, source)
    }

    fn take_stored(&mut self, vectors: Vec<Vec<f32>>) -> Result<(), LoadError> {
        let mut vectors = vectors.into_iter();
        if let Some(vocabulary) = &mut self.draft_vocabulary {
            vocabulary.take_d2t(&vectors.next().unwrap_or_default())?;
        }
        match vectors.next() {
            Some(factors) => self.stretch(factors),
            None => self.validate(),
        }
    }

    fn amend(&mut self, file: Beside<'_>) -> Result<(), LoadError> {
        Self::amend(self, file)
    }
}
