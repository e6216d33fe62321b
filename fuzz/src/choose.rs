//! Parameters from bytes: mostly small ones, sometimes those at a limit, sometimes nonsense.
//!
//! All read from the front, and read zeros where the bytes end, so that an input is its choices in order.

use arbitrary::{Result, Unstructured};
use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::SamplingParameters,
    half,
    probabilities::DraftProbability,
    rule::RuleParameters,
    scheme::{Code, Downlink, Drafts, Scheme, SchemeParameters},
};
use outrider_speculation::{
    control::stop::StopRule,
    draft::{Confidence, Gate, ThresholdParameters},
    judge::Rule,
    session::edge::{Mode, Settings, Speculation},
    study::ComparisonParameters,
};

use crate::rules;

/// Chooses one of `values`.
pub fn one_of<T: Copy>(input: &mut Unstructured<'_>, values: &[T]) -> Result<T> {
    input.choose(values).copied()
}

/// True once in `of` times.
pub fn rarely(input: &mut Unstructured<'_>, of: u8) -> Result<bool> {
    Ok(input.int_in_range(0..=of - 1)? == of - 1)
}

/// A number of 0 ..= `most`; now and then one beyond, up to the largest there is.
pub fn number(input: &mut Unstructured<'_>, most: u32) -> Result<u32> {
    match input.int_in_range(0..=31u8)? {
        29 => Ok(most.saturating_add(1)),
        30 => Ok(u32::MAX),
        31 => input.arbitrary(),
        _ => input.int_in_range(0..=most),
    }
}

/// Up to `most` token ids of the vocabulary; now and then of any number.
pub fn ids(input: &mut Unstructured<'_>, most: usize, vocab_size: u32) -> Result<Vec<u32>> {
    let count = input.int_in_range(0..=most)?;
    (0..count).map(|_| number(input, vocab_size.saturating_sub(1))).collect()
}

/// A scheme for a vocabulary of about `vocab_size`; its parameters may be out of range.
pub fn scheme(input: &mut Unstructured<'_>, vocab_size: u32) -> Result<SchemeParameters> {
    let kind = input.int_in_range(0..=9u8)?;
    let code = if kind % 2 == 0 { Code::Enumerative } else { Code::Adaptive };
    Ok(match kind {
        0 | 1 => SchemeParameters::KSqs {
            support_size: number(input, vocab_size.min(64))?,
            lattice_resolution: lattice_resolution(input)?,
            code,
        },
        2 | 3 => SchemeParameters::CSqs { lattice_resolution: lattice_resolution(input)?, code },
        4 | 5 => SchemeParameters::Qs { lattice_resolution: lattice_resolution(input)?, code },
        6 => SchemeParameters::Dense,
        7 => SchemeParameters::TkSlt { support_size: number(input, vocab_size.min(64))? },
        8 => SchemeParameters::Dssd {
            downlink: match input.arbitrary()? {
                0 => Downlink::Full,
                samples => Downlink::Sampled(samples),
            },
        },
        _ => SchemeParameters::Coupled,
    })
}

/// A lattice resolution, ℓ.
pub fn lattice_resolution(input: &mut Unstructured<'_>) -> Result<u32> {
    if rarely(input, 32)? { one_of(input, &[1 << 16, (1 << 16) + 1, 2047, 1000]) } else { number(input, 130) }
}

/// The exact rule, or one of the others with a parameter within its range, at its end, or out of it; now and then a
/// number that is none.
pub fn rule(input: &mut Unstructured<'_>) -> Result<RuleParameters> {
    if !input.arbitrary::<bool>()? {
        return Ok(RuleParameters::EXACT);
    }
    let number =
        if rarely(input, 32)? { input.int_in_range(0..=127)? } else { input.int_in_range(0..=rules::COUNT - 1)? };
    let part = f32::from(input.arbitrary::<u8>()?) / 256.0;
    let parameter = match input.int_in_range(0..=15u8)? {
        0 => 0.0,
        1 => 1.0,
        2 => 1f32.next_down(),
        3 => 1f32.next_up(),
        4 => f32::MAX,
        5 => f32::MIN_POSITIVE,
        // Some are in nats.
        6..=8 => 8.0 * part,
        9 => -1.0,
        10 => (-1f32).next_down(),
        // No −0.
        11 => 8.0 * (part - 1.0),
        _ => part,
    };
    // The exact rule's does not travel.
    Ok(if number == 0 { RuleParameters::EXACT } else { RuleParameters { number, parameter } })
}

/// A number of [0, 1], its ends not rare; now and then any.
fn unit(input: &mut Unstructured<'_>) -> Result<f64> {
    if rarely(input, 32)? { input.arbitrary() } else { Ok(f64::from(input.arbitrary::<u8>()?) / 255.0) }
}

/// Chooses the gate that tokens have to pass; its parameters may be out of range. Half of the time none.
pub fn gate(input: &mut Unstructured<'_>) -> Result<Gate> {
    Ok(match input.int_in_range(0..=6u8)? {
        0..=2 => Gate::Never,
        3 => Gate::Sprinter { threshold: Some(unit(input)?) },
        4 => Gate::TokenCascade { alpha: unit(input)? },
        5 => Gate::SequenceCascade { alpha: unit(input)?, confidence: Confidence::Mean },
        _ => Gate::SequenceCascade { alpha: unit(input)?, confidence: Confidence::Product },
    })
}

/// Chooses the rule that ends a round; its parameters may be out of range.
pub fn stop(input: &mut Unstructured<'_>) -> Result<StopRule> {
    Ok(match input.int_in_range(0..=7u8)? {
        0..=3 => StopRule::Fixed,
        4 => StopRule::Odld,
        5 => StopRule::AdaEdl { scale: unit(input)?, threshold: unit(input)? },
        6 => StopRule::SpecDec { threshold: unit(input)? },
        _ => StopRule::Bild { fallback: unit(input)? },
    })
}

/// S(·): greedy half of the time. Its numbers may be out of range if not `valid`.
pub fn sampling(input: &mut Unstructured<'_>, valid: bool) -> Result<SamplingParameters> {
    let greedy = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
    Ok(match input.int_in_range(0..=5u8)? {
        0..=2 => greedy,
        3 => SamplingParameters { temperature: 1.0, ..greedy },
        4 => SamplingParameters {
            temperature: f32::from(input.arbitrary::<u8>()?) / 64.0,
            top_k: input.int_in_range(0..=8)?,
            top_p: f32::from(input.int_in_range(1..=64u8)?) / 64.0,
        },
        _ => {
            let any = SamplingParameters {
                temperature: input.arbitrary()?,
                top_k: input.arbitrary()?,
                top_p: input.arbitrary()?,
            };
            let fits = any.temperature.is_finite()
                && any.temperature.is_sign_positive()
                && any.top_p > 0.0
                && any.top_p <= 1.0;
            if fits || !valid { any } else { greedy }
        }
    })
}

/// C-SQS's threshold; may be out of range.
pub fn threshold(input: &mut Unstructured<'_>) -> Result<ThresholdParameters> {
    let mut part = |most: f64| -> Result<f64> {
        let value: u16 = input.arbitrary()?;
        if value == u16::MAX { input.arbitrary() } else { Ok(f64::from(value) / 65536.0 * most) }
    };
    Ok(ThresholdParameters { target: part(0.5)?, step: part(2.0)?, initial: part(1.0)? })
}

/// Chooses the parameters of a comparison, or none.
pub fn comparison(input: &mut Unstructured<'_>, vocab_size: u32) -> Result<Option<ComparisonParameters>> {
    if !rarely(input, 3)? {
        return Ok(None);
    }
    let support_size = number(input, vocab_size.min(64))?;
    let lattice_resolution = lattice_resolution(input)?;
    Ok(Some(ComparisonParameters { support_size, lattice_resolution, threshold: threshold(input)? }))
}

/// Chooses the settings of a generation; they may be out of range.
pub fn settings(input: &mut Unstructured<'_>, vocab_size: u32) -> Result<Settings> {
    let mode = if rarely(input, 8)? {
        Mode::CloudOnly
    } else {
        let scheme = scheme(input, vocab_size)?;
        let draft_length = number(input, 9)?;
        let bit_budget = if rarely(input, 4)? { Some(number(input, 400)?) } else { None };
        let threshold = threshold(input)?;
        let compare = comparison(input, vocab_size)?;
        let RuleParameters { number, parameter } = rule(input)?;
        let gate = gate(input)?;
        Mode::Speculative(Speculation {
            bit_budget,
            threshold,
            compare,
            rule: Rule::from_wire(number, parameter).unwrap_or(Rule::EXACT),
            gate,
            max_in_flight: if gate == Gate::Never { 1 + (draft_length % 3) as u8 } else { 1 },
            stop: stop(input)?,
            adaptive_mode: rarely(input, 3)?,
            explain: rarely(input, 3)?,
            ..Speculation::new(scheme, draft_length)
        })
    };
    let (sampling, seed) = (sampling(input, false)?, u64::from(input.arbitrary::<u8>()?));
    Ok(Settings { mode, sampling, seed, max_new_tokens: number(input, 24)? })
}

/// Drafts that a scheme with valid parameters can carry; any distributions, any of their ids.
pub fn drafts(
    input: &mut Unstructured<'_>,
    parameters: SchemeParameters,
    vocab_size: u32,
    count: usize,
) -> Result<Drafts> {
    let (largest, total) = match parameters {
        SchemeParameters::Coupled => {
            return Ok(Drafts::Ids((0..count).map(|_| input.int_in_range(0..=vocab_size - 1)).collect::<Result<_>>()?));
        }
        SchemeParameters::Dense | SchemeParameters::Dssd { .. } => (vocab_size, None),
        SchemeParameters::TkSlt { support_size } => (support_size, None),
        SchemeParameters::KSqs { support_size, lattice_resolution, .. } => (support_size, Some(lattice_resolution)),
        SchemeParameters::Qs { lattice_resolution, .. } | SchemeParameters::CSqs { lattice_resolution, .. } => {
            (vocab_size, Some(lattice_resolution))
        }
    };
    let tokens = (0..count).map(|_| draft_token(input, vocab_size, largest, total)).collect::<Result<Vec<_>>>()?;
    Ok(match parameters {
        SchemeParameters::Dssd { .. } => Drafts::Probabilities(tokens.iter().map(DraftProbability::from).collect()),
        _ => Drafts::Distributions(tokens),
    })
}

/// A token of at most `largest` ids, its counts adding up to `total`, or to what probabilities in f16 may.
/// `support_size` is the number of ids.
fn draft_token(input: &mut Unstructured<'_>, vocab_size: u32, largest: u32, total: Option<u32>) -> Result<DraftToken> {
    let most = largest.min(vocab_size).min(total.unwrap_or(u32::MAX)).clamp(1, 48);
    let size = input.int_in_range(1..=most)?;
    let mut ids = Vec::new();
    let mut next = 0;
    for left in (0..size).rev() {
        // Gaps are small, but for some.
        let room = vocab_size - 1 - left - next;
        let gap =
            if rarely(input, 4)? { input.int_in_range(0..=room)? } else { input.int_in_range(0..=room.min(3))? };
        ids.push(next + gap);
        next += gap + 1;
    }
    let mut counts = Vec::new();
    match total {
        Some(total) => {
            let mut rest = total - (size - 1);
            for _ in 1..size {
                let more = input.int_in_range(0..=rest - 1)?;
                counts.push(more + 1);
                rest -= more;
            }
            counts.push(rest);
        }
        // Each at most 2⁻⁶ of what f16 counts have as one: 48 of them are less than one.
        None => {
            for _ in 0..size {
                let bits = input.int_in_range(1..=0x2400u16)?;
                counts.push(half::to_count(bits).expect("these are the f16 numbers up to 2^-6"));
            }
        }
    }
    let drafted = ids[input.int_in_range(0..=size - 1)? as usize];
    let dist = DraftDist::new(ids, counts).expect("ids ascend, counts are positive");
    Ok(DraftToken { id: drafted, dist, support_size: size })
}

/// `drafts` with the K that `parameters` code them with.
pub fn fit(drafts: Drafts, scheme: &Scheme) -> Drafts {
    match drafts {
        Drafts::Distributions(mut tokens) => {
            for token in &mut tokens {
                token.support_size = scheme.support_size(token.support_size, &token.dist);
            }
            Drafts::Distributions(tokens)
        }
        other => other,
    }
}

/// A byte changed, left out or added.
pub fn mutated(input: &mut Unstructured<'_>, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
    let place = input.int_in_range(0..=bytes.len() - 1)?;
    match input.int_in_range(0..=3u8)? {
        0 => {
            bytes.remove(place);
        }
        1 => bytes.insert(place, input.arbitrary()?),
        _ => bytes[place] ^= 1 << input.int_in_range(0..=7)?,
    }
    Ok(bytes)
}
