//! **Logits to a distribution, a distribution to a token.** What both ends sample by, and the random numbers they
//! sample with.
//!
//! | file | what it does |
//! |---|---|
//! | `distribution` | S(·): logits → the distribution that is sampled (temperature, top-k, top-p) |
//! | `random` | random numbers that belong to a position of the text |
//! | `shared_noise` | coupled drafting's: the choice that both ends make with the same noise |

mod distribution;
mod error;
mod exponential;
mod order;
mod random;
mod scan;
mod shared_noise;
mod softmax;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use distribution::Weighed;
pub use distribution::{Distribution, transform};
pub use error::LogitsError;
pub(crate) use random::at;
pub use random::{End, Randomness};
pub use shared_noise::{SharedNoise, TopTwo};
