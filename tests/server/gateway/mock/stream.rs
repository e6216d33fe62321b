//! Texts as the engine streams them: a step at a time, in which its proposer's guesses are judged as vLLM does it.
//!
//! A guess comes without probabilities, so it is taken as certain: it is accepted with p of it, and else the token is
//! drawn from p without it.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use futures_util::stream;
use outrider_codec::frame::SamplingParameters;
use outrider_speculation::sample;
use serde_json::{Value, json};

use super::served::{Served, Streaming};

/// The most guesses that are proposed for a step.
const PROPOSED: usize = 4;

/// A text that is being written.
struct Writing {
    shared: Arc<Served>,
    streaming: Streaming,
    prompt: Option<Vec<u32>>,
    text: Vec<u32>,
    left: usize,
    stops: Vec<u32>,
    sampling: SamplingParameters,
    /// Steps until it is cut.
    bears: Option<u32>,
    end: End,
}

#[derive(PartialEq)]
enum End {
    NotYet,
    Told,
    Done,
}

impl Drop for Writing {
    fn drop(&mut self) {
        if self.end == End::NotYet {
            self.shared.counts.aborted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Answers a request for a stream.
pub fn answer(shared: &Arc<Served>, body: &Value) -> Response {
    for (field, value) in [("return_token_ids", true), ("ignore_eos", true), ("add_special_tokens", false)] {
        assert_eq!(body[field], value, "{field}");
    }
    let text = shared.prompts(&body["prompt"]).remove(0);
    let left = body["max_tokens"].as_u64().unwrap() as usize;
    assert!(left > 0 && text.len() + left <= shared.context_length as usize, "asks beyond the context");
    let stops = body["stop_token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    let streaming = shared.streaming.lock().unwrap().clone();
    let cut = streaming.cut_after;
    // The first of them arrives whole: a text that gets no further is given up in the end.
    let bears = (cut > 0).then(|| 2 + shared.randomness.lock().unwrap().below(2 * cut));
    let writing = Writing {
        shared: Arc::clone(shared),
        streaming,
        prompt: Some(text.clone()),
        text,
        left,
        stops,
        sampling: Served::sampling(body),
        bears,
        end: End::NotYet,
    };
    let chunks = stream::unfold(writing, |mut writing| async { Some((writing.next().await?, writing)) });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(chunks)).into_response()
}

impl Writing {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        match self.end {
            // Cut in its last event, it sends nothing after that.
            End::Told if self.bears == Some(0) => {}
            End::NotYet => {}
            End::Told => {
                self.end = End::Done;
                return Some(Ok(Bytes::from_static(b"data: [DONE]\n\n")));
            }
            End::Done => return None,
        }
        tokio::time::sleep(self.streaming.step).await;
        if self.bears == Some(0) {
            self.end = End::Done;
            self.shared.counts.cut.fetch_add(1, Ordering::Relaxed);
            let failure = self.streaming.fails_with.take();
            return Some(failure.map_or_else(|| Err(io::Error::other("killed")), |event| Ok(event.into())));
        }
        self.bears = self.bears.map(|bears| bears - 1);
        if let Some(raw) = &self.streaming.raw {
            return Some(Ok(raw.clone().into()));
        }
        let ids = self.step();
        self.shared.counts.steps.fetch_add(1, Ordering::Relaxed);
        self.text.extend(&ids);
        self.left -= ids.len();
        let stops = ids.last().is_some_and(|id| self.stops.contains(id));
        let reason = if stops { Some("stop") } else { (self.left == 0).then_some("length") };
        self.end = if reason.is_some() { End::Told } else { End::NotYet };
        let event = json!({ "object": "text_completion", "choices": [{
            "index": 0, "text": "…", "token_ids": ids, "prompt_token_ids": self.prompt.take(), "finish_reason": reason,
        }] });
        let mut bytes = format!("data: {event}\n\n").into_bytes();
        if self.bears == Some(0) && self.streaming.fails_with.is_none() {
            // The last one that it bears arrives in part.
            bytes.truncate(bytes.len() / 2);
        }
        Some(Ok(bytes.into()))
    }

    /// The tokens of a step: guesses that are right, and one more.
    fn step(&self) -> Vec<u32> {
        let guesses = self.streaming.guesses.as_ref().map(|store| store.propose(&self.text, PROPOSED));
        let guesses = guesses.unwrap_or_default();
        let rows = (self.shared.weights)(&[&self.text[..], &guesses].concat());
        let mut randomness = self.shared.randomness.lock().unwrap();
        let mut ids = Vec::new();
        for (row, guess) in rows[self.text.len() - 1..].iter().zip(guesses.iter().map(Some).chain([None])) {
            let mut p = sample::transform(row, &self.sampling).unwrap();
            let id = match guess {
                Some(&guess) if self.streaming.believes || randomness.unit() < p[guess as usize] => guess,
                Some(&guess) => {
                    p[guess as usize] = 0.0;
                    randomness.draw(&p)
                }
                None => randomness.draw(&p),
            };
            ids.push(id);
            let is_right = guess == Some(&id);
            let counts = &self.shared.counts;
            counts.judged.fetch_add(usize::from(guess.is_some()), Ordering::Relaxed);
            counts.accepted.fetch_add(usize::from(is_right), Ordering::Relaxed);
            if !is_right || self.stops.contains(&id) || ids.len() == self.left {
                break;
            }
        }
        ids
    }
}
