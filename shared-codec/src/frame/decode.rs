//! Bytes to frames. Total: any bytes give a frame or a named error.

use super::{
    Distribution, Draft, ErrorCode, ErrorFrame, Evidence, Finish, Frame, Guesses, Hello, MAX_DRAFT_TOKENS,
    MAX_ERROR_TEXT, MAX_FRAME_BYTES, Next, PROTOCOL_VERSION, Prompt, Request, Resume, SamplingParameters, TargetDist,
    Ticket, Tokens, Verdict, Welcome, encode::put_target, tags::*,
};
use crate::{error::DecodeError, rule::RuleParameters, scheme::SchemeParameters, wire::ByteReader};

impl Frame {
    /// The frame of a byte string.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MAX_FRAME_BYTES {
            return Err(DecodeError::TooLong { length: bytes.len(), limit: MAX_FRAME_BYTES });
        }
        let mut input = ByteReader::new(bytes);
        let frame = match input.u8("frame kind")? {
            HELLO => {
                check_opening(&mut input)?;
                Frame::Hello(Hello {
                    vocab_size: input.u32("vocabulary size")?,
                    tokenizer_hash: input.array("tokenizer hash")?,
                })
            }
            RESUME => {
                check_opening(&mut input)?;
                Frame::Resume(Resume {
                    ticket: take_ticket(&mut input)?,
                    attempt: input.varint("attempt")?,
                    generation: input.varint("generation")?,
                    length: input.varint("length")?,
                })
            }
            WELCOME => {
                check_version(input.u16("version")?)?;
                let (vocab_size, context_length) = (input.u32("vocabulary size")?, input.u32("context length")?);
                let max_draft_tokens = draft_count(input.u8("maximum draft tokens")?, "maximum draft tokens")?;
                let max_in_flight = take_window(&mut input)?;
                let (max_guesses, max_branches) = (input.u8("maximum guesses")?, input.u8("maximum branches")?);
                let flags = input.u8("welcome flags")?;
                if flags & !(OWN_DRAWS | FEWEST_PASSES) != 0 {
                    return Err(DecodeError::Value { field: "welcome flags", value: flags.into() });
                }
                Frame::Welcome(Welcome {
                    vocab_size,
                    context_length,
                    max_draft_tokens,
                    max_in_flight,
                    max_guesses,
                    max_branches,
                    own_draws: flags & OWN_DRAWS != 0,
                    fewest_passes: flags & FEWEST_PASSES != 0,
                    eos_ids: take_ids(&mut input, "end-of-text ids")?,
                    ticket: take_ticket(&mut input)?,
                    detached_seconds: input.varint("detached lifetime")?,
                })
            }
            PROMPT => {
                let scheme = SchemeParameters::take(&mut input)?;
                let (rule, evidence) = take_rule(&mut input)?;
                let max_in_flight = take_window(&mut input)?;
                Frame::Prompt(Prompt { scheme, rule, evidence, max_in_flight, request: take_request(&mut input)? })
            }
            GENERATE => Frame::Generate(take_request(&mut input)?),
            kind if matches!(kind & !IN_FLIGHT, DRAFT | LONG_DRAFT) => {
                let (generation, round) = (take_generation(&mut input)?, input.varint("round")?);
                let flight = match kind & IN_FLIGHT {
                    0 => 0,
                    _ => match input.varint("epoch")? {
                        0 => return Err(DecodeError::Value { field: "epoch", value: 0 }),
                        flight => flight,
                    },
                };
                let (epoch, continued) = (flight >> 1, flight & CONTINUED != 0);
                let count = input.u8("draft count")?;
                let resampled = if count & HAS_RESAMPLED != 0 { Some(input.varint("resampled token")?) } else { None };
                let count = draft_count(count & !HAS_RESAMPLED, "draft count")?;
                if continued && count == 0 {
                    return Err(DecodeError::Value { field: "epoch", value: flight.into() });
                }
                let is_long = kind & !IN_FLIGHT == LONG_DRAFT;
                let (stream, passed) = if is_long {
                    (input.varint("stream")?, take_ids(&mut input, "passed tokens")?)
                } else {
                    (0, Vec::new())
                };
                if is_long && stream == 0 && passed.is_empty() || stream > 0 && count > 0 {
                    return Err(DecodeError::Value { field: "stream", value: stream.into() });
                }
                // Without drafts to come, nothing more may follow.
                let payload = if stream > 0 { Vec::new() } else { input.rest().to_vec() };
                Frame::Draft(Draft { generation, round, epoch, continued, resampled, passed, stream, count, payload })
            }
            GUESSES => {
                let generation = take_generation(&mut input)?;
                let (chain, position) = (input.varint("chain")?, input.varint("position")?);
                let patience = input.varint("patience")?;
                let count = input.u8("count of guesses")?;
                let is_branch = count & IS_BRANCH != 0;
                let count = draft_count(count & !IS_BRANCH, "count of guesses")?;
                if chain == 0 {
                    return Err(DecodeError::Value { field: "chain", value: 0 });
                }
                let parent = if is_branch { input.varint("chain that is left")? } else { 0 };
                if is_branch && !(1..chain).contains(&parent) {
                    return Err(DecodeError::Value { field: "chain that is left", value: parent.into() });
                }
                // Without guesses nothing more may follow.
                let payload = if count == 0 { Vec::new() } else { input.rest().to_vec() };
                Frame::Guesses(Guesses { generation, chain, parent, position, patience, count, payload })
            }
            RESAMPLE => Frame::Resample { generation: take_generation(&mut input)?, round: input.varint("round")? },
            CANCEL => Frame::Cancel { generation: take_generation(&mut input)? },
            VERDICT => {
                let (generation, round) = (take_generation(&mut input)?, input.varint("round")?);
                let accepted = draft_count(input.u8("accepted")?, "accepted")?;
                let flags = input.u8("verdict flags")?;
                let finish = take_finish(flags & 0x0f)?;
                let next = match flags >> 4 {
                    0 => Next::Nothing,
                    1 => Next::Token(input.varint("token")?),
                    2 => Next::Samples(take_samples(&mut input)?),
                    3 => Next::Distribution(take_target(&mut input)?),
                    _ => return Err(DecodeError::Value { field: "verdict flags", value: flags.into() }),
                };
                // A verdict moves the text on, and what the edge resamples is not the cloud's to end the text with.
                let allowed = match next {
                    Next::Nothing => finish.is_some() || accepted > 0,
                    Next::Token(_) => true,
                    Next::Samples(_) | Next::Distribution(_) => finish.is_none(),
                };
                if !allowed {
                    return Err(DecodeError::Value { field: "verdict flags", value: flags.into() });
                }
                Frame::Verdict(Verdict { generation, round, accepted, next, finish })
            }
            DISTRIBUTION => Frame::Distribution(Distribution {
                generation: take_generation(&mut input)?,
                round: input.varint("round")?,
                target: take_target(&mut input)?,
            }),
            EVIDENCE => Frame::Evidence(Evidence {
                generation: take_generation(&mut input)?,
                round: input.varint("round")?,
                index: match input.u8("index")? {
                    index if index < MAX_DRAFT_TOKENS => index,
                    index => return Err(DecodeError::Value { field: "index", value: index.into() }),
                },
                rejection: take_float(&mut input, "rejection", is_probability)?,
                divergence: take_float(&mut input, "divergence", is_probability)?,
                target: take_target(&mut input)?,
            }),
            TOKENS => {
                let generation = take_generation(&mut input)?;
                let flags = input.u8("flags of tokens")?;
                let (own, finish) = (flags & OWN_DRAFTS != 0, take_finish(flags & !OWN_DRAFTS)?);
                let heard = input.u8("frames heard")?;
                let accepted = draft_count(input.u8("accepted")?, "accepted")?;
                let pass = input.varint("time of the pass")?;
                let position = input.varint("position")?;
                let ids = take_ids(&mut input, "tokens")?;
                // A pass adds a token of the target's own, but behind one that ends the text.
                let own_choice = ids.len().checked_sub(accepted.into());
                if ids.is_empty() || !(own_choice == Some(1) || own_choice == Some(0) && finish.is_some()) {
                    return Err(DecodeError::Value { field: "tokens", value: ids.len() as u64 });
                }
                if own && accepted == 0 {
                    return Err(DecodeError::Value { field: "flags of tokens", value: flags.into() });
                }
                Frame::Tokens(Tokens { generation, position, ids, accepted, own, heard, pass, finish })
            }
            ERROR => {
                let generation = input.varint("generation")?;
                let code = ErrorCode::from_number(input.u16("error code")?);
                let length = input.count("error text")?;
                if length > MAX_ERROR_TEXT {
                    return Err(DecodeError::Value { field: "error text length", value: length as u64 });
                }
                let text = std::str::from_utf8(input.bytes(length, "error text")?)
                    .map_err(|_| DecodeError::Utf8 { field: "error text" })?;
                Frame::Error(ErrorFrame { generation, code, text: text.to_owned() })
            }
            BYE => Frame::Bye,
            kind => return Err(DecodeError::UnknownKind { kind }),
        };
        input.finish()?;
        Ok(frame)
    }
}

/// What the edge's first frame begins with after its kind; the same in every version.
fn check_opening(input: &mut ByteReader<'_>) -> Result<(), DecodeError> {
    if input.array("magic")? != MAGIC {
        return Err(DecodeError::NotOutrider);
    }
    check_version(input.u16("version")?)
}

fn take_ticket(input: &mut ByteReader<'_>) -> Result<Ticket, DecodeError> {
    Ok(Ticket { id: input.array("session id")?, secret: input.array("session secret")? })
}

fn take_rule(input: &mut ByteReader<'_>) -> Result<(RuleParameters, bool), DecodeError> {
    let byte = input.u8("rule")?;
    let (number, evidence) = (byte & !WANTS_EVIDENCE, byte & WANTS_EVIDENCE != 0);
    if number == RuleParameters::EXACT.number {
        return Ok((RuleParameters::EXACT, evidence));
    }
    let is_allowed = |value: f32| value.is_finite() && value.to_bits() != (-0f32).to_bits();
    let parameter = take_float(input, "rule's parameter", is_allowed)?;
    Ok((RuleParameters { number, parameter }, evidence))
}

fn take_samples(input: &mut ByteReader<'_>) -> Result<Vec<(u32, f32)>, DecodeError> {
    match input.count("samples")? {
        0 => Err(DecodeError::Value { field: "samples", value: 0 }),
        count => (0..count).map(|_| Ok((input.varint("sample")?, take_probability(input)?))).collect(),
    }
}

fn take_target(input: &mut ByteReader<'_>) -> Result<TargetDist, DecodeError> {
    let start = input.clone();
    let mut target = Vec::new();
    match input.u8("distribution layout")? {
        SPARSE => {
            let mut next = 0u32;
            for _ in 0..input.count("probabilities")? {
                let gap = input.varint("gap")?;
                let id = next.checked_add(gap).filter(|&id| id < u32::MAX);
                let id = id.ok_or(DecodeError::Value { field: "gap", value: gap.into() })?;
                target.push((id, take_probability(input)?));
                next = id + 1;
            }
        }
        DENSE_TARGET => {
            for id in 0..input.count("probabilities")? as u32 {
                let p = take_float(input, "probability", is_probability)?;
                if p > 0.0 {
                    target.push((id, p));
                }
            }
        }
        layout => return Err(DecodeError::Value { field: "distribution layout", value: layout.into() }),
    }
    if target.is_empty() {
        return Err(DecodeError::Value { field: "probabilities", value: 0 });
    }
    let target = TargetDist(target);
    let mut canonical = Vec::new();
    put_target(&mut canonical, &target);
    let used = start.remaining() - input.remaining();
    if start.clone().bytes(used, "distribution")? != canonical {
        return Err(DecodeError::Value { field: "distribution layout", value: u64::from(canonical[0] ^ 1) });
    }
    Ok(target)
}

fn take_probability(input: &mut ByteReader<'_>) -> Result<f32, DecodeError> {
    take_float(input, "probability", |p| p > 0.0 && is_probability(p))
}

/// Whether an f32 is one of a distribution's probabilities; +0 is, −0 is not.
fn is_probability(p: f32) -> bool {
    (0.0..=1.0).contains(&p) && p.is_sign_positive()
}

fn take_request(input: &mut ByteReader<'_>) -> Result<Request, DecodeError> {
    Ok(Request {
        generation: take_generation(input)?,
        sampling: SamplingParameters {
            temperature: take_float(input, "temperature", |t| t.is_finite() && t.is_sign_positive())?,
            top_k: input.varint("top-k")?,
            top_p: take_float(input, "top-p", |p| p > 0.0 && p <= 1.0)?,
        },
        seed: input.u64("seed")?,
        max_new_tokens: match input.varint("maximum new tokens")? {
            0 => return Err(DecodeError::Value { field: "maximum new tokens", value: 0 }),
            tokens => tokens,
        },
        tokens: match take_ids(input, "prompt tokens")? {
            empty if empty.is_empty() => return Err(DecodeError::Value { field: "prompt tokens", value: 0 }),
            tokens => tokens,
        },
    })
}

fn take_ids(input: &mut ByteReader<'_>, field: &'static str) -> Result<Vec<u32>, DecodeError> {
    let count = input.count(field)?;
    (0..count).map(|_| input.varint(field)).collect()
}

fn take_generation(input: &mut ByteReader<'_>) -> Result<u32, DecodeError> {
    match input.varint("generation")? {
        0 => Err(DecodeError::Value { field: "generation", value: 0 }),
        generation => Ok(generation),
    }
}

fn take_float(
    input: &mut ByteReader<'_>,
    field: &'static str,
    allowed: impl Fn(f32) -> bool,
) -> Result<f32, DecodeError> {
    let bits = input.u32(field)?;
    let value = f32::from_bits(bits);
    if allowed(value) { Ok(value) } else { Err(DecodeError::Value { field, value: bits.into() }) }
}

/// How many rounds may be in flight.
fn take_window(input: &mut ByteReader<'_>) -> Result<u8, DecodeError> {
    match input.u8("rounds in flight")? {
        0 => Err(DecodeError::Value { field: "rounds in flight", value: 0 }),
        rounds => Ok(rounds),
    }
}

fn draft_count(count: u8, field: &'static str) -> Result<u8, DecodeError> {
    if count > MAX_DRAFT_TOKENS { Err(DecodeError::Value { field, value: count.into() }) } else { Ok(count) }
}

fn check_version(found: u16) -> Result<(), DecodeError> {
    if found == PROTOCOL_VERSION { Ok(()) } else { Err(DecodeError::Version { found, ours: PROTOCOL_VERSION }) }
}

fn take_finish(bits: u8) -> Result<Option<Finish>, DecodeError> {
    match bits {
        0 => Ok(None),
        1 => Ok(Some(Finish::Eos)),
        2 => Ok(Some(Finish::Length)),
        3 => Ok(Some(Finish::Context)),
        other => Err(DecodeError::Value { field: "finish", value: other.into() }),
    }
}
