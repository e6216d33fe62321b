//! Which scheme, and with which numbers.

use crate::choices;

/// The paper of QS, K-SQS and C-SQS.
macro_rules! sqs {
    () => {
        "Bhattacharjee et al., Conformal Sparsification for Bandwidth-Efficient Edge-Cloud Speculative Decoding"
    };
}
pub(super) use sqs;

/// The paper of DSSD.
pub(super) const DSSD: &str = "Ning et al., DSSD: Efficient Edge-Device LLM Deployment and Collaborative Inference via \
     Distributed Split Speculative Decoding";

/// An uplink scheme and those of its parameters that the cloud must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemeParameters {
    /// The whole distribution in f16.
    Dense,
    /// The whole distribution on a lattice.
    Qs {
        /// ℓ.
        lattice_resolution: u32,
        /// Its code.
        code: Code,
    },
    /// The K most likely tokens on a lattice.
    KSqs {
        /// K.
        support_size: u32,
        /// ℓ.
        lattice_resolution: u32,
        /// Its code.
        code: Code,
    },
    /// The tokens above a threshold, which concerns the edge alone, on a lattice.
    CSqs {
        /// ℓ.
        lattice_resolution: u32,
        /// Its code.
        code: Code,
    },
    /// The K most likely tokens in f16.
    TkSlt {
        /// K.
        support_size: u32,
    },
    /// The drafted token's probability.
    Dssd {
        /// What follows a rejection.
        downlink: Downlink,
    },
    /// Ids alone; both ends choose with the same noise.
    Coupled,
}

/// What the cloud sends after a rejection under DSSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Downlink {
    /// The target's distribution.
    Full,
    /// So many samples of it with their probabilities; the distribution only if it is asked for.
    Sampled(u8),
}

/// The parameters of schemes, each of which reads some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemeOptions {
    /// K.
    pub support_size: u32,
    /// ℓ.
    pub lattice_resolution: u32,
    /// How distributions on a lattice are coded.
    pub code: Code,
    /// What follows a rejection.
    pub downlink: Downlink,
}

impl SchemeParameters {
    /// What the scheme has of all parameters.
    pub fn options(&self) -> SchemeOptions {
        let none = SchemeOptions::default();
        match *self {
            Self::Dense | Self::Coupled => none,
            Self::Qs { lattice_resolution, code } | Self::CSqs { lattice_resolution, code } => {
                SchemeOptions { lattice_resolution, code, ..none }
            }
            Self::KSqs { support_size, lattice_resolution, code } => {
                SchemeOptions { support_size, lattice_resolution, code, ..none }
            }
            Self::TkSlt { support_size } => SchemeOptions { support_size, ..none },
            Self::Dssd { downlink } => SchemeOptions { downlink, ..none },
        }
    }
}

impl Default for SchemeOptions {
    fn default() -> Self {
        Self { support_size: 0, lattice_resolution: 0, code: Code::Enumerative, downlink: Downlink::Full }
    }
}

/// What a choice is called and what it comes to on the wire.
#[derive(Debug)]
pub struct Description {
    /// The name that users write.
    pub name: &'static str,
    /// The name that people read.
    pub label: &'static str,
    /// What travels: a sentence to be put behind a colon.
    pub travels: &'static str,
    /// Where it was first described.
    pub source: &'static str,
    /// The options that it reads, of those that not all of its kind read.
    pub options: &'static [&'static str],
}

choices! {
    /// How distributions on a lattice are coded.
    Code: Description {
        /// The papers' code: ranks, in ⌈log2 of their number⌉ bits.
        Enumerative = Description {
            name: "enumerative",
            label: "Enumerative",
            travels: "the number of the support and of the counts among all there can be, in whole bits.",
            source: sqs!(),
            options: &[],
        },
        /// An arithmetic code whose model learns from the committed text.
        Adaptive = Description {
            name: "adaptive",
            label: "Adaptive",
            travels: "the same, in an arithmetic code whose model both ends learn from the text so far.",
            source: "Outrider",
            options: &[],
        },
    }
}

choices! {
    /// The kinds of [`Downlink`].
    DownlinkName: Description {
        /// The target's distribution.
        Full = Description {
            name: "full",
            label: "All probabilities",
            travels: "the server’s probabilities of the whole vocabulary, 32 bits each.",
            source: DSSD,
            options: &[],
        },
        /// Samples of it.
        Sampled = Description {
            name: "sampled",
            label: "A few samples",
            travels: "m samples of the server’s with their probabilities; only if the page can keep none of them, all \
                      probabilities.",
            source: "Outrider",
            options: &["downlinkSamples"],
        },
    }
}
