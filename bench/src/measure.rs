//! What `cargo xtask bench codec` times, natively and in the browser: drafts that were made once, encoded and decoded
//! again and again. The browser's half includes this file (`wasm-edge/examples/codec_bench.rs`).

use std::fmt::Write;

use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    scheme::{Drafts, Scheme, SchemeParameters},
};
use outrider_speculation::session::options::{DraftingOptions, SchemeName};

use crate::timing::microseconds;

/// Drafts of a round.
pub const DRAFT_LENGTH: usize = 4;
/// Rounds of a case that are timed, spread evenly over it.
const TIMED_ROUNDS: usize = 24;
/// Batches of which the fastest counts.
const BATCHES: usize = 5;

/// One row of the table: a scheme, a vocabulary and a text's worth of drafts.
#[derive(Debug, Clone)]
pub struct Case {
    /// Where the distributions come from: a word without spaces.
    pub source: String,
    /// Scheme, code, K and ℓ.
    pub options: DraftingOptions,
    /// V.
    pub vocab_size: u32,
    /// Rounds of [`DRAFT_LENGTH`] drafts.
    pub rounds: Vec<Vec<DraftToken>>,
}

/// Medians over rounds of the fastest batch, in microseconds a token.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Of encoding.
    pub encode: f64,
    /// Of decoding.
    pub decode: f64,
}

/// Why a case cannot be timed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Case {
    /// The scheme with its parameters.
    pub fn parameters(&self) -> SchemeParameters {
        self.options.scheme()
    }

    /// Encodes and decodes each round until `batch_ms` have passed, by a clock `now` in milliseconds.
    pub fn time(&self, now: &dyn Fn() -> f64, batch_ms: f64) -> Result<Times, Failure> {
        let mut scheme = Scheme::new(self.parameters(), self.vocab_size)?;
        let step = (self.rounds.len() / TIMED_ROUNDS).max(1);
        let (mut encode, mut decode) = (Vec::new(), Vec::new());
        for (i, round) in self.rounds.iter().enumerate() {
            let drafts = Drafts::Distributions(round.clone());
            if i % step == step - 1 {
                let payload = scheme.encode_round(&drafts)?;
                let count = u8::try_from(round.len())?;
                if scheme.decode_round(&payload, count)? != drafts {
                    return Err("a round does not survive its code".into());
                }
                let tokens = round.len() as f64;
                encode.push(microseconds(now, batch_ms, BATCHES, || scheme.encode_round(&drafts).is_ok()) / tokens);
                decode.push(
                    microseconds(now, batch_ms, BATCHES, || scheme.decode_round(&payload, count).is_ok()) / tokens,
                );
            }
            scheme.commit(&drafts, round.len(), None);
        }
        Ok(Times { encode: median(encode), decode: median(decode) })
    }

    /// Appends the case as lines of text.
    pub fn write(&self, out: &mut String) -> Result<(), Failure> {
        let options = &self.options;
        let code = if options.code == outrider_speculation::session::options::Code::Adaptive {
            "adaptive"
        } else {
            "enumerative"
        };
        let (scheme, k, l) = (options.scheme().name(), options.support_size, options.lattice_resolution);
        writeln!(out, "case {} {scheme} {code} {k} {l} {}", self.source, self.vocab_size)?;
        for round in &self.rounds {
            out.push_str("round\n");
            for token in round {
                write!(out, "{} {}", token.id, token.support_size)?;
                for (id, count) in token.dist.ids().iter().zip(token.dist.counts()) {
                    write!(out, " {id}:{count}")?;
                }
                out.push('\n');
            }
        }
        Ok(())
    }

    /// Reads cases.
    pub fn read_all(text: &str) -> Result<Vec<Self>, Failure> {
        let mut cases: Vec<Self> = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match (&words[..], cases.last_mut()) {
                (&["case", source, scheme, code, k, l, v], _) => cases.push(Self {
                    source: source.to_owned(),
                    options: DraftingOptions {
                        scheme: scheme.parse::<SchemeName>()?.into(),
                        code: code.parse()?,
                        support_size: k.parse()?,
                        lattice_resolution: l.parse()?,
                        ..DraftingOptions::default()
                    },
                    vocab_size: v.parse()?,
                    rounds: Vec::new(),
                }),
                (["round"], Some(case)) => case.rounds.push(Vec::new()),
                ([id, support_size, masses @ ..], Some(Self { rounds, .. })) => {
                    let (mut ids, mut counts) = (Vec::new(), Vec::new());
                    for mass in masses {
                        let (id, count) = mass.split_once(':').ok_or("a mass is id:count")?;
                        ids.push(id.parse()?);
                        counts.push(count.parse()?);
                    }
                    let dist = DraftDist::new(ids, counts)?;
                    let token = DraftToken { id: id.parse()?, support_size: support_size.parse()?, dist };
                    rounds.last_mut().ok_or("a token stands in no round")?.push(token);
                }
                _ => return Err("a line is out of place".into()),
            }
        }
        Ok(cases)
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
