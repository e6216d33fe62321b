//! C-SQS: the tokens above a threshold on a lattice, K varies. The threshold concerns the edge alone.

use super::{
    layout::{Keeps, SchemeInfo, Sends},
    on_lattice,
    parameters::{SchemeOptions, SchemeParameters, sqs},
};
use crate::lattice::SupportSize;

pub(super) const INFO: SchemeInfo = SchemeInfo {
    name: "c-sqs",
    label: "C-SQS",
    travels: "the token and all tokens above an adaptive threshold, with their probabilities, as multiples of 1/ℓ.",
    source: concat!(sqs!(), ", §3"),
    options: &[
        "code",
        "latticeResolution",
        "droppedMassTarget",
        "stepSize",
        "initialThreshold",
        "bitBudget",
        "verification",
    ],
    sends: Sends::Distributions,
    keeps: Keeps::AboveThreshold,
    number: 3,
    of: |SchemeOptions { lattice_resolution, code, .. }| SchemeParameters::CSqs { lattice_resolution, code },
    payload: |options, vocab_size| on_lattice::payload(options, SupportSize::Varying, vocab_size),
};
