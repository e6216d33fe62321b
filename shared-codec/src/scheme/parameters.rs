//! Parameters of the schemes, and the names of their options.

use crate::choices;

/// Citation of the paper of QS, K-SQS and C-SQS.
macro_rules! sqs {
    () => {
        "Bhattacharjee et al., Conformal Sparsification for Bandwidth-Efficient Edge-Cloud Speculative Decoding"
    };
}
pub(super) use sqs;

/// Citation of the paper of DSSD.
pub(super) const DSSD: &str = "Ning et al., DSSD: Efficient Edge-Device LLM Deployment and Collaborative Inference via \
     Distributed Split Speculative Decoding";

/// An uplink scheme with the parameters that the cloud must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemeParameters {
    /// The whole distribution in f16.
    Dense,
    /// The whole distribution on a lattice.
    Qs {
        /// Lattice resolution, ℓ.
        lattice_resolution: u32,
        /// Code of the lattice points.
        code: Code,
    },
    /// The K most likely tokens on a lattice.
    KSqs {
        /// Number of ids kept, K.
        support_size: u32,
        /// Lattice resolution, ℓ.
        lattice_resolution: u32,
        /// Code of the lattice points.
        code: Code,
    },
    /// The tokens above a threshold, which concerns the edge alone, on a lattice.
    CSqs {
        /// Lattice resolution, ℓ.
        lattice_resolution: u32,
        /// Code of the lattice points.
        code: Code,
    },
    /// The K most likely tokens in f16.
    TkSlt {
        /// Number of ids kept, K.
        support_size: u32,
    },
    /// The drafted token's probability.
    Dssd {
        /// Reply of the cloud after a rejection.
        downlink: Downlink,
    },
    /// Ids alone; both ends choose with the same noise.
    Coupled,
}

/// Reply of the cloud after a rejection under DSSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Downlink {
    /// The target's distribution.
    Full,
    /// Samples of it, of this number, with their probabilities; the distribution only on request.
    Sampled(u8),
}

/// The parameters of schemes, each of which reads some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemeOptions {
    /// Number of ids kept, K.
    pub support_size: u32,
    /// Lattice resolution, ℓ.
    pub lattice_resolution: u32,
    /// Code of distributions on a lattice.
    pub code: Code,
    /// Reply of the cloud after a rejection.
    pub downlink: Downlink,
}

impl SchemeParameters {
    /// Returns the parameters that the scheme has, and defaults for the others.
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

/// Names of a choice, and its effect on the wire.
#[derive(Debug)]
pub struct Description {
    /// The name that users write.
    pub name: &'static str,
    /// The name that is shown to people.
    pub label: &'static str,
    /// Description of the content that travels: a sentence that follows a colon.
    pub travels: &'static str,
    /// Citation of the paper that describes it first.
    pub source: &'static str,
    /// The options that it reads, of those that not all of its kind read.
    pub options: &'static [&'static str],
}

choices! {
    /// Code of distributions on a lattice.
    Code: Description {
        /// The papers' code: ranks, in ⌈log2 of their number⌉ bits.
        Enumerative = Description {
            name: "enumerative",
            label: "Enumerative",
            travels: "the index of the support and of the counts among all possible ones, in whole bits.",
            source: sqs!(),
            options: &[],
        },
        /// An arithmetic code whose model learns from the committed text.
        Adaptive = Description {
            name: "adaptive",
            label: "Adaptive",
            travels: "an arithmetic code, whose model both ends learn from the text so far.",
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
        /// Samples of the target's distribution.
        Sampled = Description {
            name: "sampled",
            label: "A few samples",
            travels: "m samples from the server with their probabilities; all probabilities only if the page can keep \
                      no sample.",
            source: "Outrider",
            options: &["downlinkSamples"],
        },
    }
}
