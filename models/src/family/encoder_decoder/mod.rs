//! What describes a model with an encoder.
//!
//! | file | what it says |
//! |---|---|
//! | `config` | shape and constants |
//! | `weights` | the weights: fields, shapes, and names in files |
//! | `t5` | what T5's files say of it |

pub(crate) mod config;
pub(super) mod t5;
pub(crate) mod weights;
