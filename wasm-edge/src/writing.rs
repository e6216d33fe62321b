//! Text output of a generation: tokens with their texts, up to a stop string, and tool calls in them.

use std::collections::VecDeque;

use outrider_models::{CallReader, Piece, StopStrings, TextStream, TokenTexts, Tokenizer};
use outrider_speculation::session::edge::Committed;

use crate::options::{PieceEvent, TokenEvent, TokenEvidence};

/// Incremental text output of a generation.
pub struct Writing<'a> {
    tokenizer: &'a Tokenizer,
    texts: TokenTexts,
    /// Reader for tool calls, if there are tools.
    calls: Option<CallReader>,
    /// Tokens whose texts are not certain yet.
    waiting: VecDeque<TokenEvent>,
    /// Number of waiting tokens that were already shown before a reload, when later tokens had made them certain.
    shown: usize,
    with_evidence: bool,
    text: String,
    ids: Vec<u32>,
    pieces: Vec<PieceEvent>,
}

/// Output that has become certain.
#[derive(Default)]
pub struct Certain {
    pub tokens: Vec<TokenEvent>,
    pub pieces: Vec<PieceEvent>,
}

/// Complete output of a generation.
pub struct Written {
    pub text: String,
    pub ids: Vec<u32>,
    /// Text and tool calls, if there are tools.
    pub pieces: Vec<PieceEvent>,
}

impl<'a> Writing<'a> {
    /// Creates the output at the end of a prompt and of the tokens shown before a reload.
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

    /// Returns true once a stop string has been found; nothing is added afterwards.
    pub fn has_stopped(&self) -> bool {
        self.texts.has_stopped()
    }

    /// Adds tokens and returns the output that has become certain.
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

    /// Returns the text that guesses would add to the reported text.
    pub fn text_of_guesses(&self, ids: &[u32]) -> String {
        let mut texts = self.texts.clone();
        ids.iter().flat_map(|id| texts.push(self.tokenizer, *id)).collect()
    }

    /// Ends the text and returns the remaining output.
    pub fn finish(&mut self) -> Certain {
        let before = self.pieces.len();
        let (mut texts, rest) = self.texts.finish();
        // Bytes that form no character belong to the last token, which may already have been reported.
        match texts.last_mut() {
            Some(last) => last.push_str(&rest),
            None => self.text.push_str(&rest),
        }
        let tokens = self.take(texts);
        self.end_calls();
        Certain { tokens, pieces: self.pieces[before..].to_vec() }
    }

    /// Returns the complete output.
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

    /// Takes the oldest waiting tokens, with these texts.
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
            Piece::Call(call) => Self::Call { name: call.name, arguments: call.arguments },
        }
    }
}
