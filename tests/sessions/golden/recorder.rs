//! Sessions that are recorded as they are made.

use std::collections::BTreeSet;

use outrider_codec::{
    bits::BitWriter,
    distribution::{DraftDist, DraftToken},
    frame::{Draft, Frame, Next, Prompt, Request, SamplingParameters, Verdict},
    scheme::{Code, Drafts, Scheme, SchemeParameters},
};
use serde_json::{Value, json};

use super::reader::Reader;

pub const GENERATION: u32 = 1;

/// The vocabulary of Qwen's models.
pub const LARGE: u32 = 151_936;

pub const ENUMERATIVE: Code = Code::Enumerative;

pub const ADAPTIVE: Code = Code::Adaptive;

/// A session that is being recorded.
pub struct Recorder {
    name: &'static str,
    pub reader: Reader,
    pub frames: Vec<Value>,
    pub round: u32,
}

impl Recorder {
    pub fn new(name: &'static str, vocab_size: u32) -> Self {
        Self { name, reader: Reader::new(vocab_size), frames: Vec::new(), round: 0 }
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.frames.push(self.reader.step(bytes));
    }

    pub fn malformed(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
        let step = self.frames.last().unwrap();
        assert!(step.get("error").is_some(), "{}: was meant to be malformed: {step}", self.name);
    }

    pub fn frame(&mut self, frame: &Frame) {
        self.bytes(&frame.encode());
        let step = self.frames.last().unwrap();
        assert!(step.get("error").is_none(), "{}: was meant to be well-formed: {step}", self.name);
    }

    pub fn prompt(&mut self, scheme: SchemeParameters, tokens: &[u32]) {
        self.frame(&Frame::Prompt(Prompt::exact(scheme, request(tokens))));
        self.round = 0;
    }

    pub fn draft(&self, payload: &[u8], count: usize) -> Vec<u8> {
        Frame::Draft(Draft {
            generation: GENERATION,
            round: self.round,
            count: count as u8,
            payload: payload.to_vec(),
            ..Draft::default()
        })
        .encode()
    }

    pub fn payload(&self, drafts: &Drafts) -> Vec<u8> {
        self.reader.scheme.as_ref().unwrap().encode_round(drafts).unwrap()
    }

    /// A draft and its verdict; the draft cut short and with a byte more before it.
    pub fn round(&mut self, drafts: &Drafts, accepted: u8, token: u32) {
        let payload = self.payload(drafts);
        let malformed = |payload: &[u8]| self.draft(payload, drafts.len());
        let mut wrong = vec![malformed(&[&payload[..], &[0]].concat())];
        if let Some((_, shorter)) = payload.split_last() {
            wrong.push(malformed(shorter));
        }
        if self.round == 0 {
            wrong.iter().for_each(|bytes| self.malformed(bytes));
        }
        self.bytes(&self.draft(&payload, drafts.len()));
        assert_eq!(self.reader.pending, *drafts);
        self.frame(&Frame::Verdict(Verdict {
            generation: GENERATION,
            round: self.round,
            accepted,
            next: Next::Token(token),
            finish: None,
        }));
        self.round += 1;
    }

    pub fn done(self) -> Value {
        json!({ "name": self.name, "vocab_size": self.reader.vocab_size, "frames": self.frames })
    }
}

/// A source of numbers for test data.
pub struct Source(pub u64);

impl Source {
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u64::from((self.0 >> 32) as u32) * u64::from(bound)) >> 32) as u32
    }

    /// A token of m ids below `range`.
    pub fn token(&mut self, scheme: &Scheme, range: u32, m: u32, resolution: u32) -> DraftToken {
        let mut ids = BTreeSet::new();
        while ids.len() < m as usize {
            ids.insert(self.below(range));
        }
        let mut counts = vec![1; ids.len()];
        let mut rest = resolution - m;
        while rest > 0 {
            let part = 1 + self.below(rest.div_ceil(3));
            counts[self.below(m) as usize] += part;
            rest -= part;
        }
        let ids: Vec<u32> = ids.into_iter().collect();
        let id = ids[self.below(m) as usize];
        token(scheme, id, &ids, &counts)
    }
}

pub fn token(scheme: &Scheme, id: u32, ids: &[u32], counts: &[u32]) -> DraftToken {
    let dist = DraftDist::new(ids.to_vec(), counts.to_vec()).unwrap();
    DraftToken { id, support_size: scheme.support_size(ids.len() as u32, &dist), dist }
}

pub fn request(tokens: &[u32]) -> Request {
    Request {
        generation: GENERATION,
        sampling: SamplingParameters { temperature: 0.7, top_k: 40, top_p: 0.95 },
        seed: 0x0123_4567_89ab_cdef,
        max_new_tokens: 128,
        tokens: tokens.to_vec(),
    }
}

/// A session that starts with a prompt.
pub fn session(name: &'static str, vocab_size: u32, scheme: SchemeParameters, prompt: &[u32]) -> (Recorder, Scheme) {
    let mut recorder = Recorder::new(name, vocab_size);
    recorder.prompt(scheme, prompt);
    (recorder, Scheme::new(scheme, vocab_size).unwrap())
}

/// A payload of these numbers, each with its number of bits.
pub fn bits(fields: &[(u64, u32)]) -> Vec<u8> {
    let mut out = BitWriter::new();
    for &(value, width) in fields {
        out.put(value, width);
    }
    out.into_bytes()
}

pub fn refuse_all(mut recorder: Recorder, payloads: &[Vec<u8>]) -> Value {
    for payload in payloads {
        recorder.malformed(&recorder.draft(payload, 1));
    }
    recorder.done()
}
