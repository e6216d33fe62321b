//! K-SQS: the K most likely tokens on a lattice, K fixed.

use super::{
    layout::{Keeps, SchemeInfo, Sends},
    on_lattice,
    parameters::{SchemeOptions, SchemeParameters, sqs},
};
use crate::lattice::SupportSize;

pub(super) const INFO: SchemeInfo = SchemeInfo {
    name: "k-sqs",
    label: "K-SQS",
    travels: "the token and the K most probable tokens with their probabilities, as multiples of 1/ℓ.",
    source: concat!(sqs!(), ", §2"),
    options: &["code", "supportSize", "latticeResolution", "bitBudget", "verification"],
    sends: Sends::Distributions,
    keeps: Keeps::MostLikely,
    number: 1,
    of: |SchemeOptions { support_size, lattice_resolution, code, .. }| SchemeParameters::KSqs {
        support_size,
        lattice_resolution,
        code,
    },
    payload: |options, vocab_size| on_lattice::payload(options, SupportSize::Fixed(options.support_size), vocab_size),
};
