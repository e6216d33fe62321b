//! Acceptance rate of a draft: the probability that both ends choose the same token with the same noise, averaged over
//! a text.

use outrider_codec::frame::SamplingParameters;
use outrider_speculation::judge::agreement;

/// Mean agreement of two models' distributions at the same positions, each `[vocab_size]`.
pub(super) fn mean_agreement<'a>(pairs: impl Iterator<Item = (&'a [f64], &'a [f64])>) -> f64 {
    let (mut agreed, mut count) = (0.0, 0);
    for (q, p) in pairs {
        agreed += agreement(q, p);
        count += 1;
    }
    agreed / f64::from(count.max(1))
}

/// Distribution that is sampled, from the most likely tokens alone: `[vocab_size + 1]`, where the last entry holds the
/// mass of all tokens that are not listed.
///
/// At temperatures up to 1 that mass is at least the true one, so that agreement is not overestimated: an unlisted
/// token has p ≤ m, the least listed probability, and p^(1/T) ≤ p·m^(1/T − 1).
pub(super) fn listed_distribution(listed: &[(u32, f64)], vocab_size: usize, sampling: &SamplingParameters) -> Vec<f64> {
    let SamplingParameters { temperature, top_p, .. } = *sampling;
    let mut sorted: Vec<(u32, f64)> = listed.iter().copied().filter(|&(id, _)| (id as usize) < vocab_size).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut out = vec![0.0; vocab_size + 1];
    let Some(&(first, _)) = sorted.first() else {
        out[vocab_size] = 1.0;
        return out;
    };
    if temperature == 0.0 {
        out[first as usize] = 1.0;
        return out;
    }
    let power = 1.0 / f64::from(temperature);
    let least = sorted.last().map_or(0.0, |&(_, p)| p);
    let unlisted = (1.0 - sorted.iter().map(|&(_, p)| p).sum::<f64>()).max(0.0);
    let tail = if unlisted > 0.0 { unlisted * least.powf(power - 1.0) } else { 0.0 };
    sorted.iter_mut().for_each(|(_, p)| *p = p.powf(power));
    let total = sorted.iter().map(|&(_, weight)| weight).sum::<f64>() + tail;
    let mut mass = 0.0;
    for (id, weight) in sorted {
        if mass >= f64::from(top_p) {
            break;
        }
        out[id as usize] = weight / total;
        mass += weight / total;
    }
    if mass < f64::from(top_p) {
        out[vocab_size] = tail / total;
    }
    let kept: f64 = out.iter().sum();
    out.iter_mut().for_each(|p| *p /= kept);
    out
}

#[cfg(test)]
mod tests {
    use outrider_speculation::sample;

    use super::*;

    fn sampling(temperature: f32, top_p: f32) -> SamplingParameters {
        SamplingParameters { temperature, top_k: 0, top_p }
    }

    /// With all tokens listed, the distribution is that of the logits ln p.
    #[test]
    fn a_whole_list_gives_the_sampled_distribution() {
        let p = [0.5, 0.25, 0.125, 0.0625, 0.0625];
        let listed: Vec<(u32, f64)> = (0..).zip(p).collect();
        let logits: Vec<f32> = p.iter().map(|p: &f64| p.ln() as f32).collect();
        for (temperature, top_p) in [(0.0, 1.0), (0.7, 1.0), (1.0, 1.0), (1.0, 0.6), (0.7, 0.95), (1.5, 0.9)] {
            let found = listed_distribution(&listed, 5, &sampling(temperature, top_p));
            let expected = sample::transform(&logits, &sampling(temperature, top_p)).unwrap();
            assert!(found[5] < 1e-12);
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-6, "{found} and {expected} at {temperature}, {top_p}");
            }
        }
    }

    #[test]
    fn a_short_list_never_promises_more_agreement() {
        let p = [0.4, 0.3, 0.15, 0.1, 0.05];
        let q = [0.35, 0.25, 0.1, 0.2, 0.1, 0.0];
        let all: Vec<(u32, f64)> = (0..).zip(p).collect();
        for temperature in [0.3, 0.7, 1.0] {
            let whole = agreement(&q, &listed_distribution(&all, 5, &sampling(temperature, 1.0)));
            let mut last = 0.0;
            for count in 1..=5 {
                let found = agreement(&q, &listed_distribution(&all[..count], 5, &sampling(temperature, 1.0)));
                assert!(found <= whole + 1e-12 && found >= last, "{count} at {temperature}: {found} of {whole}");
                last = found;
            }
        }
        assert_eq!(listed_distribution(&[], 2, &sampling(1.0, 1.0)), [0.0, 0.0, 1.0]);
        let halves = [(&[1.0, 0.0][..], &[1.0, 0.0][..]), (&[1.0, 0.0], &[0.0, 1.0])];
        assert_eq!(mean_agreement(halves.into_iter()), 0.5);
    }
}
