//! Frames to bytes.

use super::{Finish, Frame, MAX_ERROR_TEXT, Next, PROTOCOL_VERSION, Request, TargetDist, Ticket, tags::*};
use crate::{rule::RuleParameters, wire::put_varint};

impl Frame {
    /// The frame's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Frame::Hello(hello) => {
                out.push(HELLO);
                out.extend(MAGIC);
                out.extend(PROTOCOL_VERSION.to_le_bytes());
                out.extend(hello.vocab_size.to_le_bytes());
                out.extend(hello.tokenizer_hash);
            }
            Frame::Welcome(welcome) => {
                out.push(WELCOME);
                out.extend(PROTOCOL_VERSION.to_le_bytes());
                out.extend(welcome.vocab_size.to_le_bytes());
                out.extend(welcome.context_length.to_le_bytes());
                out.push(welcome.max_draft_tokens);
                out.push(welcome.max_in_flight);
                out.push(welcome.max_guesses);
                out.push(welcome.max_branches);
                let flags = [(welcome.own_draws, OWN_DRAWS), (welcome.fewest_passes, FEWEST_PASSES)];
                out.push(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
                put_ids(&mut out, &welcome.eos_ids);
                put_ticket(&mut out, &welcome.ticket);
                put_varint(&mut out, welcome.detached_seconds);
            }
            Frame::Resume(resume) => {
                out.push(RESUME);
                out.extend(MAGIC);
                out.extend(PROTOCOL_VERSION.to_le_bytes());
                put_ticket(&mut out, &resume.ticket);
                put_varint(&mut out, resume.attempt);
                put_varint(&mut out, resume.generation);
                put_varint(&mut out, resume.length);
            }
            Frame::Prompt(prompt) => {
                out.push(PROMPT);
                prompt.scheme.put(&mut out);
                put_rule(&mut out, prompt.rule, prompt.evidence);
                out.push(prompt.max_in_flight);
                put_request(&mut out, &prompt.request);
            }
            Frame::Generate(request) => {
                out.push(GENERATE);
                put_request(&mut out, request);
            }
            Frame::Draft(draft) => {
                let is_long = draft.stream > 0 || !draft.passed.is_empty();
                let kind = if is_long { LONG_DRAFT } else { DRAFT };
                let flight = draft.epoch << 1 | if draft.continued { CONTINUED } else { 0 };
                out.push(if flight > 0 { kind | IN_FLIGHT } else { kind });
                put_varint(&mut out, draft.generation);
                put_varint(&mut out, draft.round);
                if flight > 0 {
                    put_varint(&mut out, flight);
                }
                match draft.resampled {
                    None => out.push(draft.count),
                    Some(token) => {
                        out.push(draft.count | HAS_RESAMPLED);
                        put_varint(&mut out, token);
                    }
                }
                if is_long {
                    put_varint(&mut out, draft.stream);
                    put_ids(&mut out, &draft.passed);
                }
                out.extend(&draft.payload);
            }
            Frame::Guesses(guesses) => {
                out.push(GUESSES);
                put_varint(&mut out, guesses.generation);
                put_varint(&mut out, guesses.chain);
                put_varint(&mut out, guesses.position);
                put_varint(&mut out, guesses.patience);
                match guesses.parent {
                    0 => out.push(guesses.count),
                    parent => {
                        out.push(guesses.count | IS_BRANCH);
                        put_varint(&mut out, parent);
                    }
                }
                out.extend(&guesses.payload);
            }
            Frame::Cancel { generation } => {
                out.push(CANCEL);
                put_varint(&mut out, *generation);
            }
            Frame::Verdict(verdict) => {
                out.push(VERDICT);
                put_varint(&mut out, verdict.generation);
                put_varint(&mut out, verdict.round);
                out.push(verdict.accepted);
                let kind = match &verdict.next {
                    Next::Nothing => 0,
                    Next::Token(_) => 1,
                    Next::Samples(_) => 2,
                    Next::Distribution(_) => 3,
                };
                out.push(kind << 4 | finish_bits(verdict.finish));
                match &verdict.next {
                    Next::Nothing => {}
                    Next::Token(token) => put_varint(&mut out, *token),
                    Next::Samples(samples) => put_samples(&mut out, samples),
                    Next::Distribution(target) => put_target(&mut out, target),
                }
            }
            Frame::Resample { generation, round } => {
                out.push(RESAMPLE);
                put_varint(&mut out, *generation);
                put_varint(&mut out, *round);
            }
            Frame::Distribution(distribution) => {
                out.push(DISTRIBUTION);
                put_varint(&mut out, distribution.generation);
                put_varint(&mut out, distribution.round);
                put_target(&mut out, &distribution.target);
            }
            Frame::Evidence(evidence) => {
                out.push(EVIDENCE);
                put_varint(&mut out, evidence.generation);
                put_varint(&mut out, evidence.round);
                out.push(evidence.index);
                out.extend(evidence.rejection.to_le_bytes());
                out.extend(evidence.divergence.to_le_bytes());
                put_target(&mut out, &evidence.target);
            }
            Frame::Tokens(tokens) => {
                out.push(TOKENS);
                put_varint(&mut out, tokens.generation);
                out.push(finish_bits(tokens.finish) | if tokens.own { OWN_DRAFTS } else { 0 });
                out.push(tokens.heard);
                out.push(tokens.accepted);
                put_varint(&mut out, tokens.pass);
                put_varint(&mut out, tokens.position);
                put_ids(&mut out, &tokens.ids);
            }
            Frame::Error(error) => {
                out.push(ERROR);
                put_varint(&mut out, error.generation);
                out.extend(error.code.number().to_le_bytes());
                let text = cut(&error.text, MAX_ERROR_TEXT);
                put_varint(&mut out, text.len() as u32);
                out.extend(text.as_bytes());
            }
            Frame::Bye => out.push(BYE),
        }
        out
    }
}

fn put_ticket(out: &mut Vec<u8>, ticket: &Ticket) {
    out.extend(ticket.id);
    out.extend(ticket.secret);
}

fn put_rule(out: &mut Vec<u8>, rule: RuleParameters, evidence: bool) {
    out.push(if evidence { rule.number | WANTS_EVIDENCE } else { rule.number });
    if rule.number != RuleParameters::EXACT.number {
        out.extend(rule.parameter.to_le_bytes());
    }
}

fn put_samples(out: &mut Vec<u8>, samples: &[(u32, f32)]) {
    put_varint(out, samples.len() as u32);
    for &(id, p) in samples {
        put_varint(out, id);
        out.extend(p.to_le_bytes());
    }
}

/// Two layouts, the shorter is the one that counts: gaps between ids and probabilities, or all ids' probabilities up
/// to the last that has any.
pub(super) fn put_target(out: &mut Vec<u8>, target: &TargetDist) {
    let mut sparse = vec![SPARSE];
    put_varint(&mut sparse, target.0.len() as u32);
    let mut next = 0;
    for &(id, p) in &target.0 {
        put_varint(&mut sparse, id - next);
        sparse.extend(p.to_le_bytes());
        next = id + 1;
    }
    let mut dense = vec![DENSE_TARGET];
    put_varint(&mut dense, next);
    if sparse.len() <= dense.len() + 4 * next as usize {
        out.extend(sparse);
        return;
    }
    next = 0;
    for &(id, p) in &target.0 {
        dense.extend((next..id).flat_map(|_| 0f32.to_le_bytes()));
        dense.extend(p.to_le_bytes());
        next = id + 1;
    }
    out.extend(dense);
}

fn put_request(out: &mut Vec<u8>, request: &Request) {
    put_varint(out, request.generation);
    out.extend(request.sampling.temperature.to_le_bytes());
    put_varint(out, request.sampling.top_k);
    out.extend(request.sampling.top_p.to_le_bytes());
    out.extend(request.seed.to_le_bytes());
    put_varint(out, request.max_new_tokens);
    put_ids(out, &request.tokens);
}

fn put_ids(out: &mut Vec<u8>, ids: &[u32]) {
    put_varint(out, ids.len() as u32);
    for &id in ids {
        put_varint(out, id);
    }
}

fn finish_bits(finish: Option<Finish>) -> u8 {
    finish.map_or(0, |finish| finish as u8)
}

/// The longest prefix of `text` that is UTF-8 and has at most `limit` bytes.
fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}
