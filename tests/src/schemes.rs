//! Every uplink scheme, with its codes and downlinks.

use outrider_codec::scheme::{Code, Downlink, SchemeParameters};

/// Number of [`every`]'s schemes.
pub const COUNT: usize = 11;

/// Every scheme with K = `support_size` and ℓ = `lattice_resolution` where it has them.
pub fn every(support_size: u32, lattice_resolution: u32) -> [SchemeParameters; COUNT] {
    let (enumerative, adaptive) = (Code::Enumerative, Code::Adaptive);
    [
        SchemeParameters::Dense,
        SchemeParameters::Qs { lattice_resolution, code: enumerative },
        SchemeParameters::Qs { lattice_resolution, code: adaptive },
        SchemeParameters::KSqs { support_size, lattice_resolution, code: enumerative },
        SchemeParameters::KSqs { support_size, lattice_resolution, code: adaptive },
        SchemeParameters::CSqs { lattice_resolution, code: enumerative },
        SchemeParameters::CSqs { lattice_resolution, code: adaptive },
        SchemeParameters::TkSlt { support_size },
        SchemeParameters::Dssd { downlink: Downlink::Full },
        SchemeParameters::Dssd { downlink: Downlink::Sampled(3) },
        SchemeParameters::Coupled,
    ]
}
