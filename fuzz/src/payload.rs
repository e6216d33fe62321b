//! A scheme, and rounds of it: payloads of any bytes, drafts of any kind, and what rules have travel before them.

use arbitrary::{Result, Unstructured};
use outrider_codec::{
    rule::StatisticKind,
    scheme::{Code, Drafts, RoundEncoder, Scheme, SchemeParameters},
};

use crate::{choose, rules};

/// More rounds teach the adaptive code nothing that a few do not.
const MOST_ROUNDS: usize = 8;
const MOST_DRAFTS: usize = 4;

/// Bits by which the adaptive code may exceed the enumerative one in a round (six of the mode, nine of the end,
/// rounding).
const ADAPTIVE_EXCESS: usize = 16;

/// Chooses a scheme and runs rounds of it. Each round is either bytes, any or nearly right, which decode to drafts with
/// the same bytes or to an error; or drafts, which have to be encoded within the bound and decoded to the same drafts.
/// Both teach the two ends' codes.
pub fn check(bytes: &[u8]) {
    // Unstructured never runs out: where bytes end it goes on with zeros.
    let _ = play(&mut Unstructured::new(bytes));
}

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let is_large = choose::rarely(input, 16)?;
    let vocab_size = if is_large {
        choose::one_of(input, &[0, 1, 4096, 50_257, 151_936, 1 << 24, (1 << 24) + 1, u32::MAX])?
    } else {
        choose::one_of(input, &[1, 2, 3, 5, 12, 64, 300])?
    };
    let parameters = choose::scheme(input, vocab_size)?;
    if is_slow(parameters, vocab_size) {
        return Ok(());
    }
    let Ok(mut edge) = Scheme::new(parameters, vocab_size) else { return Ok(()) };
    let mut cloud = Scheme::new(parameters, vocab_size).expect("what could be made once can be made again");
    let prompt = choose::ids(input, 4, vocab_size)?;
    edge.prime(&prompt);
    cloud.prime(&prompt);
    // Large ones take long, and teach nothing that small ones do not.
    for _ in 0..if is_large { 1 } else { MOST_ROUNDS } {
        if input.is_empty() {
            break;
        }
        let drafts = match input.int_in_range(0..=4u8)? {
            4 => {
                statistics(input)?;
                None
            }
            0 | 1 => {
                let count = input.int_in_range(0..=MOST_DRAFTS)?;
                let drafts = choose::fit(choose::drafts(input, parameters, vocab_size, count)?, &edge);
                sent(&drafts, parameters, vocab_size, &edge, &cloud);
                Some(drafts)
            }
            2 => {
                let count = input.int_in_range(1..=MOST_DRAFTS)?;
                let drafts = choose::fit(choose::drafts(input, parameters, vocab_size, count)?, &edge);
                let mut payload = edge.encode_round(&drafts).expect("the drafts were made to fit");
                for _ in 0..input.int_in_range(1..=3)? {
                    flip(input, &mut payload)?;
                }
                received(&payload, count as u8, parameters, vocab_size, &cloud)
            }
            _ => {
                let count = if choose::rarely(input, 8)? { input.arbitrary()? } else { input.int_in_range(0..=3)? };
                let length = match edge.fixed_token_bits() {
                    Some(bits) if !choose::rarely(input, 8)? => (bits as usize * usize::from(count)).div_ceil(8),
                    _ => input.arbitrary::<u8>()?.into(),
                };
                received(input.bytes(length.min(input.len()))?, count, parameters, vocab_size, &cloud)
            }
        };
        let Some(drafts) = drafts else { continue };
        let accepted = input.int_in_range(0..=drafts.len())?;
        let token = if choose::rarely(input, 4)? { None } else { Some(choose::number(input, vocab_size - 1)?) };
        edge.commit(&drafts, accepted, token);
        cloud.commit(&drafts, accepted, token);
    }
    Ok(())
}

/// Returns true if a round is too slow to fuzz: supports of thousands of a large vocabulary, or something of each of
/// 2^24 ids. The crate's own tests have some of these.
fn is_slow(parameters: SchemeParameters, vocab_size: u32) -> bool {
    match parameters {
        SchemeParameters::Qs { lattice_resolution, .. } | SchemeParameters::CSqs { lattice_resolution, .. } => {
            vocab_size == 1 << 24 || vocab_size >= 4096 && lattice_resolution > 130
        }
        _ => vocab_size == 1 << 24 && is_adaptive(parameters),
    }
}

/// Flips a bit, if there is one.
fn flip(input: &mut Unstructured<'_>, payload: &mut [u8]) -> Result<()> {
    if !payload.is_empty() {
        let place = input.int_in_range(0..=payload.len() - 1)?;
        payload[place] ^= 1 << input.int_in_range(0..=7)?;
    }
    Ok(())
}

/// Statistics before the drafts: those that were put there, perhaps with an error, or any bytes. They are read as
/// FORMAT.md says, or refused where it says so.
fn statistics(input: &mut Unstructured<'_>) -> Result<()> {
    let kind = choose::one_of(input, &[StatisticKind::Scalar, StatisticKind::Support])?;
    let count = input.int_in_range(0..=MOST_DRAFTS)? as u8;
    let mut payload = Vec::new();
    if input.arbitrary()? {
        for _ in 0..count {
            let length = if kind == StatisticKind::Scalar { 1 } else { input.int_in_range(0..=4)? };
            let numbers = (0..length).map(|_| input.arbitrary()).collect::<Result<Vec<u16>>>()?;
            kind.put(&mut payload, &numbers);
        }
        if choose::rarely(input, 4)? {
            flip(input, &mut payload)?;
        }
    }
    let more = input.int_in_range(0..=12)?;
    payload.extend(input.bytes(more.min(input.len()))?);
    let expected = rules::take(kind, &payload, count);
    match kind.take(&payload, count) {
        Ok((found, rest)) => {
            let lengths = found.iter().map(Vec::len).collect();
            assert_eq!(expected, Some((lengths, rest)), "{kind:?} {payload:?}");
            let mut again = Vec::new();
            for numbers in &found {
                let before = again.len();
                kind.put(&mut again, numbers);
                assert_eq!(again.len() - before, kind.length(numbers.len()));
            }
            assert_eq!([&again, rest].concat(), payload);
            if let Some((_, shorter)) = again.split_last() {
                assert!(kind.take(shorter, count).is_err(), "{again:?} decodes without its last byte");
            }
        }
        Err(error) => assert!(expected.is_none() && !error.to_string().is_empty(), "{kind:?} {payload:?}: {error}"),
    }
    Ok(())
}

/// Drafts that the edge made.
fn sent(drafts: &Drafts, parameters: SchemeParameters, vocab_size: u32, edge: &Scheme, cloud: &Scheme) {
    let round = encoded(drafts, edge);
    let bits = round.bits();
    let (payload, used) = round.finish();
    if let Some(fixed) = edge.fixed_token_bits() {
        assert_eq!(used, fixed as usize * drafts.len());
    }
    if is_adaptive(parameters) {
        assert!(payload.len() <= (bits + 1).div_ceil(8), "{} bytes for {bits} bits", payload.len());
        // The guarantee is about a fixed K. Where K varies, that is the largest: QS.
        let reference = match parameters {
            SchemeParameters::CSqs { lattice_resolution, .. } => {
                SchemeParameters::Qs { lattice_resolution, code: Code::Enumerative }
            }
            other => enumerative(other),
        };
        if let Ok(scheme) = Scheme::new(reference, vocab_size) {
            let most = encoded(&choose::fit(drafts.clone(), &scheme), &scheme).bits() + ADAPTIVE_EXCESS;
            assert!(used <= most, "{used} bits, the enumerative code's allow {most}: {drafts:?}");
        }
    } else {
        assert_eq!((used, used.div_ceil(8)), (bits, payload.len()));
    }
    assert_eq!(edge.encode_round(drafts).as_ref(), Ok(&payload));
    let count = drafts.len() as u8;
    assert_eq!(cloud.decode_round(&payload, count).as_ref(), Ok(drafts));
    strict(&payload, count, cloud);
}

/// Bytes that the cloud got.
fn received(
    payload: &[u8],
    count: u8,
    parameters: SchemeParameters,
    vocab_size: u32,
    cloud: &Scheme,
) -> Option<Drafts> {
    let drafts = match cloud.decode_round(payload, count) {
        Ok(drafts) => drafts,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    assert_eq!(drafts.len(), usize::from(count));
    assert!(drafts.ids().iter().all(|&id| id < vocab_size), "{drafts:?}");
    if let Drafts::Distributions(tokens) = &drafts {
        assert!(tokens.iter().all(|token| token.dist.count(token.id) > 0), "{drafts:?}");
    }
    let again = cloud.encode_round(&drafts).expect("what was decoded can be encoded");
    if is_adaptive(parameters) {
        // The encoder has a choice between two words and takes the shorter, to within a byte.
        assert!(again.len() <= payload.len() + 1, "{} bytes became {}", payload.len(), again.len());
        assert_eq!(cloud.decode_round(&again, count).as_ref(), Ok(&drafts));
    } else {
        assert_eq!(again, payload, "{drafts:?}");
    }
    strict(payload, count, cloud);
    Some(drafts)
}

/// Neither a byte less nor a byte more is a payload of as many drafts.
fn strict(payload: &[u8], count: u8, cloud: &Scheme) {
    if let Some((_, shorter)) = payload.split_last() {
        assert!(cloud.decode_round(shorter, count).is_err(), "{payload:?} decodes without its last byte");
    }
    for more in [0, 0xff] {
        assert!(cloud.decode_round(&[payload, &[more]].concat(), count).is_err(), "{payload:?} decodes with {more}");
    }
}

/// Encodes token by token, each within its announced bound.
fn encoded(drafts: &Drafts, scheme: &Scheme) -> RoundEncoder {
    const FITS: &str = "the drafts were made to fit";
    let mut round = scheme.round();
    match drafts {
        Drafts::Distributions(tokens) => {
            for token in tokens {
                let bound = round.bound(scheme, &token.dist, token.support_size).expect(FITS);
                round.push(scheme, token).expect(FITS);
                assert!(round.bits() <= bound, "{} bits, {bound} announced", round.bits());
            }
        }
        Drafts::Probabilities(tokens) => {
            tokens.iter().for_each(|token| round.push_probability(scheme, token).expect(FITS));
        }
        Drafts::Ids(ids) => ids.iter().for_each(|&id| round.push_id(scheme, id).expect(FITS)),
    }
    round
}

/// Returns true if the scheme's code is adaptive.
pub(crate) fn is_adaptive(parameters: SchemeParameters) -> bool {
    enumerative(parameters) != parameters
}

/// Returns the same scheme in the papers' bits.
fn enumerative(parameters: SchemeParameters) -> SchemeParameters {
    let code = Code::Enumerative;
    match parameters {
        SchemeParameters::Qs { lattice_resolution, .. } => SchemeParameters::Qs { lattice_resolution, code },
        SchemeParameters::CSqs { lattice_resolution, .. } => SchemeParameters::CSqs { lattice_resolution, code },
        SchemeParameters::KSqs { support_size, lattice_resolution, .. } => {
            SchemeParameters::KSqs { support_size, lattice_resolution, code }
        }
        other => other,
    }
}
