//! Sampling that a model's files recommend: `generation_config.json` beside a checkpoint, `general.sampling.*` in GGUF.

/// Sampling parameters that a model's files recommend. A parameter that they do not mention is `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecommendedSampling {
    /// Temperature; 0 is greedy.
    pub temperature: Option<f32>,
    /// Number of most likely tokens to sample from; 0 is all of them.
    pub top_k: Option<u32>,
    /// Probability mass of nucleus sampling, above 0 and at most 1.
    pub top_p: Option<f32>,
    /// Recommendations that cannot be followed, each as `name = value`.
    pub ignored: Vec<String>,
}

/// Parameters that samplers here do not have: name in `generation_config.json`, name in GGUF, and the value without
/// effect.
const UNSUPPORTED: [(&str, &str, f64); 6] = [
    ("min_p", "min_p", 0.0),
    ("typical_p", "typical_p", 1.0),
    ("repetition_penalty", "penalty_repeat", 1.0),
    ("presence_penalty", "penalty_present", 0.0),
    ("frequency_penalty", "penalty_freq", 0.0),
    ("xtc_probability", "xtc_probability", 0.0),
];
/// Highest temperature that generations accept.
const HIGHEST_TEMPERATURE: f64 = 5.0;

impl RecommendedSampling {
    /// Reads the values of a `generation_config.json`, by name.
    pub(super) fn from_hugging_face(value: impl Fn(&str) -> Option<f64>) -> Self {
        Self::read("temperature", |(name, _, neutral)| (name, neutral), value)
    }

    /// Reads the settings of a GGUF file, by their keys after `general.sampling.`.
    pub(super) fn from_gguf(value: impl Fn(&str) -> Option<f64>) -> Self {
        Self::read("temp", |(_, name, neutral)| (name, neutral), value)
    }

    fn read(
        temperature: &'static str,
        unsupported: impl Fn((&'static str, &'static str, f64)) -> (&'static str, f64),
        value: impl Fn(&str) -> Option<f64>,
    ) -> Self {
        let mut ignored = Vec::new();
        let mut within = |name: &str, is_allowed: fn(f64) -> bool| {
            let found = value(name)?;
            if is_allowed(found) {
                return Some(found);
            }
            ignored.push(format!("{name} = {found}"));
            None
        };
        let temperature = within(temperature, |x| (0.0..=HIGHEST_TEMPERATURE).contains(&x));
        // Other programs write −1 for all tokens.
        let top_k = within("top_k", |k| k.fract() == 0.0 && (-1.0..=f64::from(u32::MAX)).contains(&k));
        let top_p = within("top_p", |p| p > 0.0 && p <= 1.0);
        for (name, neutral) in UNSUPPORTED.map(unsupported) {
            ignored.extend(value(name).filter(|&found| found != neutral).map(|found| format!("{name} = {found}")));
        }
        Self {
            temperature: temperature.map(|x| x as f32),
            top_k: top_k.map(|k| k.max(0.0) as u32),
            top_p: top_p.map(|p| p as f32),
            ignored,
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    #[test]
    fn recommendations_are_followed_or_listed() {
        let of = |values: &[(&str, f64)]| {
            let values = values.to_owned();
            let value = move |name: &str| Some(values.iter().find(|(found, _)| *found == name)?.1);
            (RecommendedSampling::from_hugging_face(&value), RecommendedSampling::from_gguf(&value))
        };
        let nothing = RecommendedSampling::default();
        assert_eq!(of(&[]), (nothing.clone(), nothing.clone()));
        let (checkpoint, gguf) = of(&[("temperature", 0.6), ("temp", 0.5), ("top_k", 20.0), ("top_p", 0.95)]);
        assert_eq!((checkpoint.temperature, gguf.temperature), (Some(0.6), Some(0.5)));
        assert_eq!((checkpoint.top_k, checkpoint.top_p, checkpoint.ignored.len()), (Some(20), Some(0.95), 0));
        assert_eq!(of(&[("top_k", -1.0), ("min_p", 0.0), ("repetition_penalty", 1.0)]).0.top_k, Some(0));
        for (name, value) in [
            ("temperature", -1.0),
            ("temperature", f64::NAN),
            ("top_k", 2.5),
            ("top_p", 0.0),
            ("top_p", 1.5),
            ("min_p", 0.1),
            ("repetition_penalty", 1.05),
        ] {
            let ignored = vec![format!("{name} = {value}")];
            assert_eq!(of(&[(name, value)]).0, RecommendedSampling { ignored, ..nothing.clone() }, "{name}");
        }
    }
}
