//! Any engine as the target: another server's model verifies the sessions.
//!
//! The engine holds the large model and speaks vLLM's dialect of OpenAI's `/v1/completions`: prompts as token ids, the
//! log-probabilities of a prompt's tokens (`prompt_logprobs`) and of those it writes (`logprobs`), several samples
//! (`n`). It batches, caches prefixes and spans machines as usual. The gateway holds the sessions' tokens and nothing
//! else, so there may be many gateways.
//!
//! There are two [ways](Way) to use it. An engine may be *asked* for a few numbers a round, which needs nothing else.
//! Or it *streams*: it receives one request for a text and writes it on its own. Its workers receive [guesses] at the
//! text, which they propose and judge. Rounds of ids, and texts that the target writes alone, are then judged by the
//! streamed text. Rounds that need probabilities are asked for as in the first way.
//!
//! ```text
//! edge ──Guesses──▶ gateway ──guesses──▶ a proposer in the engine's worker
//! edge ◀──Tokens─── gateway ◀──stream─── the engine: proposals, forward pass, rejection sampler
//! ```
//!
//! The gateway judges each round itself, so frames, schemes and edges are the same as with a model in this process.
//!
//! | module | contents |
//! |---|---|
//! | [`options`] | options of an engine, and the checks when connecting to it |
//! | `handle`, `shared` | handle on the engine, and its state shared by all sessions |
//! | `plan` | the exact way to judge a round, or the reason why there is none |
//! | `slot` | judgement of a session's rounds |
//! | `client`, `completion` | requests and responses over HTTP |
//! | `stream`, `events` | a streamed text, over one request or several |
//! | [`guesses`] | sending of guesses to the engine's workers |
//! | `survey` | figures for `outrider check` |
//! | `error` | errors |
//!
//! # Exactness
//!
//! The engine returns p at temperature 1 before top-k and top-p, for the tokens of a prompt and for the K most likely
//! tokens at each position (K: vLLM's `--max-logprobs`, 20 if not given). S(·) is the session's sampling, and drafts
//! are verified against S(p):
//!
//! | sampling | way | requests a round | a draft is accepted with |
//! |---|---|--:|---|
//! | T = 0, or top-k from 1 to K | *listed*: all that S keeps is among the K, so the rows are S(p) itself | 1 | Σ min(q̂, S(p)) |
//! | T = 1, no top-k, top-p 1 | *thinned*: S(p) = p, see [`outrider_speculation::judge::thinning`] | 1, and after a rejection 1 on average | Σ min(q̂, p) |
//! | all else | *matched*: the engine samples S(p) at each position, and a draft is accepted if it is that sample | 1 | Σ q̂·S(p) |
//!
//! A *streamed* text is a sample of S(p) whatever was guessed. The engine treats a proposal without probabilities as a
//! one-hot distribution: it accepts a guess x with probability S(p)(x), and otherwise draws from S(p) without x. The
//! gateway compares that text with the guesses, which changes nothing in it. If a stream is cut, another request
//! continues after the last token that came. That is exact, since each token was drawn given those before it, whichever
//! request asked.
//!
//! All ways commit samples of S(p); matching only accepts less. Other settings allow nothing better: S(p)(x) at another
//! temperature, or under top-p, is p(x)^(1/T) over the sum of all that S keeps, and that sum includes tokens which the
//! engine does not list. DSSD and coupled drafting send no q̂, which thinning needs, so at T = 1 without top-k they are
//! matched.
//!
//! # Refused requests
//!
//! - **Lossy rules.** They promise a π that is computed from p and q̂. A rejected draft's replacement is drawn from
//!   norm(max(0, π − q̂)), whose normaliser needs all of p. Matching would give p instead of π.
//! - **Evidence** (`--explain`): it is all of S(p), which only the *listed* way has.
//!
//! Seeds do not fix the text, except at temperature 0, since the engine makes its own random draws. Its probabilities
//! are as accurate as its arithmetic. In bf16, p(x) of a prompt and p of the same position when writing may differ in
//! the third digit, and near-ties at temperature 0 may fall either way.

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
mod survey;

pub use self::{
    error::GatewayError,
    guesses::WorkerCounts,
    handle::Gateway,
    options::{EngineArgs, Way},
    slot::GatewaySlot,
    survey::Survey,
};
