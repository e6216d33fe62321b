//! QS: the whole distribution on a lattice, K = V.

use super::{
    layout::{Keeps, SchemeInfo, Sends},
    on_lattice,
    parameters::{SchemeOptions, SchemeParameters, sqs},
};
use crate::lattice::SupportSize;

pub(super) const INFO: SchemeInfo = SchemeInfo {
    name: "qs",
    label: "QS",
    travels: "the token and the probabilities of the whole vocabulary, as multiples of 1/ℓ.",
    source: concat!(sqs!(), ", §2"),
    options: &["code", "latticeResolution", "bitBudget", "verification"],
    sends: Sends::Distributions,
    keeps: Keeps::All,
    number: 2,
    of: |SchemeOptions { lattice_resolution, code, .. }| SchemeParameters::Qs { lattice_resolution, code },
    payload: |options, vocab_size| on_lattice::payload(options, SupportSize::Fixed(vocab_size), vocab_size),
};
