//! Laws that hold for every frame. What a frame refuses is tested in its file.

use super::*;
use crate::{
    choice::Choice,
    distribution::{DraftDist, DraftToken},
    rule::RuleParameters,
    scheme::{Code, Downlink, Drafts, Scheme, SchemeName, SchemeOptions, SchemeParameters},
};
use proptest::prelude::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

pub const TICKET: Ticket = Ticket { id: [1; 16], secret: [0xfe; 16] };

/// The field whose value makes bytes no frame.
pub fn refused(bytes: &[u8]) -> &'static str {
    match Frame::decode(bytes) {
        Err(DecodeError::Value { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

pub fn request() -> Request {
    Request {
        generation: 3,
        sampling: SamplingParameters { temperature: 0.7, top_k: 40, top_p: 0.95 },
        seed: 0x0123_4567_89ab_cdef,
        max_new_tokens: 128,
        tokens: vec![0, 300, 4095],
    }
}

fn one_of_each() -> Vec<Frame> {
    let mut frames = vec![
        Frame::Shape(Shape { generation: 3, answered: 2, options: r#"{"min_p": 0.1}"#.to_owned() }),
        Frame::Hello(Hello { vocab_size: 4096, tokenizer_hash: [7; 32] }),
        Frame::Welcome(Welcome {
            vocab_size: 4096,
            limits: Limits {
                context_length: 512,
                max_draft_tokens: 16,
                max_in_flight: 8,
                max_guesses: 64,
                max_branches: 16,
                own_draws: true,
                fewest_passes: false,
            },
            eos_ids: vec![0, 200],
            ticket: TICKET,
            detached_seconds: 120,
            pass_micros: [300, 310, 400, 600, 70_000],
        }),
        Frame::Resume(Resume { ticket: TICKET, attempt: 1, generation: 3, length: 300 }),
        Frame::Resume(Resume { ticket: TICKET, attempt: 1, generation: 0, length: 0 }),
        Frame::Generate(request()),
        Frame::Draft(Draft { generation: 3, round: 200, count: 2, payload: vec![1, 2, 3], ..Draft::default() }),
        Frame::Draft(Draft { generation: 3, round: 200, resampled: Some(300), ..Draft::default() }),
        Frame::Draft(Draft { generation: 3, round: 200, resampled: Some(300), stream: 16, ..Draft::default() }),
        Frame::Draft(Draft {
            generation: 3,
            round: 200,
            passed: vec![300, 5],
            count: 1,
            payload: vec![9],
            ..Draft::default()
        }),
        Frame::Draft(Draft {
            generation: 3,
            round: 200,
            epoch: 70,
            continued: true,
            count: 2,
            payload: vec![1, 2, 3],
            ..Draft::default()
        }),
        Frame::Draft(Draft { generation: 3, round: 200, continued: true, count: 64, ..Draft::default() }),
        Frame::Draft(Draft { generation: 3, round: 200, epoch: 1, resampled: Some(300), ..Draft::default() }),
        Frame::Draft(Draft { generation: 3, round: 200, epoch: (1 << 31) - 1, stream: 16, ..Draft::default() }),
        Frame::Cancel { generation: 3 },
        verdict(Next::Token(4095), None),
        verdict(Next::Nothing, Some(Finish::Eos)),
        verdict(Next::Nothing, None),
        verdict(Next::Samples(vec![(7, 0.5), (4095, 1.0)]), None),
        verdict(Next::Distribution(sparse()), None),
        Frame::Resample { generation: 3, round: 200 },
        Frame::Distribution(Distribution { generation: 3, round: 200, target: dense() }),
        Frame::Evidence(Evidence {
            generation: 3,
            round: 200,
            index: 1,
            rejection: 0.25,
            divergence: 0.0,
            target: sparse(),
        }),
        tokens(&[17], 0, Some(Finish::Length)),
        tokens(&[17, 4095, 5], 2, None),
        tokens(&[17, 200], 2, Some(Finish::Eos)),
        Frame::Guesses(Guesses {
            generation: 3,
            chain: 2,
            position: 300,
            patience: 150,
            count: 2,
            payload: vec![1, 2, 3],
            ..Guesses::default()
        }),
        Frame::Guesses(Guesses {
            generation: 3,
            chain: 301,
            parent: 300,
            position: 7,
            count: 1,
            payload: vec![1, 2],
            ..Guesses::default()
        }),
        Frame::Guesses(Guesses { generation: 3, chain: 2, parent: 1, ..Guesses::default() }),
        Frame::Guesses(Guesses { generation: 3, chain: 1, position: 7, ..Guesses::default() }),
        Frame::Error(ErrorFrame { generation: 0, code: ErrorCode::ServerFull, text: "No place is free.".into() }),
        Frame::Bye,
    ];
    let options = [Downlink::Full, Downlink::Sampled(4)].map(|downlink| SchemeOptions {
        support_size: 32,
        lattice_resolution: 100,
        code: if downlink == Downlink::Full { Code::Enumerative } else { Code::Adaptive },
        downlink,
    });
    let schemes = SchemeName::ALL.iter().flat_map(|name| options.map(|options| name.with(options)));
    frames.extend(schemes.map(|scheme| prompt(scheme, RuleParameters::EXACT, false)));
    frames.push(prompt(SchemeParameters::Dense, RuleParameters::EXACT, true));
    let exact = Prompt::exact(SchemeParameters::Coupled, request());
    frames.push(Frame::Prompt(Prompt { max_in_flight: u8::MAX, ..exact.clone() }));
    for evidence in [false, true] {
        frames.push(Frame::Prompt(Prompt { evidence, blocks: true, ..exact.clone() }));
    }
    for parameter in [0.25, -0.25, -f32::MIN_POSITIVE] {
        frames.push(prompt(SchemeParameters::Dense, RuleParameters { number: 63, parameter }, false));
    }
    frames
}

fn prompt(scheme: SchemeParameters, rule: RuleParameters, evidence: bool) -> Frame {
    Frame::Prompt(Prompt { rule, evidence, ..Prompt::exact(scheme, request()) })
}

fn tokens(ids: &[u32], accepted: u8, finish: Option<Finish>) -> Frame {
    let own = accepted == 2;
    Frame::Tokens(Tokens { generation: 1, position: 300, ids: ids.to_vec(), accepted, own, heard: 9, pass: 73, finish })
}

fn verdict(next: Next, finish: Option<Finish>) -> Frame {
    Frame::Verdict(Verdict { generation: 3, round: 200, accepted: 2, next, finish })
}

/// Shorter by its gaps.
fn sparse() -> TargetDist {
    TargetDist(vec![(3, 0.25), (4, 0.5), (4000, 0.25)])
}

/// Shorter without them.
fn dense() -> TargetDist {
    TargetDist((0..20).filter(|id| id % 10 != 5).map(|id| (id, 1.0 / 18.0)).collect())
}

#[test]
fn every_frame_round_trips_and_starts_with_its_own_byte() {
    let mut kinds = std::collections::BTreeMap::new();
    for frame in one_of_each() {
        let bytes = frame.encode();
        assert_eq!(Frame::decode(&bytes), Ok(frame.clone()));
        assert_eq!(*kinds.entry(bytes[0]).or_insert(frame.name()), frame.name());
    }
    assert_eq!(kinds.len(), 19);
}

/// A draft's frame ends in its payload, whose length follows from the count and the scheme: there the prefix fails
/// in the payload's decoder.
#[test]
fn every_proper_prefix_fails() {
    let parameters = SchemeParameters::KSqs { support_size: 2, lattice_resolution: 100, code: Code::Enumerative };
    let scheme = Scheme::new(parameters, 4096).unwrap();
    let dist = DraftDist::new(vec![5, 9], vec![30, 70]).unwrap();
    let token = |id| DraftToken { id, dist: dist.clone(), support_size: 2 };
    let payload = scheme.encode_round(&Drafts::Distributions(vec![token(5), token(9)])).unwrap();
    let draft = Frame::Draft(Draft { generation: 3, round: 200, count: 2, payload, ..Draft::default() });
    for frame in one_of_each().into_iter().chain([draft.clone()]) {
        let bytes = frame.encode();
        for end in 0..bytes.len() {
            match Frame::decode(&bytes[..end]) {
                Err(DecodeError::Truncated { .. }) => {}
                // Its payload is a made-up one that no scheme decodes; the real one comes last.
                Ok(short @ (Frame::Draft(_) | Frame::Guesses(_))) if frame != draft => assert_ne!(short, frame),
                Ok(Frame::Draft(draft)) => assert!(
                    matches!(scheme.decode_round(&draft.payload, draft.count), Err(DecodeError::Truncated { .. })),
                    "{end} of {} bytes of {frame:?}",
                    bytes.len()
                ),
                other => panic!("{end} of {} bytes of {frame:?}: {other:?}", bytes.len()),
            }
        }
        let longer = [&bytes[..], &[0]].concat();
        match Frame::decode(&longer) {
            Ok(Frame::Draft(draft)) => assert!(scheme.decode_round(&draft.payload, draft.count).is_err()),
            Ok(Frame::Guesses(guesses)) => assert!(guesses.count > 0, "none is followed by nothing"),
            other => assert_eq!(other, Err(DecodeError::TrailingBytes { count: 1 }), "{frame:?}"),
        }
    }
}

#[test]
fn unknown_kinds_and_long_frames_are_named() {
    assert_eq!(refused(&[CANCEL, 0]), "generation");
    assert_eq!(Frame::decode(&[0x77]), Err(DecodeError::UnknownKind { kind: 0x77 }));
    let long = vec![CANCEL; MAX_FRAME_BYTES + 1];
    assert!(matches!(Frame::decode(&long), Err(DecodeError::TooLong { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(target_arch = "wasm32") { 256 } else { 20_000 }))]

    /// The oracle: whatever decodes encodes to the same bytes.
    #[test]
    fn any_bytes_decode_to_a_frame_or_an_error(
        kind in prop::sample::select(vec![
            HELLO, PROMPT, GENERATE, 0x04, 0x07, 0x14, 0x17, RESAMPLE, RESUME, CANCEL, BYE, WELCOME, VERDICT,
            DISTRIBUTION, EVIDENCE, TOKENS, GUESSES, ERROR, 0x55,
        ]),
        tail in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..4], 0..80),
    ) {
        let bytes = [&[kind][..], &tail].concat();
        if let Ok(frame) = Frame::decode(&bytes) {
            prop_assert_eq!(frame.encode(), bytes);
        }
    }

    #[test]
    fn a_changed_byte_decodes_canonically_or_fails(
        which in any::<prop::sample::Index>(), position in any::<prop::sample::Index>(), to in any::<u8>(),
    ) {
        let mut bytes = which.get(&one_of_each()).encode();
        let at = position.index(bytes.len());
        bytes[at] = to;
        if let Ok(frame) = Frame::decode(&bytes) {
            prop_assert_eq!(frame.encode(), bytes);
        }
    }
}
