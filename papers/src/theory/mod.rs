//! Closed forms of the papers that only researchers use. Those that sessions choose by are in
//! [`outrider_speculation::theory`].
//!
//! | module | paper | result |
//! |---|---|---|
//! | [`dssd`] | Ning et al. | communication and inference time of a round, speed-up |
//! | [`sprinter`] | Zhong et al. | output, passed tokens, stopping time and acceptance rate of a gate |
//! | [`flops`] | Zhong et al. | operations of a forward pass and of a round |
//! | [`cascade`] | Narasimhan et al. | rejection rate of a deferral rule, the best rule, what its estimate loses |
//! | [`tables`] | all | the tables that `outrider theory` prints |
//!
//! Probabilities and rates lie in [0, 1], costs and times are at least 0 and finite, and distributions over one
//! vocabulary have one length. Within these domains no function panics or returns NaN; each says what it gives at the
//! edge. The functions do not look for arguments outside of them.

pub mod cascade;
pub mod dssd;
pub mod flops;
pub mod sprinter;
pub mod tables;

pub use outrider_speculation::theory::{geometric_sum, tk_slt, total_variation};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// Distributions over six tokens, of any peakedness; some tokens have no mass.
    pub(crate) fn distribution() -> impl Strategy<Value = Vec<f64>> {
        let weights = prop::collection::vec(prop_oneof![1 => Just(0.0), 4 => 1e-3f64..1.0], 6);
        (weights, 0.2f64..20.0).prop_filter_map("no mass", |(weights, power)| {
            let weights: Vec<f64> = weights.iter().map(|weight| weight.powf(power)).collect();
            let sum: f64 = weights.iter().sum();
            (sum > 0.0).then(|| weights.iter().map(|weight| weight / sum).collect())
        })
    }
}
