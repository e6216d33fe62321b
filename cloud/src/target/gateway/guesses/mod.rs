//! Sending of guesses to the engine's own workers, whose proposers may use them at the next step.
//!
//! A guess is addressed by the text that it follows: the text's length and its last tokens. Therefore it does not
//! matter which worker writes that text: all workers receive the guess, and those without the text drop it. A guess
//! that comes late, or to the wrong worker, costs nothing but its bytes.
//!
//! ```text
//! sessions ──offer──▶ broadcast, 256 messages ──▶ worker task ──socket──▶ proposer in a worker of vLLM
//!                     oldest dropped           └▶ worker task ──socket──▶ proposer in another
//! ```
//!
//! Sessions never wait: if a worker does not read in time, its oldest messages are dropped. A worker without a
//! connection gets no guesses, and writes its texts without them.
//!
//! | file | contents |
//! |---|---|
//! | [`address`] | addresses of workers |
//! | `message` | wire format of the channel |
//! | `refusal` | reasons why a worker takes no guesses |
//! | `worker` | connection to one worker |
//! | `workers` | connections to all workers, found by name |

pub mod address;
mod message;
mod refusal;
mod worker;
mod workers;

pub(super) use self::workers::Workers;
pub use self::{address::WorkerAddress, workers::WorkerCounts};
