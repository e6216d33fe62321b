//! What the frames say.

use crate::{rule::RuleParameters, scheme::SchemeParameters};

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
    /// The most tokens a [`Draft`] may carry, at most [`MAX_DRAFT_TOKENS`](super::MAX_DRAFT_TOKENS).
    pub max_draft_tokens: u8,
    /// The most rounds that may await their verdict at a time, at least 1.
    pub max_in_flight: u8,
    /// The most [`Guesses`] at a time that may lie ahead of the text; 0: the cloud takes none.
    pub max_guesses: u8,
    /// The most chains of them at a time that may be alive besides one; 0: guesses form one chain.
    pub max_branches: u8,
    /// Whether the cloud chooses tokens by draws of its own, so that the best guess is the likeliest token; else by the
    /// noise that both ends share.
    pub own_draws: bool,
    /// Whether the cloud's operator asks for the fewest forward passes that cost no speed.
    pub fewest_passes: bool,
    /// Ids that end a text when committed.
    pub eos_ids: Vec<u32>,
    /// What the session is resumed with.
    pub ticket: Ticket,
    /// How long the session waits for that once its connection is gone, in seconds.
    pub detached_seconds: u32,
}

/// Names a session, and shows the right to go on with it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Ticket {
    /// Which session; 128 random bits.
    pub id: [u8; 16],
    /// Whoever has it may go on with the session; 128 random bits.
    pub secret: [u8; 16],
}

/// The secret is left out: what is printed ends in logs.
impl core::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Ticket({:032x})", u128::from_be_bytes(self.id))
    }
}

/// What the edge says first where it goes on with a session. Its first seven bytes are laid out as those of a
/// [`Hello`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    /// From the session's [`Welcome`].
    pub ticket: Ticket,
    /// How often the session has been asked for with this: 1, 2, …. One that comes late does not take the session from
    /// a later one.
    pub attempt: u32,
    /// The last generation that the edge began; 0 if none.
    pub generation: u32,
    /// How many tokens of it the edge has, prompt included.
    pub length: u32,
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
    /// The most rounds that await their verdict at a time, at least 1 and no more than the [`Welcome`] allows.
    pub max_in_flight: u8,
}

impl Prompt {
    /// Under the exact rule, without evidence, one round at a time.
    pub fn exact(scheme: SchemeParameters, request: Request) -> Self {
        Self { request, scheme, rule: RuleParameters::EXACT, evidence: false, max_in_flight: 1 }
    }
}

/// One round of drafts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// The generation it belongs to.
    pub generation: u32,
    /// 0, 1, … within the generation.
    pub round: u32,
    /// How many continued rounds had a rejection when this was drafted; below 2³¹. A round of an epoch that is over was
    /// discarded.
    pub epoch: u32,
    /// Whether rounds follow it that were drafted as if all of it were accepted. No bonus token is drawn after it then.
    /// It has drafts.
    pub continued: bool,
    /// The token that the edge put in place of the rejected draft of the round before; DSSD only.
    pub resampled: Option<u32>,
    /// Tokens that the edge has committed without asking, since the round before; they come before the drafts.
    pub passed: Vec<u32>,
    /// Number of tokens that the target is to write alone, in [`Tokens`] frames; none is drafted then. Zero is a round.
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
    /// Nothing: an accepted token ended the text, or all drafts are accepted and no bonus token follows, by the rule or
    /// because the round is continued.
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

/// What a judged draft was judged by, for those who ask: comes before the Verdict, once for each accepted draft and
/// once for the first rejected one.
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
    /// Total variation between the distribution of the token committed here and the target's; in [0, 1].
    pub divergence: f32,
    /// The target's distribution.
    pub target: TargetDist,
}

/// What one forward pass has added to a text that the target writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// The generation it belongs to.
    pub generation: u32,
    /// Position of the first in the text; the prompt's first token is at 0.
    pub position: u32,
    /// The tokens, at least one.
    pub ids: Vec<u32>,
    /// How many of them, from the first on, were drafts that the pass judged and accepted.
    pub accepted: u8,
    /// Whether these drafts were the cloud's own; else they were [`Guesses`].
    pub own: bool,
    /// How many frames of [`Guesses`] had come in this generation when the pass began, modulo 256.
    pub heard: u8,
    /// How long the pass took from when it was asked for, in tenths of a millisecond; 0 if nobody knows.
    pub pass: u32,
    /// Whether the generation is over.
    pub finish: Option<Finish>,
}

impl Tokens {
    /// A token of a pass that judged nothing.
    pub fn one(generation: u32, position: u32, id: u32, finish: Option<Finish>) -> Self {
        Self { generation, position, ids: vec![id], accepted: 0, own: false, heard: 0, pass: 0, finish }
    }
}

/// Guesses at tokens that the target has yet to write. What it writes does not depend on them.
///
/// A *chain* of guesses begins behind a token that the edge has from the cloud, and each guess is made as if those
/// before it were right. Where one is wrong the rest of its chain is of no use. A *branch* is a chain that leaves
/// another one: its first guess is at the position of a guess of that, in its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guesses {
    /// The generation they belong to.
    pub generation: u32,
    /// Number of the chain: 1, 2, … within the generation.
    pub chain: u32,
    /// Number of an earlier chain that this one begins to branch off; 0 if it begins behind the text, or goes on.
    pub parent: u32,
    /// Position of the first; it begins the chain, or follows the last one that was sent of it.
    pub position: u32,
    /// How long a forward pass may be held from now on for a guess at the next token, in tenths of a millisecond.
    pub patience: u32,
    /// Number of guesses; none says the patience alone.
    pub count: u8,
    /// The guessed ids in the bits of coupled drafting.
    pub payload: Vec<u8>,
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
