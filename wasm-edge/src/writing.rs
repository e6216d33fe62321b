//! A text as it is written: tokens with their texts, up to a stop string, and the calls of tools in them.

use std::collections::VecDeque;

use outrider_models::{CallReader, Piece, StopStrings, TextStream, TokenTexts, Tokenizer};
use outrider_speculation::session::edge::Committed;

use crate::options::{PieceEvent, TokenEvent, TokenEvidence};

/// A text that is being written.
pub struct Writing<'a> {
    tokenizer: &'a Tokenizer,
    texts: TokenTexts,
    /// Where there are tools to call.
    calls: Option<CallReader>,
    /// Tokens whose texts are not certain.
    waiting: VecDeque<TokenEvent>,
    /// How many of them were shown before all the same: what followed then had made them certain.
    shown: usize,
    with_evidence: bool,
    text: String,
    ids: Vec<u32>,
    pieces: Vec<PieceEvent>,
}

/// What has become certain.
#[derive(Default)]
pub struct Certain {
    pub tokens: Vec<TokenEvent>,
    pub pieces: Vec<PieceEvent>,
}

/// All that was written.
pub struct Written {
    pub text: String,
    pub ids: Vec<u32>,
    /// Text and calls, where there were tools to call.
    pub pieces: Vec<PieceEvent>,
}

impl<'a> Writing<'a> {
    /// A writer at the end of a prompt and of the tokens that were shown before.
    pub fn new(
        tokenizer: &'a Tokenizer,
        stops: StopStrings,
        calls: Option<CallReader>,
        with_evidence: bool,
        (prompt, committed): (&[u32], &[u32]),
    ) -> Self {
        let (texts, waiting) = (TokenTexts::new(stops, TextStream::after(tokenizer, prompt)), VecDeque::new());
        let (text, ids, pieces) = (String::new(), Vec::new(), Vec::new());
        let mut writing = Self { tokenizer, texts, calls, waiting, shown: 0, with_evidence, text, ids, pieces };
        for &id in committed {
            writing.push(TokenEvent { id, text: String::new(), origin: "cloud", evidence: None });
        }
        writing.shown = writing.waiting.len();
        writing
    }

    /// Whether a stop string has come: nothing is added any more.
    pub fn has_stopped(&self) -> bool {
        self.texts.has_stopped()
    }

    /// What has become certain with these tokens.
    pub fn add(&mut self, committed: &Committed) -> Certain {
        let mut tokens = Vec::with_capacity(committed.tokens.len());
        let before = self.pieces.len();
        for (index, &(id, origin)) in committed.tokens.iter().enumerate() {
            let evidence = self.with_evidence.then(|| {
                TokenEvidence::new(committed.evidence.get(index), |id| self.texts.text_of(self.tokenizer, id))
            });
            tokens.extend(self.push(TokenEvent { id, text: String::new(), origin: origin.name(), evidence }));
        }
        if self.has_stopped() {
            self.end_calls();
        }
        Certain { tokens, pieces: self.pieces[before..].to_vec() }
    }

    /// What is left to tell at the end.
    pub fn finish(&mut self) -> Certain {
        let before = self.pieces.len();
        let (mut texts, rest) = self.texts.finish();
        // Bytes that make no character belong to the last token, which may have been told.
        match texts.last_mut() {
            Some(last) => last.push_str(&rest),
            None => self.text.push_str(&rest),
        }
        let tokens = self.take(texts);
        self.end_calls();
        Certain { tokens, pieces: self.pieces[before..].to_vec() }
    }

    /// All of it.
    pub fn into_written(self) -> Written {
        let Self { text, ids, pieces, .. } = self;
        Written { text, ids, pieces }
    }

    fn push(&mut self, token: TokenEvent) -> Vec<TokenEvent> {
        if self.has_stopped() {
            return Vec::new();
        }
        let id = token.id;
        self.ids.push(id);
        self.waiting.push_back(token);
        let texts = self.texts.push(self.tokenizer, id);
        self.take(texts)
    }

    /// The tokens that have waited longest, with these texts.
    fn take(&mut self, texts: Vec<String>) -> Vec<TokenEvent> {
        for text in &texts {
            self.text.push_str(text);
            if let Some(calls) = &mut self.calls {
                self.pieces.extend(calls.push(text).into_iter().map(PieceEvent::from));
            }
        }
        let count = texts.len().min(self.waiting.len());
        let shown = self.shown.min(count);
        self.shown -= shown;
        let tokens = texts.into_iter().zip(self.waiting.drain(..count));
        tokens.skip(shown).map(|(text, token)| TokenEvent { text, ..token }).collect()
    }

    fn end_calls(&mut self) {
        if let Some(mut calls) = self.calls.take() {
            self.pieces.extend(calls.finish().into_iter().map(PieceEvent::from));
        }
    }
}

impl From<Piece> for PieceEvent {
    fn from(piece: Piece) -> Self {
        match piece {
            Piece::Text(text) => Self::Text { text },
            Piece::Call(call) => {
                Self::Call { name: call.name, arguments: serde_json::Value::Object(call.arguments).to_string() }
            }
        }
    }
}
