//! **A distribution to a draft token.** What is kept of q, how it is rounded to integers, and the draw from those.
//!
//! | file | what it does |
//! |---|---|
//! | `sparsify` | which tokens of q are kept |
//! | `conformal` | C-SQS's threshold for that, with checkpoints that a verdict returns to |
//! | `lattice`, `half` | their integer counts: from here on there are no floats on the edge |
//! | `token` | the above and the draw, for one token |
//! | `gate`, `heads` | which tokens the edge commits without asking |
//! | `lookup` | guesses from the text itself and from passages beside it, without a model |

pub(crate) mod conformal;
pub(crate) mod gate;
pub(crate) mod half;
pub(crate) mod heads;
pub(crate) mod lattice;
pub(crate) mod lookup;
pub(crate) mod sparsify;
pub(crate) mod token;

pub use conformal::ThresholdParameters;
pub use gate::{Confidence, Gate, GateName};
pub use heads::{Head, HeadError, Heads, TokenFeatures};
pub use lookup::{Lookup, Passages};
pub use token::*;
