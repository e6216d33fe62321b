//! Sampling parameters that tests share.

use outrider_codec::frame::SamplingParameters;

/// S(·) changes nothing.
pub const NEUTRAL: SamplingParameters = at(1.0);
/// S(·) changes both models, and statistics of the draft's travel.
pub const SHARPENED: SamplingParameters = SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.9 };
/// The most likely token.
pub const GREEDY: SamplingParameters = at(0.0);

/// A temperature and nothing else.
pub const fn at(temperature: f32) -> SamplingParameters {
    SamplingParameters { temperature, top_k: 0, top_p: 1.0 }
}
