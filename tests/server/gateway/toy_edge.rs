//! An edge that drafts with a toy, over a real socket.

use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use outrider_cloud::target::gateway::GatewayError;
use outrider_codec::frame::Limits;
use outrider_models::Tokenizer;
use outrider_speculation::{
    session::{
        cloud::TargetInfo,
        edge::{DraftInfo, EdgeOutput, EdgeSession, Event, Settings},
    },
    study::Statistics,
};
use outrider_tests::toy::{CachedToy, ToyModel};
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, tungstenite::Message};

use super::mock::Weights;

/// A toy as an engine's weights: its distribution is known in closed form.
pub fn of_toy(toy: ToyModel) -> Weights {
    Box::new(move |text| (1..=text.len()).map(|end| toy.logits(&text[..end])).collect())
}

/// Four tokens, a to d; anything else is d.
pub fn tokenizer() -> Tokenizer {
    let json = r#"{
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3}, "unk_token": "d"}
    }"#;
    Tokenizer::from_bytes(json.as_bytes()).unwrap()
}

/// Description of a toy as the target of a session.
pub fn info(eos_ids: Vec<u32>) -> TargetInfo {
    TargetInfo {
        vocab_size: 4,
        tokenizer_hash: tokenizer().fingerprint(),
        limits: Limits { max_in_flight: 8, ..Limits::rounds(0, 16) },
        eos_ids,
    }
}

pub struct ToyEdge {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    session: EdgeSession,
    draft: CachedToy,
    origin: Instant,
}

impl ToyEdge {
    pub async fn connect(url: &str, draft: ToyModel, context_length: u32) -> Self {
        let (socket, _) = tokio_tungstenite::connect_async_with_config(url, None, true).await.unwrap();
        let info = DraftInfo {
            vocab_size: draft.vocab_size(),
            tokenizer_hash: tokenizer().fingerprint(),
            context_length,
            heads: None,
            guess_chance: None,
        };
        let session = EdgeSession::new(info);
        let mut edge = Self { socket, session, draft: CachedToy::new(draft), origin: Instant::now() };
        assert!(matches!(edge.event().await, Event::Connected(_)));
        edge
    }

    /// Runs a generation; returns the committed tokens and the session's statistics.
    pub async fn generate(&mut self, prompt: &[u32], settings: &Settings) -> (Vec<u32>, Statistics) {
        self.session.start(prompt.to_vec(), settings, self.now()).unwrap();
        let mut ids = Vec::new();
        loop {
            match self.event().await {
                Event::Committed(committed) => ids.extend(committed.tokens.iter().map(|token| token.0)),
                Event::Finished(_) => return (ids, self.session.statistics().clone()),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Error text of a generation that is refused; tokens committed before do not matter.
    pub async fn refusal(&mut self, prompt: &[u32], settings: &Settings) -> String {
        self.session.start(prompt.to_vec(), settings, self.now()).unwrap();
        loop {
            match self.event().await {
                Event::Committed(_) => {}
                Event::Refused(error) => return error.text,
                other => panic!("{other:?}"),
            }
        }
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    async fn event(&mut self) -> Event {
        loop {
            match self.session.poll(self.now()).unwrap() {
                Some(EdgeOutput::Send(bytes)) => self.socket.send(Message::Binary(bytes.into())).await.unwrap(),
                Some(EdgeOutput::Forward(forward)) => {
                    for (row, hidden) in self.draft.forward(&forward) {
                        self.session.handle_logits(&row, &hidden, self.now()).unwrap();
                    }
                }
                Some(EdgeOutput::Event(event)) => return event,
                None => {
                    let Some(Ok(Message::Binary(bytes))) = self.socket.next().await else { panic!("no frame") };
                    self.session.handle_frame(&bytes, self.now()).unwrap();
                }
            }
        }
    }
}

/// Error message that an operator reads.
pub fn complaint<T>(result: Result<T, GatewayError>) -> String {
    result.err().expect("the engine cannot be the target").to_string()
}
