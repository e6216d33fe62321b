//! Reports of measurements: a table, a picture, and the numbers with their errors.
//!
//! | module | result |
//! |---|---|
//! | [`estimate`] | a ratio over texts, with its standard error |
//! | [`bootstrap`] | intervals of any quantity, by drawing texts |
//! | [`chart`], [`curves`] | pictures as SVG: bars, and panels of curves |
//! | `plot` | parts of all pictures |
//! | [`files`] | NAME.md, NAME.json and NAME.svg, which begin with when and on what they were made |

pub mod bootstrap;
pub mod chart;
pub mod curves;
pub mod estimate;
pub mod files;
mod plot;
