//! Objects and events of the Responses API: the answer of a chat as items.

use std::{collections::VecDeque, convert::Infallible};

use axum::{
    Json,
    http::header::CACHE_CONTROL,
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
};
use futures_util::stream;
use outrider_models::{Call, Piece};
use serde_json::{Value, json};

use super::{
    answer::{Answer, heartbeat},
    delta::Delta,
    token_stream::TokenStream,
};
use crate::http::{ApiError, within_request};

/// Responds with one object or with server-sent events.
///
/// `repeated` are fields of the request that a response has, too.
pub(super) async fn respond(
    answer: Answer,
    repeated: Value,
    mut deltas: TokenStream,
    streams: bool,
) -> Result<Response, ApiError> {
    let mut writer = Writer::new(answer, repeated);
    if !streams {
        while let Some(delta) = deltas.next().await? {
            writer.add(delta);
        }
        return Ok(Json(writer.response(deltas.tokens())).into_response());
    }
    let waiting = VecDeque::from(writer.begin());
    let state = (writer, Some(deltas), waiting);
    let events = stream::unfold(state, |(mut writer, mut deltas, mut waiting)| async move {
        loop {
            if let Some(event) = waiting.pop_front() {
                let name = event["type"].as_str().unwrap_or_default().to_owned();
                let event = Event::default().event(name).data(event.to_string());
                return Some((Ok::<_, Infallible>(event), (writer, deltas, waiting)));
            }
            let texts = deltas.as_mut()?;
            match texts.next().await {
                Ok(Some(delta)) => waiting.extend(writer.add(delta)),
                Ok(None) => {
                    waiting.push_back(writer.end(texts.tokens()));
                    deltas = None;
                }
                Err(error) => {
                    let mut error = error.body()["error"].take();
                    let fields = ["code", "message", "param", "request_id"];
                    let fields = fields.map(|name| (name.to_owned(), error[name].take()));
                    waiting.push_back(writer.event("error", Value::from_iter(fields)));
                    deltas = None;
                }
            }
        }
    });
    Ok(([(CACHE_CONTROL, "no-store")], Sse::new(within_request(events)).keep_alive(heartbeat())).into_response())
}

/// Kind of an item that consists of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
}

/// A response that is being written.
struct Writer {
    answer: Answer,
    /// Fields of the request that the response has, too.
    repeated: Value,
    /// Items that are complete.
    output: Vec<Value>,
    /// The item under way, with its text.
    open: Option<(Kind, String)>,
    /// True if a limit has cut the text.
    is_cut: bool,
    /// Number of tokens of reasoning.
    reasoning_tokens: usize,
    /// Number of events so far.
    sequence: u64,
}

impl Writer {
    fn new(answer: Answer, repeated: Value) -> Self {
        Self { answer, repeated, output: Vec::new(), open: None, is_cut: false, reasoning_tokens: 0, sequence: 0 }
    }

    fn event(&mut self, name: &str, mut fields: Value) -> Value {
        fields["type"] = json!(name);
        fields["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        fields
    }

    /// Id of the item under way, or of the next one.
    fn item_id(&self, prefix: &str) -> String {
        format!("{prefix}_{:016x}{:02x}", self.answer.id, self.output.len())
    }

    /// Item that consists of a text, under way or complete.
    fn item(&self, kind: Kind, text: Option<&str>) -> Value {
        let status = if text.is_none() { "in_progress" } else { self.status() };
        let content =
            |of: &str| text.map(|text| json!({ "type": of, "text": text, "annotations": [], "logprobs": [] }));
        match kind {
            Kind::Message => json!({
                "id": self.item_id("msg"), "type": "message", "role": "assistant", "status": status,
                "content": content("output_text").into_iter().collect::<Vec<_>>(),
            }),
            Kind::Reasoning => json!({
                "id": self.item_id("rs"), "type": "reasoning", "summary": [], "status": status,
                "content": text.map(|text| json!({ "type": "reasoning_text", "text": text })).into_iter().collect::<Vec<_>>(),
            }),
        }
    }

    fn status(&self) -> &'static str {
        if self.is_cut { "incomplete" } else { "completed" }
    }

    /// Events of a response without output.
    fn begin(&mut self) -> Vec<Value> {
        let response = self.object("in_progress", Value::Null);
        let created = self.event("response.created", json!({ "response": response }));
        let response = self.object("in_progress", Value::Null);
        vec![created, self.event("response.in_progress", json!({ "response": response }))]
    }

    /// Adds a delta and returns its events.
    fn add(&mut self, delta: Delta) -> Vec<Value> {
        let Delta { pieces, reasoning, ids, finish, .. } = delta;
        if !reasoning.is_empty() {
            self.reasoning_tokens += ids.len();
        }
        let mut events = Vec::new();
        self.is_cut |= finish == Some("length");
        self.write(Kind::Reasoning, &reasoning, &mut events);
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.write(Kind::Message, &text, &mut events),
                Piece::Call(call) => self.call(&call, &mut events),
            }
        }
        if finish.is_some() {
            if self.open.is_none() && self.output.is_empty() {
                self.open(Kind::Message, &mut events);
            }
            self.close(&mut events);
        }
        events
    }

    fn open(&mut self, kind: Kind, events: &mut Vec<Value>) {
        let (item, index) = (self.item(kind, None), self.output.len());
        let id = item["id"].clone();
        events.push(self.event("response.output_item.added", json!({ "output_index": index, "item": item })));
        let part = match kind {
            Kind::Message => json!({ "type": "output_text", "text": "", "annotations": [], "logprobs": [] }),
            Kind::Reasoning => json!({ "type": "reasoning_text", "text": "" }),
        };
        let fields = json!({ "item_id": id, "output_index": index, "content_index": 0, "part": part });
        events.push(self.event("response.content_part.added", fields));
        self.open = Some((kind, String::new()));
    }

    fn write(&mut self, kind: Kind, text: &str, events: &mut Vec<Value>) {
        if text.is_empty() {
            return;
        }
        if self.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            self.close(events);
            self.open(kind, events);
        }
        if let Some((_, written)) = &mut self.open {
            written.push_str(text);
        }
        let (prefix, name) = match kind {
            Kind::Message => ("msg", "response.output_text.delta"),
            Kind::Reasoning => ("rs", "response.reasoning_text.delta"),
        };
        let (id, index) = (self.item_id(prefix), self.output.len());
        let mut fields = json!({ "item_id": id, "output_index": index, "content_index": 0, "delta": text });
        if kind == Kind::Message {
            fields["logprobs"] = json!([]);
        }
        events.push(self.event(name, fields));
    }

    /// Completes the item under way.
    fn close(&mut self, events: &mut Vec<Value>) {
        let Some((kind, text)) = self.open.take() else { return };
        let (item, index) = (self.item(kind, Some(&text)), self.output.len());
        let mut part = json!({ "item_id": item["id"], "output_index": index, "content_index": 0 });
        let mut done = part.clone();
        done["text"] = json!(text);
        part["part"] = item["content"][0].clone();
        let name = match kind {
            Kind::Message => {
                done["logprobs"] = json!([]);
                "response.output_text.done"
            }
            Kind::Reasoning => "response.reasoning_text.done",
        };
        events.push(self.event(name, done));
        events.push(self.event("response.content_part.done", part));
        events.push(self.event("response.output_item.done", json!({ "output_index": index, "item": item })));
        self.output.push(item);
    }

    fn call(&mut self, call: &Call, events: &mut Vec<Value>) {
        self.close(events);
        let (id, index) = (self.item_id("fc"), self.output.len());
        let function = self.answer.call(0, index, call);
        let (name, arguments) = (&function["function"]["name"], &function["function"]["arguments"]);
        let item = |arguments: &Value, status: &str| {
            json!({
                "id": id, "type": "function_call", "call_id": function["id"], "name": name, "arguments": arguments,
                "status": status,
            })
        };
        let (begun, done) = (item(&json!(""), "in_progress"), item(arguments, "completed"));
        events.push(self.event("response.output_item.added", json!({ "output_index": index, "item": begun })));
        for (event, field) in [("delta", "delta"), ("done", "arguments")] {
            let fields = json!({ "item_id": id, "output_index": index, field: arguments });
            events.push(self.event(&format!("response.function_call_arguments.{event}"), fields));
        }
        events.push(self.event("response.output_item.done", json!({ "output_index": index, "item": done })));
        self.output.push(done);
    }

    /// The last event, with the whole response.
    fn end(&mut self, tokens: u32) -> Value {
        let response = self.response(tokens);
        self.event(&format!("response.{}", self.status()), json!({ "response": response }))
    }

    /// Response with all of its items and the counts of tokens.
    fn response(&self, tokens: u32) -> Value {
        let prompt = self.answer.prompt_tokens;
        let usage = json!({
            "input_tokens": prompt,
            "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": tokens,
            "output_tokens_details": { "reasoning_tokens": self.reasoning_tokens },
            "total_tokens": prompt + tokens as usize,
        });
        self.object(self.status(), usage)
    }

    fn object(&self, status: &str, usage: Value) -> Value {
        let mut object = json!({
            "id": format!("resp_{:016x}", self.answer.id),
            "object": "response",
            "created_at": self.answer.created,
            "status": status,
            "error": null,
            "incomplete_details": self.is_cut.then(|| json!({ "reason": "max_output_tokens" })),
            "model": self.answer.model,
            "output": self.output,
            "usage": usage,
        });
        for (name, value) in self.repeated.as_object().into_iter().flatten() {
            object[name] = value.clone();
        }
        object
    }
}
