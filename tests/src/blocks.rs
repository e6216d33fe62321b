//! Two models of 80 tokens with random weights, small enough for tens of thousands of texts: the target in F32 and, as
//! its draft, the same weights in Q4_0.

use std::io::Cursor;

use outrider_cloud::{
    session::Limits,
    target::engine::{Engine, GuessPolicy, OwnDraftPolicy},
};
use outrider_codec::frame;
use outrider_models::{Model, StoredModel};
use outrider_speculation::session::{cloud::TargetInfo, edge::DraftInfo};

use crate::server::Server;

const TARGET: &[u8] = include_bytes!("../../models/tests/golden/blocks-f32.gguf");
const TOKENIZER_HASH: [u8; 32] = [5; 32];

/// The target model, in F32.
pub fn target() -> Model {
    model(TARGET)
}

/// The target with passes of some milliseconds: after its layers come many that add nothing.
pub fn slow_target() -> Model {
    const ADDED: usize = 1600;
    let stored = || StoredModel::from_gguf(&mut Cursor::new(TARGET)).unwrap();
    let mut slow = stored();
    while slow.weights.layers.len() < ADDED {
        for mut layer in stored().weights.layers {
            layer.attention_output.bytes.fill(0);
            layer.down.as_mut().unwrap().bytes.fill(0);
            slow.weights.layers.push(layer);
        }
    }
    slow.config.layers = slow.weights.layers.len();
    slow.into_model().unwrap()
}

/// The draft: the target in Q4_0.
pub fn draft() -> Model {
    model(include_bytes!("../../models/tests/golden/blocks-q4_0.gguf"))
}

fn model(bytes: &[u8]) -> Model {
    Model::from_gguf(&mut Cursor::new(bytes)).unwrap()
}

/// Description of the draft for a session.
pub fn draft_info(draft: &Model) -> DraftInfo {
    let config = draft.config();
    let (vocab_size, context_length) = (config.vocab_size as u32, config.context_length as u32);
    DraftInfo { vocab_size, tokenizer_hash: TOKENIZER_HASH, context_length, heads: None, guess_chance: None }
}

/// A server with the target.
pub async fn server(sessions: usize, limits: Limits) -> Server {
    Server::start_with(target(), target_info(), sessions, limits).await
}

/// A server with the target that drafts itself whatever that costs, with the target's own weights or its draft's.
pub async fn server_that_drafts(draft: Model) -> Server {
    let engine = |model| Engine::start(model, 4).unwrap();
    // Whatever drafts and rows cost: times of a busy machine are not what is tested.
    let target = engine(target()).judging(GuessPolicy::All).with_own_draft(engine(draft), OwnDraftPolicy::On);
    Server::start_for(target.into(), target_info(), Limits::default()).await
}

/// Description of the target for a session.
pub fn target_info() -> TargetInfo {
    let draft = draft_info(&target());
    TargetInfo {
        vocab_size: draft.vocab_size,
        tokenizer_hash: TOKENIZER_HASH,
        limits: frame::Limits {
            max_in_flight: 8,
            max_guesses: 64,
            max_branches: 16,
            ..frame::Limits::rounds(draft.context_length, 16)
        },
        eos_ids: vec![],
    }
}
