//! Guesses on their way to the engine's own workers, whose proposers may use them at the next step.
//!
//! A guess is addressed by what it follows: the length of the text and its last tokens. So it does not matter which
//! worker writes that text: all are told, and those that do not have it drop what they are told. A guess that comes
//! late, or to the wrong worker, costs nothing but its bytes.
//!
//! ```text
//! sessions ──offer──▶ broadcast, 256 messages ──▶ worker task ──socket──▶ proposer in a worker of vLLM
//!                     oldest dropped           └▶ worker task ──socket──▶ proposer in another
//! ```
//!
//! Sessions never wait: what a worker does not take in time is dropped for it, the oldest first. A worker that is away
//! gets no guesses, and its texts are written as without.
//!
//! | file | what it is |
//! |---|---|
//! | [`address`] | where workers are, as an operator says it |
//! | `message` | the bytes of the channel |
//! | `refusal` | why a worker takes no guesses |
//! | `worker` | one worker: connected, asked, told, and connected again |
//! | `workers` | all of them, found by name |

pub mod address;
mod message;
mod refusal;
mod worker;
mod workers;

pub(super) use self::workers::Workers;
pub use self::{address::WorkerAddress, workers::WorkerCounts};
