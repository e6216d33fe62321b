//! Players, which have texts written: plain streaming clients of vLLM, and edges of a gateway.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use outrider_cloud::edge::{NativeEdge, Retry};
use outrider_codec::{
    frame::SamplingParameters,
    scheme::{Code, SchemeParameters},
};
use outrider_models::Model;
use outrider_speculation::session::edge::{Ahead, Committed, DraftInfo, Mode, Settings, Speculation};
use serde_json::{Value, json};
use tokio::time;

use super::engine::MODEL;
use crate::passes::Failure;

/// Tokens of a text, without its prompt.
pub const TOKENS: u32 = 128;
const GREEDY: SamplingParameters = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
/// Scheme of the rounds that `openai:` verifies.
const ROUNDS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 8, lattice_resolution: 100, code: Code::Enumerative };
const DRAFTS: u32 = 4;

/// A client with its connection.
pub enum Player<'a> {
    Plain(Plain),
    Edge { edge: Box<NativeEdge<'a>>, mode: Mode },
}

/// The draft model of the edges.
pub struct Edges<'a> {
    pub draft: &'a Model,
    pub info: DraftInfo,
}

impl<'a> Edges<'a> {
    /// An edge that drafts in rounds.
    pub async fn in_rounds(&self, address: &str) -> Result<Player<'a>, Failure> {
        self.connect(address, Mode::Speculative(Speculation::new(ROUNDS, DRAFTS))).await
    }

    /// An edge that drafts ahead of the text.
    pub async fn ahead(&self, address: &str) -> Result<Player<'a>, Failure> {
        self.connect(address, Mode::Ahead(Ahead::default())).await
    }

    async fn connect(&self, address: &str, mode: Mode) -> Result<Player<'a>, Failure> {
        let url = format!("ws://{address}/session");
        let edge =
            NativeEdge::connect(self.draft, self.info.clone(), &url, None, Retry { attempts: 0, ..Retry::default() })
                .await?;
        Ok(Player::Edge { edge: Box::new(edge), mode })
    }
}

impl Player<'_> {
    async fn write(&mut self, prompt: &[u32], mut tell: impl FnMut(&[u32])) -> Result<(), Failure> {
        match self {
            Self::Plain(client) => client.write(prompt, tell).await,
            Self::Edge { edge, mode } => {
                let settings = Settings { mode: mode.clone(), sampling: GREEDY, seed: 1, max_new_tokens: TOKENS };
                let of = |committed: &Committed| committed.tokens.iter().map(|token| token.0).collect::<Vec<u32>>();
                edge.generate(prompt.to_vec(), &settings, |committed| tell(&of(committed))).await?;
                Ok(())
            }
        }
    }
}

/// A client that streams.
pub struct Plain {
    http: reqwest::Client,
    address: String,
}

impl Plain {
    /// Connects, as a client does that has asked for something before.
    pub async fn connect(address: &str) -> Result<Self, Failure> {
        let http = reqwest::Client::builder().tcp_nodelay(true).build()?;
        http.get(format!("http://{address}/health")).send().await?.error_for_status()?.bytes().await?;
        Ok(Self { http, address: address.to_owned() })
    }

    /// Writes a text, and calls `tell` with its tokens as they come.
    pub async fn write(&mut self, prompt: &[u32], mut tell: impl FnMut(&[u32])) -> Result<(), Failure> {
        let question = json!({
            "model": MODEL,
            "prompt": prompt,
            "max_tokens": TOKENS,
            "temperature": 0,
            "stream": true,
            "return_token_ids": true,
        });
        let asked = self.http.post(format!("http://{}/v1/completions", self.address)).json(&question);
        let mut answer = asked.send().await?.error_for_status()?;
        let mut text = Vec::new();
        while let Some(piece) = answer.chunk().await? {
            text.extend_from_slice(&piece);
            while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                let Some(event) = line.strip_prefix(b"data: ") else { continue };
                if event.starts_with(b"[DONE]") {
                    continue;
                }
                let event: Value = serde_json::from_slice(event)?;
                let ids = event["choices"][0]["token_ids"].as_array().into_iter().flatten();
                let ids: Vec<u32> = ids.filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect();
                tell(&ids);
            }
        }
        Ok(())
    }
}

/// Texts and time of all players.
#[derive(Debug)]
pub struct Played {
    pub seconds: f64,
    /// Texts that each session wrote.
    pub sessions: Vec<Vec<Text>>,
}

/// A text as far as it came.
#[derive(Debug)]
pub struct Text {
    /// Index of the text's prompt.
    pub prompt: usize,
    /// Tokens without the prompt.
    pub ids: Vec<u32>,
}

/// Has all players write for `duration`, no two the same text. Texts that are not finished then are cut off.
pub async fn play(players: Vec<Player<'_>>, prompts: &[Vec<u32>], duration: Duration) -> Result<Played, Failure> {
    let start = Instant::now();
    let end = start + duration;
    let count = players.len();
    let sessions = players.into_iter().enumerate().map(|(first, mut player)| async move {
        let mut texts = Vec::new();
        for prompt in (first..prompts.len()).step_by(count) {
            let mut ids = Vec::new();
            let writing = player.write(&prompts[prompt], |more| ids.extend(more));
            let finished = time::timeout_at(end.into(), writing).await;
            texts.push(Text { prompt, ids });
            match finished {
                Ok(result) => result?,
                Err(_) => return Ok(texts),
            }
        }
        Err::<_, Failure>("there are too few texts for so much time".into())
    });
    let sessions = try_join_all(sessions).await?;
    Ok(Played { seconds: start.elapsed().as_secs_f64(), sessions })
}
