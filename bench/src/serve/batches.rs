//! Cost of a pass that sessions share: the target alone, without a server.

use std::time::Instant;

use outrider_cloud::pair::PairPaths;
use outrider_models::{Chunk, KvCache, Model, Scratch};
use serde::Serialize;

use crate::{passes::Failure, samples::sorted};

/// Rows of each session: four drafts and the token before them.
pub const ROWS: usize = 5;
/// Tokens of each before them.
pub const CACHED: usize = 128;
const SESSIONS: [usize; 8] = [1, 2, 4, 8, 16, 32, 51, 102];

/// Milliseconds of passes that `sessions` sessions share.
#[derive(Serialize)]
pub struct Shared {
    pub sessions: usize,
    /// Milliseconds of each pass, ascending.
    pub times_ms: Vec<f64>,
}

/// All numbers of sessions take turns, as the machine's speed changes within minutes.
pub fn shared_passes(pair: &PairPaths, rounds: usize) -> Result<Vec<Shared>, Failure> {
    let model = pair.target()?;
    let vocabulary = model.config().vocab_size as u32;
    let text: Vec<u32> = (0..).map(|index: u32| 259 + index * 37 % (vocabulary - 259)).take(CACHED + ROWS).collect();
    let mut cache = model.new_cache();
    model.forward(&mut [Chunk { cache: &mut cache, tokens: &text[..CACHED], positions: &[] }])?;
    let mut caches = vec![cache; SESSIONS.into_iter().max().unwrap_or(1)];
    let mut scratch = Scratch::default();
    let mut found: Vec<Shared> =
        SESSIONS.into_iter().map(|sessions| Shared { sessions, times_ms: Vec::new() }).collect();
    for round in 0..=rounds {
        for shared in &mut found {
            let time = pass(&model, &mut caches[..shared.sessions], &text[CACHED..], &mut scratch)?;
            // The first is slow.
            if round > 0 {
                shared.times_ms.push(time);
            }
        }
    }
    for shared in &mut found {
        shared.times_ms = sorted(shared.times_ms.drain(..));
    }
    Ok(found)
}

fn pass(model: &Model, caches: &mut [KvCache], tokens: &[u32], scratch: &mut Scratch) -> Result<f64, Failure> {
    let positions: Vec<usize> = (0..tokens.len()).collect();
    let mut chunks: Vec<Chunk<'_>> =
        caches.iter_mut().map(|cache| Chunk { cache, tokens, positions: &positions }).collect();
    let start = Instant::now();
    model.forward_with(&mut chunks, scratch)?;
    let time = start.elapsed().as_secs_f64() * 1e3;
    caches.iter_mut().for_each(|cache| cache.truncate(CACHED));
    Ok(time)
}
