//! The frames. This module alone knows their byte layout; [`crate::format`] describes it for other languages.

use crate::{
    error::DecodeError,
    rule::RuleParameters,
    scheme::{Code, Downlink, SchemeParameters},
    wire::{ByteReader, put_varint},
};

/// The protocol version that this crate speaks.
pub const PROTOCOL_VERSION: u16 = 3;
/// The longest frame in bytes. Six dense distributions over 151 936 tokens fit, or a prompt of half a million tokens.
pub const MAX_FRAME_BYTES: usize = 2 * 1024 * 1024;
/// The longest text of an [`ErrorFrame`] in bytes; longer ones are cut.
pub const MAX_ERROR_TEXT: usize = 512;
/// The most tokens a [`Draft`] carries.
pub const MAX_DRAFT_TOKENS: u8 = 64;

/// One binary WebSocket message.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// Edge → cloud, first.
    Hello(Hello),
    /// Cloud → edge, the answer to [`Frame::Hello`].
    Welcome(Welcome),
    /// Edge → cloud: starts a generation that the edge drafts for.
    Prompt(Prompt),
    /// Edge → cloud: starts a generation that the cloud does alone.
    Generate(Request),
    /// Edge → cloud: one round of drafts.
    Draft(Draft),
    /// Edge → cloud: ends a generation.
    Cancel {
        /// Which one.
        generation: u32,
    },
    /// Edge → cloud: no sample of the verdict survived; asks for the distribution (DSSD).
    Resample {
        /// The generation it belongs to.
        generation: u32,
        /// The round whose verdict is meant.
        round: u32,
    },
    /// Cloud → edge: the answer to a [`Frame::Draft`].
    Verdict(Verdict),
    /// Cloud → edge: the answer to a [`Frame::Resample`].
    Distribution(Distribution),
    /// Cloud → edge: what a draft was judged by.
    Evidence(Evidence),
    /// Cloud → edge: one token that the target wrote alone.
    Token(Token),
    /// Cloud → edge: something is wrong.
    Error(ErrorFrame),
    /// Either way: the sender is done and closes.
    Bye,
}

/// What the edge says first. Its first seven bytes keep their meaning in every version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// V of the draft model.
    pub vocab_size: u32,
    /// SHA-256 of what the token ids mean; equal on both ends or no session.
    pub tokenizer_hash: [u8; 32],
}

/// What the cloud answers to a [`Hello`] that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// V of the target model.
    pub vocab_size: u32,
    /// The most tokens, prompt included, a generation may have.
    pub context_length: u32,
    /// The most tokens a [`Draft`] may carry, at most [`MAX_DRAFT_TOKENS`].
    pub max_draft_tokens: u8,
    /// Ids that end a text when committed.
    pub eos_ids: Vec<u32>,
}

/// What both kinds of generation need.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Number of the generation within this connection: 1, 2, ….
    pub generation: u32,
    /// S(·), applied by both ends.
    pub sampling: SamplingParameters,
    /// Seeds the cloud's choices.
    pub seed: u64,
    /// The most tokens to commit, at least 1.
    pub max_new_tokens: u32,
    /// The prompt's token ids, at least one.
    pub tokens: Vec<u32>,
}

/// The sampling transform's parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplingParameters {
    /// T; 0 is greedy. Finite, not negative.
    pub temperature: f32,
    /// Keep the k most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep the fewest most likely tokens whose mass reaches this; in (0, 1].
    pub top_p: f32,
}

/// A generation that the edge drafts for.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// What is asked for.
    pub request: Request,
    /// How the drafts will be coded.
    pub scheme: SchemeParameters,
    /// How they are to be judged.
    pub rule: RuleParameters,
    /// Whether the cloud is to send [`Evidence`].
    pub evidence: bool,
}

impl Prompt {
    /// Under the exact rule, without evidence.
    pub fn exact(scheme: SchemeParameters, request: Request) -> Self {
        Self { request, scheme, rule: RuleParameters::EXACT, evidence: false }
    }
}

/// One round of drafts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// The generation it belongs to.
    pub generation: u32,
    /// 0, 1, … within the generation.
    pub round: u32,
    /// The token that the edge put in place of the rejected draft of the round before; DSSD only.
    pub resampled: Option<u32>,
    /// Tokens that the edge has committed without asking, since the round before; they come before the drafts.
    pub passed: Vec<u32>,
    /// Number of tokens that the target is to write alone, in [`Token`] frames; none is drafted then. Zero is a round.
    pub stream: u32,
    /// Number of drafted tokens; zero asks for one token of the target's own.
    pub count: u8,
    /// The statistics that the rule needs (see [`crate::rule`]), then the tokens in the scheme's bits, filled with zero
    /// bits to whole bytes.
    pub payload: Vec<u8>,
}

/// The answer to a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The generation it belongs to.
    pub generation: u32,
    /// The round it answers.
    pub round: u32,
    /// Number of drafted tokens accepted: the first so many.
    pub accepted: u8,
    /// What follows them.
    pub next: Next,
    /// Whether the generation is over.
    pub finish: Option<Finish>,
}

/// What follows the accepted drafts of a round.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Nothing: an accepted token ended the text, or all drafts stand and the rule has no bonus token.
    Nothing,
    /// The cloud's token: resampled if a draft was rejected, else the bonus token.
    Token(u32),
    /// Independent samples y of the target's distribution P at the rejected draft, each with P(y); the edge
    /// resamples from them (DSSD). At least one.
    Samples(Vec<(u32, f32)>),
    /// The target's distribution at the rejected draft; the edge resamples from it (DSSD).
    Distribution(TargetDist),
}

/// The target's distribution, sparse: ids ascending, each with its probability above zero; not normalised.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetDist(pub Vec<(u32, f32)>);

/// The target's distribution at the rejected draft of a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The generation it belongs to.
    pub generation: u32,
    /// The round whose verdict is meant.
    pub round: u32,
    /// P.
    pub target: TargetDist,
}

/// What a judged draft was judged by, for those who ask: comes before the Verdict, once for each draft that stands and
/// once for the first that falls.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The generation it belongs to.
    pub generation: u32,
    /// The round.
    pub round: u32,
    /// Place of the draft in the round.
    pub index: u8,
    /// The probability that a draft is rejected here, before it is drawn; in [0, 1].
    pub rejection: f32,
    /// Total variation between the law of the token committed here and the target's; in [0, 1].
    pub divergence: f32,
    /// The target's distribution.
    pub target: TargetDist,
}

/// One token that the target wrote alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// The generation it belongs to.
    pub generation: u32,
    /// The token.
    pub token: u32,
    /// Whether the generation is over.
    pub finish: Option<Finish>,
}

/// Why a generation is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Finish {
    /// An end-of-text token was committed.
    Eos = 1,
    /// `max_new_tokens` were committed.
    Length = 2,
    /// The target's context is full.
    Context = 3,
}

impl Finish {
    /// The word used in logs, JSON and the page.
    pub fn name(self) -> &'static str {
        match self {
            Finish::Eos => "eos",
            Finish::Length => "length",
            Finish::Context => "context",
        }
    }
}

/// Something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorFrame {
    /// The generation that ends; 0 if the connection does.
    pub generation: u32,
    /// What.
    pub code: ErrorCode,
    /// One sentence for a person.
    pub text: String,
}

/// What went wrong, and by the high byte whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// 0x0101: the bytes are no frame or no payload.
    Malformed,
    /// 0x0201: a frame that does not belong here.
    OutOfOrder,
    /// 0x0202: a draft that breaks its own scheme or the agreed limits.
    InvalidDraft,
    /// 0x0203: parameters out of their range.
    InvalidParameters,
    /// 0x0301: another protocol version.
    Version,
    /// 0x0302: token ids mean something else on the other end.
    Tokenizer,
    /// 0x0401: the prompt does not fit the context.
    PromptTooLong,
    /// 0x0402: no place for another session.
    ServerFull,
    /// 0x0403: the frame is too long.
    FrameTooLong,
    /// 0x0404: nothing was heard for too long.
    Idle,
    /// 0x0501: the server failed.
    Internal,
    /// 0x0502: the server is stopping.
    ShuttingDown,
    /// 0x0601: the server wants a token and was shown none that it knows.
    Unauthorized,
    /// A code of a later version; the fault is still known by the high byte.
    Other(u16),
}

const ERROR_CODES: [(ErrorCode, u16, &str); 13] = [
    (ErrorCode::Malformed, 0x0101, "malformed"),
    (ErrorCode::OutOfOrder, 0x0201, "out-of-order"),
    (ErrorCode::InvalidDraft, 0x0202, "invalid-draft"),
    (ErrorCode::InvalidParameters, 0x0203, "invalid-parameters"),
    (ErrorCode::Version, 0x0301, "incompatible-version"),
    (ErrorCode::Tokenizer, 0x0302, "tokenizer-mismatch"),
    (ErrorCode::PromptTooLong, 0x0401, "prompt-too-long"),
    (ErrorCode::ServerFull, 0x0402, "server-full"),
    (ErrorCode::FrameTooLong, 0x0403, "frame-too-long"),
    (ErrorCode::Idle, 0x0404, "idle"),
    (ErrorCode::Internal, 0x0501, "internal"),
    (ErrorCode::ShuttingDown, 0x0502, "shutting-down"),
    (ErrorCode::Unauthorized, 0x0601, "unauthorized"),
];

impl ErrorCode {
    /// The number on the wire.
    pub fn number(self) -> u16 {
        match self {
            ErrorCode::Other(number) => number,
            known => ERROR_CODES.iter().find(|row| row.0 == known).map_or(0, |row| row.1),
        }
    }

    /// The code of a number.
    pub fn from_number(number: u16) -> Self {
        ERROR_CODES.iter().find(|row| row.1 == number).map_or(ErrorCode::Other(number), |row| row.0)
    }

    /// A stable word for programs: `malformed`, `server-full`, ….
    pub fn name(self) -> &'static str {
        ERROR_CODES.iter().find(|row| row.0 == self).map_or("unknown", |row| row.2)
    }
}

const HELLO: u8 = 0x01;
const PROMPT: u8 = 0x02;
const GENERATE: u8 = 0x03;
const DRAFT: u8 = 0x04;
const CANCEL: u8 = 0x05;
const BYE: u8 = 0x0f;
const WELCOME: u8 = 0x81;
const RESAMPLE: u8 = 0x06;
/// A Draft with passed tokens, or one that asks the target to write alone.
const LONG_DRAFT: u8 = 0x07;
const VERDICT: u8 = 0x84;
const DISTRIBUTION: u8 = 0x85;
const TOKEN: u8 = 0x86;
const EVIDENCE: u8 = 0x87;
const ERROR: u8 = 0x8e;
const MAGIC: [u8; 4] = *b"OUTR";
/// Layouts of a [`TargetDist`].
const SPARSE: u8 = 0;
const DENSE_TARGET: u8 = 1;
/// In the count of a Draft: a resampled token precedes the payload.
const HAS_RESAMPLED: u8 = 0x80;
/// In the number of a rule: the edge asks for evidence.
const WANTS_EVIDENCE: u8 = 0x80;
/// In the first byte of a lattice scheme: the code is adaptive.
const ADAPTIVE: u8 = 0x80;
const K_SQS: u8 = 1;
const QS: u8 = 2;
const C_SQS: u8 = 3;
const DENSE: u8 = 4;
const TK_SLT: u8 = 5;
const DSSD: u8 = 6;
const COUPLED: u8 = 7;

impl Frame {
    /// The word used in logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Frame::Hello(_) => "Hello",
            Frame::Welcome(_) => "Welcome",
            Frame::Prompt(_) => "Prompt",
            Frame::Generate(_) => "Generate",
            Frame::Draft(_) => "Draft",
            Frame::Cancel { .. } => "Cancel",
            Frame::Resample { .. } => "Resample",
            Frame::Verdict(_) => "Verdict",
            Frame::Distribution(_) => "Distribution",
            Frame::Evidence(_) => "Evidence",
            Frame::Token(_) => "Token",
            Frame::Error(_) => "Error",
            Frame::Bye => "Bye",
        }
    }

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
                put_ids(&mut out, &welcome.eos_ids);
            }
            Frame::Prompt(prompt) => {
                out.push(PROMPT);
                put_scheme(&mut out, prompt.scheme);
                put_rule(&mut out, prompt.rule, prompt.evidence);
                put_request(&mut out, &prompt.request);
            }
            Frame::Generate(request) => {
                out.push(GENERATE);
                put_request(&mut out, request);
            }
            Frame::Draft(draft) => {
                let is_long = draft.stream > 0 || !draft.passed.is_empty();
                out.push(if is_long { LONG_DRAFT } else { DRAFT });
                put_varint(&mut out, draft.generation);
                put_varint(&mut out, draft.round);
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
            Frame::Token(token) => {
                out.push(TOKEN);
                put_varint(&mut out, token.generation);
                out.push(finish_bits(token.finish));
                put_varint(&mut out, token.token);
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

    /// The frame of a byte string.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MAX_FRAME_BYTES {
            return Err(DecodeError::TooLong { length: bytes.len(), limit: MAX_FRAME_BYTES });
        }
        let mut input = ByteReader::new(bytes);
        let frame = match input.u8("frame kind")? {
            HELLO => {
                if input.array("magic")? != MAGIC {
                    return Err(DecodeError::NotOutrider);
                }
                check_version(input.u16("version")?)?;
                Frame::Hello(Hello {
                    vocab_size: input.u32("vocabulary size")?,
                    tokenizer_hash: input.array("tokenizer hash")?,
                })
            }
            WELCOME => {
                check_version(input.u16("version")?)?;
                Frame::Welcome(Welcome {
                    vocab_size: input.u32("vocabulary size")?,
                    context_length: input.u32("context length")?,
                    max_draft_tokens: draft_count(input.u8("maximum draft tokens")?, "maximum draft tokens")?,
                    eos_ids: take_ids(&mut input, "end-of-text ids")?,
                })
            }
            PROMPT => {
                let scheme = take_scheme(&mut input)?;
                let (rule, evidence) = take_rule(&mut input)?;
                Frame::Prompt(Prompt { scheme, rule, evidence, request: take_request(&mut input)? })
            }
            GENERATE => Frame::Generate(take_request(&mut input)?),
            kind @ (DRAFT | LONG_DRAFT) => {
                let (generation, round) = (take_generation(&mut input)?, input.varint("round")?);
                let count = input.u8("draft count")?;
                let resampled = if count & HAS_RESAMPLED != 0 { Some(input.varint("resampled token")?) } else { None };
                let count = draft_count(count & !HAS_RESAMPLED, "draft count")?;
                let (stream, passed) = match kind {
                    DRAFT => (0, Vec::new()),
                    _ => (input.varint("stream")?, take_ids(&mut input, "passed tokens")?),
                };
                if kind == LONG_DRAFT && stream == 0 && passed.is_empty() || stream > 0 && count > 0 {
                    return Err(DecodeError::Value { field: "stream", value: stream.into() });
                }
                // Without drafts to come, nothing more may follow.
                let payload = if stream > 0 { Vec::new() } else { input.rest().to_vec() };
                Frame::Draft(Draft { generation, round, resampled, passed, stream, count, payload })
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
            TOKEN => {
                let generation = take_generation(&mut input)?;
                let finish = take_finish(input.u8("token flags")?)?;
                Frame::Token(Token { generation, finish, token: input.varint("token")? })
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

fn put_scheme(out: &mut Vec<u8>, scheme: SchemeParameters) {
    let kind = |kind, code| match code {
        Code::Enumerative => kind,
        Code::Adaptive => kind | ADAPTIVE,
    };
    match scheme {
        SchemeParameters::Dense => out.push(DENSE),
        SchemeParameters::Qs { lattice_resolution, code } => {
            out.push(kind(QS, code));
            put_varint(out, lattice_resolution);
        }
        SchemeParameters::KSqs { support_size, lattice_resolution, code } => {
            out.push(kind(K_SQS, code));
            put_varint(out, support_size);
            put_varint(out, lattice_resolution);
        }
        SchemeParameters::CSqs { lattice_resolution, code } => {
            out.push(kind(C_SQS, code));
            put_varint(out, lattice_resolution);
        }
        SchemeParameters::TkSlt { support_size } => {
            out.push(TK_SLT);
            put_varint(out, support_size);
        }
        SchemeParameters::Dssd { downlink } => {
            out.push(DSSD);
            out.push(match downlink {
                Downlink::Full => 0,
                Downlink::Sampled(samples) => samples,
            });
        }
        SchemeParameters::Coupled => out.push(COUPLED),
    }
}

fn take_scheme(input: &mut ByteReader<'_>) -> Result<SchemeParameters, DecodeError> {
    let kind = input.u8("scheme")?;
    let code = if kind & ADAPTIVE == 0 { Code::Enumerative } else { Code::Adaptive };
    Ok(match (kind & !ADAPTIVE, code) {
        (QS, _) => SchemeParameters::Qs { lattice_resolution: input.varint("lattice resolution")?, code },
        (K_SQS, _) => SchemeParameters::KSqs {
            support_size: input.varint("support size")?,
            lattice_resolution: input.varint("lattice resolution")?,
            code,
        },
        (C_SQS, _) => SchemeParameters::CSqs { lattice_resolution: input.varint("lattice resolution")?, code },
        (DENSE, Code::Enumerative) => SchemeParameters::Dense,
        (TK_SLT, Code::Enumerative) => SchemeParameters::TkSlt { support_size: input.varint("support size")? },
        (DSSD, Code::Enumerative) => SchemeParameters::Dssd {
            downlink: match input.u8("downlink samples")? {
                0 => Downlink::Full,
                samples => Downlink::Sampled(samples),
            },
        },
        (COUPLED, Code::Enumerative) => SchemeParameters::Coupled,
        _ => return Err(DecodeError::Value { field: "scheme", value: kind.into() }),
    })
}

fn put_rule(out: &mut Vec<u8>, rule: RuleParameters, evidence: bool) {
    out.push(if evidence { rule.number | WANTS_EVIDENCE } else { rule.number });
    if rule.number != RuleParameters::EXACT.number {
        out.extend(rule.parameter.to_le_bytes());
    }
}

fn take_rule(input: &mut ByteReader<'_>) -> Result<(RuleParameters, bool), DecodeError> {
    let byte = input.u8("rule")?;
    let (number, evidence) = (byte & !WANTS_EVIDENCE, byte & WANTS_EVIDENCE != 0);
    if number == RuleParameters::EXACT.number {
        return Ok((RuleParameters::EXACT, evidence));
    }
    let parameter = take_float(input, "rule's parameter", |value| value.is_finite() && value.is_sign_positive())?;
    Ok((RuleParameters { number, parameter }, evidence))
}

fn put_samples(out: &mut Vec<u8>, samples: &[(u32, f32)]) {
    put_varint(out, samples.len() as u32);
    for &(id, p) in samples {
        put_varint(out, id);
        out.extend(p.to_le_bytes());
    }
}

fn take_samples(input: &mut ByteReader<'_>) -> Result<Vec<(u32, f32)>, DecodeError> {
    match input.count("samples")? {
        0 => Err(DecodeError::Value { field: "samples", value: 0 }),
        count => (0..count).map(|_| Ok((input.varint("sample")?, take_probability(input)?))).collect(),
    }
}

/// Two layouts, the shorter is the one that counts: gaps between ids and probabilities, or all ids' probabilities up
/// to the last that has any.
fn put_target(out: &mut Vec<u8>, target: &TargetDist) {
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

fn put_request(out: &mut Vec<u8>, request: &Request) {
    put_varint(out, request.generation);
    out.extend(request.sampling.temperature.to_le_bytes());
    put_varint(out, request.sampling.top_k);
    out.extend(request.sampling.top_p.to_le_bytes());
    out.extend(request.seed.to_le_bytes());
    put_varint(out, request.max_new_tokens);
    put_ids(out, &request.tokens);
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

fn put_ids(out: &mut Vec<u8>, ids: &[u32]) {
    put_varint(out, ids.len() as u32);
    for &id in ids {
        put_varint(out, id);
    }
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

fn draft_count(count: u8, field: &'static str) -> Result<u8, DecodeError> {
    if count > MAX_DRAFT_TOKENS { Err(DecodeError::Value { field, value: count.into() }) } else { Ok(count) }
}

fn check_version(found: u16) -> Result<(), DecodeError> {
    if found == PROTOCOL_VERSION { Ok(()) } else { Err(DecodeError::Version { found, ours: PROTOCOL_VERSION }) }
}

fn finish_bits(finish: Option<Finish>) -> u8 {
    finish.map_or(0, |finish| finish as u8)
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

/// The longest prefix of `text` that is UTF-8 and has at most `limit` bytes.
fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests;
