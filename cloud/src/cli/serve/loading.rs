//! Loading of the models that `outrider serve` serves.

use std::{mem, sync::Arc};

use bytesize::ByteSize;
use outrider_models::{Model, ModelConfig, RecommendedSampling, Tokenizer};
use outrider_speculation::{
    control::ahead::Goal,
    session::{cloud::TargetInfo, edge::DraftInfo},
};

use super::Serve;
use crate::{
    api_drafting::ApiDrafting,
    chat,
    cli::output::CommandError,
    http::{Models, PairFile, Served},
    pair::{self, Ends, ModelSource, PairPaths},
    sampling::SamplingDefaults,
    shaping::grammar::Grammars,
    target::{
        Target,
        cpu::CpuTarget,
        device_name::DeviceName,
        engine::{Engine, EngineSettings, OwnDraftPolicy},
        gateway::GatewayError,
    },
};

/// Smallest context length: the prompt's token and one more.
const LEAST_TEXT: u32 = 2;

impl Serve {
    /// Downloads and loads all models, and starts their engines.
    pub(super) async fn load(&mut self) -> Result<Models, CommandError> {
        let mut pairs = mem::take(&mut self.pair).each()?;
        self.check_options(&pairs)?;
        for pair in &mut pairs {
            pair.fetch().await?;
        }
        let count = pairs.len();
        let mut loaded = Vec::with_capacity(count);
        for pair in pairs {
            let name = pair.model.first().map(|source| source.shown_name().to_owned()).filter(|_| count > 1);
            loaded.push(match name {
                Some(name) => {
                    let served = self.serve_pair(pair, count).await;
                    let served = served.map_err(|error| format!("the model {name:?} cannot be served: {error}"))?;
                    Served { name, ..served }
                }
                None => self.serve_pair(pair, count).await?,
            });
        }
        // There is at least one pair.
        let first = loaded.remove(0);
        Ok(Models::new(first, loaded))
    }

    /// Refuses options for one model beside several, and two names of one model.
    fn check_options(&self, pairs: &[PairPaths]) -> Result<(), CommandError> {
        if pairs.len() > 1 && self.chat_template.is_some() {
            return Err("--chat-template is for one model: with several, each has the template of its own files".into());
        }
        let is_named = pairs.iter().flat_map(|pair| &pair.model).any(|source| source.name.is_some());
        if self.model_name.is_some() && (pairs.len() > 1 || is_named) {
            return Err("--model-name names the only model: write the names as --model NAME=MODEL instead".into());
        }
        Ok(())
    }

    /// Loads a pair and starts its engine; `count` models share the memory for KV caches.
    async fn serve_pair(&self, pair: PairPaths, count: usize) -> Result<Served, CommandError> {
        // What is looked up needs no model. A remote engine is described by the draft's files.
        let is_remote = pair.engine_address().is_some();
        let has_draft = pair.draft.is_some() || pair.target.is_none() || is_remote;
        let has_draft = has_draft || self.own_draft != OwnDraftPolicy::Lookup;
        let ends = if has_draft { Ends::Both } else { Ends::Target };
        let (tokenizer, tokenizer_json) = pair.tokenizer_for(ends)?;
        let (mut draft, mut draft_file, mut heads_safetensors) = (None, None, None);
        if has_draft {
            // First, because what browsers cannot load is refused with its own advice.
            draft_file = Some(PairFile::weights(pair.draft_file()?.into_owned()));
            let model = pair.draft_with(&tokenizer)?;
            // Browsers would get heads of another draft.
            pair.heads(&model, &tokenizer)?;
            draft = Some(model);
            heads_safetensors = pair.heads_safetensors()?.map(|bytes| PairFile::weights(bytes.into_owned()));
        } else if self.api_drafting.is_some() || pair.heads.is_some() {
            return Err("--api-drafting and --heads need a draft model: give one with --draft".into());
        }
        let api_drafting = self.api_drafting.as_ref().map(|default| -> Result<_, CommandError> {
            let model = pair.draft_with(&tokenizer)?;
            let heads = pair.heads(&model, &tokenizer)?.as_ref().map(pair::heads).transpose()?;
            let info = DraftInfo { heads, ..pair::draft_info(&model, &tokenizer)? };
            Ok(Arc::new(ApiDrafting { model, info, default: default.clone() }))
        });
        let api_drafting = api_drafting.transpose()?;
        let (target, mut info, config) = self.target(&pair, &tokenizer, draft, count).await?;
        info.limits.max_in_flight = self.max_in_flight;
        info.limits.fewest_passes = self.goal == Goal::Passes;
        if let Some(most) = self.caps.max_context {
            info.limits.context_length = info.limits.context_length.min(most);
        }
        let template = chat::find(self.chat_template.as_deref(), pair.target.as_deref(), &config, &tokenizer)?;
        let sampling = match &target {
            Target::Model(_) => recommended(&config.sampling),
            // The engine's files are elsewhere, and this configuration is the draft's.
            Target::Gateway(_) => SamplingDefaults::default(),
        };
        let given = self.model_name.as_deref().or(pair.model.first().and_then(ModelSource::given_name));
        Ok(Served {
            name: given.map(str::to_owned).unwrap_or_else(|| match &target {
                Target::Gateway(gateway) => gateway.model().to_owned(),
                Target::Model(_) => pair::name(pair.target.as_deref(), "outrider-target"),
            }),
            draft_name: has_draft.then(|| pair::name(pair.draft.as_deref(), "outrider-draft")),
            engine: target,
            target: info,
            bos_token_id: config.first_token(),
            tokenizer: Arc::new(tokenizer),
            chat_json: PairFile::chat(&template),
            template: Arc::new(template),
            grammars: Grammars::default(),
            sampling,
            api_drafting,
            draft: draft_file,
            tokenizer_json: PairFile::json(tokenizer_json.into_owned()),
            heads_safetensors,
        })
    }

    /// Target of a pair with its description for sessions, and the configuration by which its texts begin.
    async fn target(
        &self,
        pair: &PairPaths,
        tokenizer: &Tokenizer,
        draft: Option<Model>,
        count: usize,
    ) -> Result<(Target, TargetInfo, ModelConfig), CommandError> {
        if let Some(engine) = pair.engine_address() {
            if pair.tokenizer.is_none() {
                return Err(GatewayError::NoTokenizer.into());
            }
            // The draft has the same vocabulary, and the same tokens begin and end a text.
            let draft = draft.map_or_else(|| pair.draft_with(tokenizer), Ok)?;
            let info = pair::target_info(&draft, tokenizer, self.max_draft_tokens)?;
            let (gateway, info) = self.engine.connect(engine, tokenizer, info, self.max_sessions).await?;
            return Ok((Target::Gateway(gateway), info, draft.config().clone()));
        }
        if !self.engine.guesses_to.is_empty() {
            return Err(GatewayError::GuessesWithoutStream.into());
        }
        let settings = EngineSettings {
            sessions: self.max_sessions,
            batch_rows: self.batch_rows as usize,
            kv_memory: ByteSize(self.kv_memory.as_u64() / count as u64),
            ..EngineSettings::default()
        };
        let (config, engine) = if self.device == DeviceName::Cpu {
            let model = pair.target_with(tokenizer)?;
            (model.config().clone(), Engine::start_with(CpuTarget::from(model), settings)?)
        } else {
            let model = pair.stored_target_with(tokenizer)?;
            (model.config.clone(), self.device.bring(model, settings.kv_memory, settings)??)
        };
        let beginning = |config: &ModelConfig| tokenizer.encode_prompt(config.first_token(), "");
        if let Some(draft) = &draft {
            let (drafts, targets) = (beginning(draft.config())?, beginning(&config)?);
            if drafts != targets {
                tracing::warn!(
                    ?drafts,
                    ?targets,
                    "draft and target begin texts with different tokens; browsers follow the draft"
                );
            }
        }
        engine.warm_up();
        let engine = self.with_own_draft(engine.judging(self.guesses), draft, settings)?;
        let mut info = pair::info_of(&config, tokenizer, self.max_draft_tokens)?;
        if !engine.reads_branches() {
            info.limits.max_branches = 0;
        }
        let (context, longest) = (info.limits.context_length, engine.longest_text() as u32);
        if longest < LEAST_TEXT {
            let part = if count > 1 { format!(", shared by {count} models,") } else { String::new() };
            let kv_memory = self.kv_memory;
            return Err(format!("--kv-memory {kv_memory}{part} does not hold {LEAST_TEXT} tokens of the target").into());
        }
        if longest < context {
            tracing::warn!(
                model = pair::name(pair.target.as_deref(), "outrider-target"),
                context,
                longest,
                "--kv-memory does not hold one text as long as the target's context"
            );
            info.limits.context_length = longest;
        }
        Ok((engine.into(), info, config))
    }

    /// Adds the draft model to the target, if the server is to draft.
    fn with_own_draft(
        &self,
        target: Engine,
        draft: Option<Model>,
        settings: EngineSettings,
    ) -> Result<Engine, CommandError> {
        Ok(match (self.own_draft, draft) {
            (OwnDraftPolicy::Off, _) => target,
            (OwnDraftPolicy::On | OwnDraftPolicy::Auto, Some(draft)) => {
                let draft = Engine::start_with(CpuTarget::from(draft), settings)?;
                draft.warm_up();
                target.with_own_draft(draft, self.own_draft)
            }
            (OwnDraftPolicy::Lookup, _) | (_, None) => target.with_lookups(),
        })
    }
}

/// Sampling for requests that give none. Logs the values, and recommendations that are not followed.
fn recommended(sampling: &RecommendedSampling) -> SamplingDefaults {
    let defaults = SamplingDefaults::from(sampling);
    if !defaults.is_empty() {
        tracing::info!(%defaults, "API requests without these parameters get the model's; a request's own come first");
    }
    if !sampling.ignored.is_empty() {
        let ignored = sampling.ignored.join(", ");
        tracing::warn!(ignored, "sampling that the model's files recommend and this server does not have");
    }
    defaults
}
