//! Forward passes of encoder-decoder models: from a source to keys and values, from a text and its source to logits.
//!
//! | file | contents |
//! |---|---|
//! | `bias` | relative position bias of attention scores |
//! | `parts` | attention and feed-forward parts, over the rows of all sequences |
//! | `model` | model, sources and chunks |
//! | `encoder` | from source tokens to keys and values for the decoder |
//! | `decoder` | from chunks of texts to logits |
//! | `loader` | loading from files |

mod bias;
mod decoder;
mod encoder;
mod loader;
pub(crate) mod model;
mod parts;
