//! Sessions with both ends in this process, for experiments: the engine and the sessions of the server, no socket.

use std::{rc::Rc, sync::Arc};

use outrider_codec::frame::MAX_DRAFT_TOKENS;
use outrider_models::{Model, Tokenizer};
use outrider_papers::reproduce::sessions::{Ends, Failure, Pair, Running, Session};
use outrider_speculation::{
    control::link::Link,
    session::{
        cloud::TargetInfo,
        edge::{DraftInfo, Settings},
    },
};

use crate::{
    edge::{NativeEdge, Transport},
    pair::{self, PairPaths, draft_info, target_info},
    target::engine::Engine,
};

/// Loads a pair with its heads and starts its engine.
///
/// # Errors
/// If a file cannot be read or is malformed, or if the two models have different vocabularies.
pub fn open(paths: &PairPaths) -> Result<Pair, Failure> {
    let tokenizer = paths.tokenizer()?;
    let (draft, target) = (paths.draft_with(&tokenizer)?, paths.target_with(&tokenizer)?);
    let heads = paths.heads(&draft, &tokenizer)?.as_ref().map(pair::heads).transpose()?;
    let ends = start(target, &tokenizer)?;
    Ok(Pair { draft: Arc::new(draft), tokenizer: Arc::new(tokenizer), heads, ends })
}

/// Starts the engine of a target.
///
/// # Errors
/// If the target and the tokenizer have different vocabularies.
pub fn start(target: Model, tokenizer: &Tokenizer) -> Result<Rc<dyn Ends>, Failure> {
    let info = target_info(&target, tokenizer, MAX_DRAFT_TOKENS)?;
    Ok(Rc::new(BothEnds { engine: Engine::start(target, 1)?, target: info }))
}

struct BothEnds {
    engine: Engine,
    target: TargetInfo,
}

impl Ends for BothEnds {
    fn session<'a>(
        &'a self,
        pair: &'a Pair,
        link: Option<&'a Link>,
        texts: &'a [(&'a [u32], Settings)],
    ) -> Running<'a, Vec<Session>> {
        Box::pin(async move {
            let mut edge = self.greet(pair, link).await?;
            let mut sessions = Vec::new();
            for (prompt, settings) in texts {
                sessions.push(generation(&mut edge, prompt, settings).await?);
            }
            edge.close().await;
            Ok(sessions)
        })
    }
}

impl BothEnds {
    /// Opens a session, over an emulated link if one is given.
    async fn greet<'a>(&self, pair: &'a Pair, link: Option<&Link>) -> Result<NativeEdge<'a>, Failure> {
        // A closed session frees its slot a little later, so this retries until one is free.
        let transport = loop {
            match Transport::local(&self.engine, self.target.clone()) {
                Some(transport) => break transport,
                None => tokio::task::yield_now().await,
            }
        };
        let transport = match link {
            Some(link) => transport.over(link.clone(), link.clone()),
            None => transport,
        };
        let draft = DraftInfo { heads: pair.heads.clone(), ..draft_info(&pair.draft, &pair.tokenizer)? };
        Ok(NativeEdge::greet(&pair.draft, draft, transport).await?)
    }
}

async fn generation(edge: &mut NativeEdge<'_>, prompt: &[u32], settings: &Settings) -> Result<Session, Failure> {
    let (mut tokens, mut origins, mut rounds) = (Vec::new(), Vec::new(), Vec::new());
    let generated = edge
        .generate(prompt.to_vec(), settings, |committed| {
            for &(id, origin) in &committed.tokens {
                tokens.push(id);
                origins.push(origin);
            }
            rounds.extend(committed.round.clone());
        })
        .await?;
    Ok(Session { prompt: prompt.to_vec(), tokens, origins, rounds, statistics: generated.statistics })
}
