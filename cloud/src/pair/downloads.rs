//! Paths of the pairs that `--model` and names on the hub stand for. Missing files are downloaded.

use std::{collections::BTreeSet, path::Path};

use outrider_models::ignore_settings;

use super::{
    PairPaths,
    model_source::ModelSource,
    published::{self, PublishedError},
    remote_engine,
};
use crate::hub::{HubError, HubName};

/// Reason why a model cannot be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A name on the hub is malformed, or its model cannot be downloaded.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// A short name is unknown, or its model cannot be downloaded.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// Several models are given to a command that uses one.
    #[error("--model is given {0} times: only `outrider serve` and `outrider fetch` take several models")]
    Several(usize),
    /// Two models have the same name.
    #[error("two models have the name {name:?}: give one of them another, as in --model NAME={target}")]
    SameName {
        /// Name that both have.
        name: String,
        /// The second model, as it was given.
        target: String,
    },
    /// An option for the files of one model is given beside several models.
    #[error("{option} is for one model, and --model gives {models}: write --model NAME=TARGET,DRAFT for each")]
    ForOneModel {
        /// Option that was given.
        option: &'static str,
        /// Number of models that are given.
        models: usize,
    },
    /// One of several models is an engine elsewhere.
    #[error(
        "the model {name:?} is a remote engine, which a server serves alone: give it with --target, or as the only --model"
    )]
    RemoteOfSeveral {
        /// Name of the model for clients.
        name: String,
    },
}

impl PairPaths {
    /// Replaces a short name and names on the hub by paths in the cache, and downloads missing files. From here on,
    /// models are loaded although they have the settings to be ignored.
    ///
    /// # Errors
    /// If a name is malformed, or its model cannot be downloaded.
    pub async fn fetch(&mut self) -> Result<(), FetchError> {
        ignore_settings(&self.ignore_setting);
        match &self.model[..] {
            [] => {}
            [ModelSource { name, target, draft }] => {
                if let Some(draft) = draft {
                    self.draft.get_or_insert_with(|| draft.clone());
                }
                if name.is_some() && !published::is_known(target) {
                    self.target = Some(target.into());
                } else {
                    let published::Files { target, draft, activation_bits } = published::fetch(target).await?;
                    self.target = Some(target);
                    self.draft.get_or_insert(draft);
                    self.activation_bits.get_or_insert(activation_bits);
                }
            }
            several => return Err(FetchError::Several(several.len())),
        }
        for path in [&mut self.draft, &mut self.target].into_iter().flatten() {
            if let Some(name) = HubName::of(path)? {
                *path = name.fetch().await?;
            }
        }
        Ok(())
    }

    /// The pair of each `--model`, or the only one.
    ///
    /// # Errors
    /// If models have the same name, or an option for one model is given beside several.
    pub fn each(self) -> Result<Vec<Self>, FetchError> {
        let models = self.model.len();
        if models < 2 {
            return Ok(vec![self]);
        }
        let Self { draft, tokenizer, heads, .. } = &self;
        for (option, path) in [("--draft", draft), ("--tokenizer", tokenizer), ("--heads", heads)] {
            if path.is_some() {
                return Err(FetchError::ForOneModel { option, models });
            }
        }
        let mut names = BTreeSet::new();
        for source in &self.model {
            let (name, target) = (source.shown_name().to_owned(), source.target.clone());
            if remote_engine(Path::new(&target)).is_some() {
                return Err(FetchError::RemoteOfSeveral { name });
            }
            if !names.insert(source.shown_name()) {
                return Err(FetchError::SameName { name, target });
            }
        }
        Ok(self.model.iter().map(|source| Self { model: vec![source.clone()], ..self.clone() }).collect())
    }
}
