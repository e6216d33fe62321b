//! Every uplink scheme, with its codes and downlinks.

use outrider_codec::{
    choice::Choice,
    scheme::{Code, Downlink, SchemeName, SchemeOptions, SchemeParameters},
};

/// Every scheme with K = `support_size` and ℓ = `lattice_resolution` where it has them.
pub fn every(support_size: u32, lattice_resolution: u32) -> Vec<SchemeParameters> {
    let mut schemes = Vec::new();
    for name in SchemeName::ALL {
        for code in [Code::Enumerative, Code::Adaptive] {
            for downlink in [Downlink::Full, Downlink::Sampled(3)] {
                let scheme = name.with(SchemeOptions { support_size, lattice_resolution, code, downlink });
                if !schemes.contains(&scheme) {
                    schemes.push(scheme);
                }
            }
        }
    }
    schemes
}

/// Number of [`every`]'s schemes.
pub fn count() -> usize {
    every(1, 1).len()
}
