//! One end of a session that writes down the meaning of frames.

use outrider_codec::{
    error::{DecodeError, ParameterError},
    frame::{Finish, Frame, Next, Request},
    rule::StatisticKind,
    scheme::{Code, Downlink, Drafts, Scheme, SchemeParameters},
};
use outrider_speculation::{
    judge::{Need, Rule},
    sample::SharedNoise,
};
use outrider_tests::samplings::NEUTRAL;
use serde_json::{Value, json};

/// One end's state of a session: decodes frame after frame.
pub struct Reader {
    pub vocab_size: u32,
    pub scheme: Option<Scheme>,
    pub statistics: Option<StatisticKind>,
    pub pending: Drafts,
}

impl Reader {
    pub fn new(vocab_size: u32) -> Self {
        Self { vocab_size, scheme: None, statistics: None, pending: Drafts::Ids(Vec::new()) }
    }

    /// Decodes a frame and returns its line of a golden file.
    pub fn step(&mut self, bytes: &[u8]) -> Value {
        match self.decode(bytes) {
            Ok(value) => json!({ "hex": hex(bytes), "value": value }),
            Err(error) => json!({ "hex": hex(bytes), "error": error }),
        }
    }

    pub fn decode(&mut self, bytes: &[u8]) -> Result<Value, String> {
        let frame = Frame::decode(bytes).map_err(|error: DecodeError| format!("{error:?}"))?;
        assert_eq!(frame.encode(), bytes);
        match &frame {
            Frame::Prompt(prompt) => {
                let mut scheme = Scheme::new(prompt.scheme, self.vocab_size)
                    .map_err(|error: ParameterError| format!("{error:?}"))?;
                scheme.prime(&prompt.request.tokens);
                self.scheme = Some(scheme);
                let rule =
                    Rule::from_wire(prompt.rule.number, prompt.rule.parameter).map_err(|error| format!("{error:?}"))?;
                let kind = match rule.info().need {
                    Need::Nothing => None,
                    Need::Peak | Need::Entropy => Some(StatisticKind::Scalar),
                    Need::Support | Need::Whole => Some(StatisticKind::Support),
                };
                let is_known = prompt.request.sampling == NEUTRAL && prompt.scheme == SchemeParameters::Dense;
                self.statistics = kind.filter(|_| !is_known);
            }
            Frame::Draft(draft) => {
                if let Some(scheme) = &mut self.scheme {
                    let mut taught = scheme.clone();
                    taught.prime(&draft.passed);
                    let malformed = |error: DecodeError| format!("{error:?}");
                    let (statistics, payload) = match self.statistics {
                        Some(kind) => kind.take(&draft.payload, draft.count).map_err(malformed)?,
                        None => (Vec::new(), &draft.payload[..]),
                    };
                    let drafts = taught.decode_round(payload, draft.count).map_err(malformed)?;
                    let mut value = frame_value(&frame);
                    value.as_object_mut().unwrap().remove("payload");
                    value["statistics"] = json!(statistics);
                    value["drafts"] = drafts_value(&drafts);
                    self.pending = drafts;
                    *scheme = taught;
                    return Ok(value);
                }
            }
            Frame::Verdict(verdict) => {
                let token = if let Next::Token(token) = verdict.next { Some(token) } else { None };
                if let Some(scheme) = &mut self.scheme {
                    scheme.commit(&self.pending, verdict.accepted.into(), token);
                }
            }
            Frame::Tokens(tokens) => {
                if let Some(scheme) = &mut self.scheme {
                    scheme.prime(&tokens.ids);
                }
            }
            _ => {}
        }
        Ok(frame_value(&frame))
    }
}

fn frame_value(frame: &Frame) -> Value {
    let mut value = match frame {
        Frame::Hello(hello) => {
            json!({ "vocab_size": hello.vocab_size, "tokenizer_hash": hex(&hello.tokenizer_hash) })
        }
        Frame::Welcome(welcome) => json!({
            "vocab_size": welcome.vocab_size,
            "context_length": welcome.limits.context_length,
            "max_draft": welcome.limits.max_draft_tokens,
            "max_in_flight": welcome.limits.max_in_flight,
            "max_guesses": welcome.limits.max_guesses,
            "max_branches": welcome.limits.max_branches,
            "own_draws": welcome.limits.own_draws,
            "fewest_passes": welcome.limits.fewest_passes,
            "end_of_text": welcome.eos_ids,
            "session": hex(&welcome.ticket.id),
            "secret": hex(&welcome.ticket.secret),
            "detached_seconds": welcome.detached_seconds,
            "pass_micros": welcome.pass_micros,
        }),
        Frame::Resume(resume) => json!({
            "session": hex(&resume.ticket.id),
            "secret": hex(&resume.ticket.secret),
            "attempt": resume.attempt,
            "generation": resume.generation,
            "length": resume.length,
        }),
        Frame::Prompt(prompt) => {
            let mut value = request_value(&prompt.request);
            value["parameters"] = scheme_value(prompt.scheme);
            value["rule"] = json!({ "number": prompt.rule.number, "parameter": prompt.rule.parameter });
            value["evidence"] = json!(prompt.evidence);
            if prompt.blocks {
                value["blocks"] = json!(true);
            }
            value["max_in_flight"] = json!(prompt.max_in_flight);
            value
        }
        Frame::Generate(request) => request_value(request),
        Frame::Draft(draft) => json!({
            "generation": draft.generation,
            "round": draft.round,
            "epoch": draft.epoch,
            "continued": draft.continued,
            "count": draft.count,
            "resampled": draft.resampled,
            "stream": draft.stream,
            "passed": draft.passed,
            "payload": hex(&draft.payload),
        }),
        Frame::Shape(shape) => {
            json!({ "generation": shape.generation, "answered": shape.answered, "options": shape.options })
        }
        Frame::Cancel { generation } => json!({ "generation": generation }),
        Frame::Resample { generation, round } => json!({ "generation": generation, "round": round }),
        Frame::Verdict(verdict) => {
            let mut value = json!({
                "generation": verdict.generation,
                "round": verdict.round,
                "accepted": verdict.accepted,
                "finish": finish_name(verdict.finish),
            });
            match &verdict.next {
                Next::Nothing => {}
                Next::Token(token) => value["token"] = json!(token),
                Next::Samples(samples) => value["samples"] = json!(samples),
                Next::Distribution(target) => value["distribution"] = json!(target.0),
            }
            value
        }
        Frame::Distribution(distribution) => json!({
            "generation": distribution.generation,
            "round": distribution.round,
            "distribution": distribution.target.0,
        }),
        Frame::Evidence(evidence) => json!({
            "generation": evidence.generation,
            "round": evidence.round,
            "index": evidence.index,
            "rejection": evidence.rejection,
            "divergence": evidence.divergence,
            "distribution": evidence.target.0,
        }),
        Frame::Tokens(tokens) => json!({
            "generation": tokens.generation,
            "finish": finish_name(tokens.finish),
            "own": tokens.own,
            "heard": tokens.heard,
            "accepted": tokens.accepted,
            "pass": tokens.pass,
            "position": tokens.position,
            "tokens": tokens.ids,
        }),
        Frame::Guesses(guesses) => json!({
            "generation": guesses.generation,
            "chain": guesses.chain,
            "position": guesses.position,
            "patience": guesses.patience,
            "count": guesses.count,
            "parent": (guesses.parent > 0).then_some(guesses.parent),
            "payload": hex(&guesses.payload),
        }),
        Frame::Error(error) => {
            json!({ "generation": error.generation, "code": error.code.number(), "message": error.text })
        }
        Frame::Bye => json!({}),
    };
    value["frame"] = json!(frame.name());
    value
}

fn request_value(request: &Request) -> Value {
    json!({
        "generation": request.generation,
        "temperature": request.sampling.temperature,
        "top_k": request.sampling.top_k,
        "top_p": request.sampling.top_p,
        "seed": request.seed,
        "max_new_tokens": request.max_new_tokens,
        "prompt": request.tokens,
    })
}

fn scheme_value(scheme: SchemeParameters) -> Value {
    let code_name = |code| match code {
        Code::Enumerative => "enumerative",
        Code::Adaptive => "adaptive",
    };
    match scheme {
        SchemeParameters::Dense => json!({ "scheme": "dense" }),
        SchemeParameters::Qs { lattice_resolution, code } => {
            json!({ "scheme": "QS", "lattice_resolution": lattice_resolution, "code": code_name(code) })
        }
        SchemeParameters::KSqs { support_size, lattice_resolution, code } => json!({
            "scheme": "K-SQS",
            "support_size": support_size,
            "lattice_resolution": lattice_resolution,
            "code": code_name(code),
        }),
        SchemeParameters::CSqs { lattice_resolution, code } => {
            json!({ "scheme": "C-SQS", "lattice_resolution": lattice_resolution, "code": code_name(code) })
        }
        SchemeParameters::TkSlt { support_size } => json!({ "scheme": "TK-SLT", "support_size": support_size }),
        SchemeParameters::Dssd { downlink: Downlink::Full } => json!({ "scheme": "DSSD", "samples": 0 }),
        SchemeParameters::Dssd { downlink: Downlink::Sampled(samples) } => {
            json!({ "scheme": "DSSD", "samples": samples })
        }
        SchemeParameters::Coupled => json!({ "scheme": "coupled" }),
    }
}

fn drafts_value(drafts: &Drafts) -> Value {
    match drafts {
        Drafts::Distributions(tokens) => tokens
            .iter()
            .map(|token| {
                json!({
                    "id": token.id,
                    "ids": token.dist.ids(),
                    "counts": token.dist.counts(),
                    "support_size": token.support_size,
                })
            })
            .collect(),
        Drafts::Probabilities(tokens) => {
            tokens.iter().map(|token| json!({ "id": token.id, "count": token.count, "total": token.total })).collect()
        }
        Drafts::Ids(ids) => json!(ids),
    }
}

fn finish_name(finish: Option<Finish>) -> &'static str {
    match finish {
        None => "none",
        Some(Finish::Eos) => "end of text",
        Some(Finish::Length) => "max new tokens",
        Some(Finish::Context) => "context full",
    }
}

/// A distribution and the id that is chosen from it; or two ids and, to its last bit, the ratio of their noise.
pub fn noise(drawn: &Value) -> Value {
    let number = |field: &str| drawn[field].as_u64().unwrap();
    let shared = SharedNoise::new(number("seed"));
    let position = number("position") as usize;
    let mut found = drawn.clone();
    if drawn["law"] == "pair" {
        let (first, second) = (number("first") as usize, number("second") as usize);
        let is_second_chosen = |bits: u64| {
            let mut distribution = vec![0.0; second + 1];
            distribution[first] = 1.0;
            distribution[second] = f64::from_bits(bits);
            shared.choose(position, &distribution) == second as u32
        };
        // The order of positive floats is that of their bits.
        let (mut too_small, mut enough) = ((1e-9f64).to_bits(), (1e9f64).to_bits());
        assert!(first < second && !is_second_chosen(too_small) && is_second_chosen(enough));
        while enough - too_small > 1 {
            let middle = too_small.midpoint(enough);
            if is_second_chosen(middle) {
                enough = middle;
            } else {
                too_small = middle;
            }
        }
        found["least_bits"] = json!(enough);
    } else {
        let weight = |id: u64| if drawn["law"] == "uniform" { 1.0 } else { 1.0 / (id + 1) as f64 };
        let weights: Vec<f64> = (0..number("vocab_size")).map(weight).collect();
        found["chosen"] = json!(shared.choose(position, &weights));
    }
    found
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn from_hex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// A golden file: a frame a line.
pub fn text(golden: &Value) -> String {
    let lines = |list: &Value| {
        let lines: Vec<String> = list.as_array().unwrap().iter().map(Value::to_string).collect();
        lines.join(",\n")
    };
    let sessions: Vec<String> = golden["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| {
            format!(
                "{{\"name\": {}, \"vocab_size\": {}, \"frames\": [\n{}\n]}}",
                session["name"],
                session["vocab_size"],
                lines(&session["frames"])
            )
        })
        .collect();
    let noise = golden.get("noise").map_or(String::new(), |noise| format!(",\n\"noise\": [\n{}\n]", lines(noise)));
    format!("{{\"sessions\": [\n{}\n]{noise}}}\n", sessions.join(",\n"))
}
