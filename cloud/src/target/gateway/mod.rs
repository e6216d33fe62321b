//! Any engine as the target: sessions are verified by somebody else's server.
//!
//! The engine holds the large model and speaks vLLM's dialect of OpenAI's `/v1/completions`: prompts as token ids, the
//! log-probabilities of a prompt's tokens (`prompt_logprobs`) and of those it writes (`logprobs`), several samples
//! (`n`). It batches, caches prefixes and spans machines as it always does. The gateway holds the sessions' tokens and
//! nothing else, so there may be many.
//!
//! There are two [ways](Way) to use it. It may be *asked* for a few numbers a round; that needs nothing else. Or it
//! *streams*: it is asked for a text once, and writes it by itself. Its own workers are told [guesses] at the text,
//! which they propose and judge. Then rounds of ids, and what it writes alone, are judged by the text that has come;
//! rounds that need probabilities are asked for as before.
//!
//! ```text
//! edge ──Guesses──▶ gateway ──guesses──▶ a proposer in the engine's worker
//! edge ◀──Tokens─── gateway ◀──stream─── the engine: proposals, forward pass, rejection sampler
//! ```
//!
//! The gateway judges each round by itself, so frames, schemes and edges are as with a model of one's own.
//!
//! | module | what it does |
//! |---|---|
//! | [`options`] | which engine, as an operator says it, and the first questions to it |
//! | `handle`, `shared` | the way to the engine, and what all sessions share of it |
//! | `plan` | how a round can be judged exactly, or why it cannot |
//! | `slot` | judges it |
//! | `client`, `completion` | questions and answers over HTTP |
//! | `stream`, `events` | a text as it is written, over one request or several |
//! | [`guesses`] | guesses on their way to the engine's workers |
//! | `error` | what can be wrong |
//!
//! # What is exact
//!
//! The engine tells p at temperature 1 before top-k and top-p, of the tokens of a prompt and of the K most likely at
//! each position (K: vLLM's `--max-logprobs`, 20 if not given). With S(·) the session's sampling and S(p) what drafts
//! are verified against:
//!
//! | sampling | way | requests a round | a draft is accepted with |
//! |---|---|--:|---|
//! | T = 0, or top-k from 1 to K | *listed*: all that S keeps is among the K, so the rows are S(p) itself | 1 | Σ min(q̂, S(p)) |
//! | T = 1, no top-k, top-p 1 | *thinned*: S(p) = p, see [`outrider_speculation::judge::thinning`] | 1, and after a rejection 1 on average | Σ min(q̂, p) |
//! | all else | *matched*: the engine samples S(p) at each position, and a draft is accepted if it is that sample | 1 | Σ q̂·S(p) |
//!
//! A text that *streams* is a sample of S(p) whatever was guessed: the engine takes a proposal without probabilities as
//! a certain one. So it accepts a guess with S(p) of it, and else draws from what is left of S(p) without it. The
//! gateway compares that text with what was guessed, which changes nothing of it. A cut is mended by a request behind
//! the last token that came: each token was drawn behind those before it, whoever asked for them.
//!
//! All ways commit samples of S(p); matching only accepts less. Why the last is no better: S(p)(x) at another
//! temperature, or under top-p, is p(x)^(1/T) over the sum of all that S keeps, and that sum runs over tokens which the
//! engine does not list. DSSD and coupled drafting send no q̂, which thinning needs, so at T = 1 without top-k they are
//! matched.
//!
//! # What is refused
//!
//! - **Lossy rules.** They promise a π that is made of p and q̂; what takes a rejected draft's place is drawn from
//!   norm(max(0, π − q̂)), whose normaliser takes all of p. Matching would give p, which is not what was asked for.
//! - **Evidence** (`--explain`): it is all of S(p), which only the first way has.
//!
//! Seeds do not fix the text, except at temperature 0: the engine's samples are its own. Its probabilities are as good
//! as its arithmetic: in bf16 p(x) of a prompt and p of the same position when writing may differ in the third digit,
//! and at temperature 0 near-ties may fall either way.

mod client;
mod completion;
mod error;
mod events;
pub mod guesses;
mod handle;
pub mod options;
mod plan;
mod shared;
mod slot;
mod stream;

pub use self::{
    error::GatewayError,
    guesses::WorkerCounts,
    handle::Gateway,
    options::{EngineArgs, Way},
    slot::GatewaySlot,
};
