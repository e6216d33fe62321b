//! Models with an encoder: from a source to its keys and values, from a text and its source to logits.
//!
//! | file | what it does |
//! |---|---|
//! | `bias` | what is added to scores by relative position |
//! | `parts` | attention and feed-forward parts, over the rows of all sequences |
//! | `model` | weights, sources and chunks |
//! | `encoder` | the tokens of sources to keys and values for the decoder |
//! | `decoder` | chunks of texts to logits |
//! | `loader` | a model from its files |

mod bias;
mod decoder;
mod encoder;
mod loader;
pub(crate) mod model;
mod parts;
