//! Descriptions of encoder-decoder models.
//!
//! | file | contents |
//! |---|---|
//! | `config` | shape and constants |
//! | `weights` | list of weights: fields, shapes, and names in files |
//! | `t5` | settings in T5's files |

pub(crate) mod config;
pub(super) mod t5;
pub(crate) mod weights;
