//! The largest, the smallest and the impossible drafts of each scheme.

use outrider_codec::{
    probabilities::DraftProbability,
    scheme::{Downlink, Drafts, SchemeParameters},
};
use serde_json::Value;

use super::recorder::{ENUMERATIVE, LARGE, Source, bits, refuse_all, session, token};

pub fn lattice_extremes(parameters: impl Fn(u32, u32) -> SchemeParameters) -> Vec<Value> {
    let mut source = Source(3);
    [
        ("V = 1", 1, 1, 1),
        ("K = 1", 4096, 1, 100),
        ("K = V", 16, 16, 20),
        ("l = 1", 4096, 32, 1),
        ("l = 65536", 40, 8, 1 << 16),
        ("V = 151936", LARGE, 64, 100),
    ]
    .into_iter()
    .map(|(name, v, k, l)| {
        let (mut recorder, scheme) = session(name, v, parameters(k, l), &[v - 1, 0, v / 2]);
        let most = k.min(l);
        let one_hot = token(&scheme, v - 1, &[v - 1], &[l]);
        let mut random = |m| source.token(&scheme, v, m, l);
        for (accepted, tokens) in [
            (1, vec![one_hot.clone(), random(most)]),
            (2, vec![random(most), random(most.div_ceil(2))]),
            (0, vec![]),
            (0, vec![random(most)]),
            (1, vec![one_hot]),
        ] {
            recorder.round(&Drafts::Distributions(tokens), accepted, v / 3);
        }
        recorder.done()
    })
    .collect()
}

pub fn lattice_malformed() -> Value {
    let parameters = SchemeParameters::KSqs { support_size: 2, lattice_resolution: 10, code: ENUMERATIVE };
    let (recorder, _) = session("malformed drafts", 100, parameters, &[1]);
    let draft = |support, counts, index, filling| bits(&[(support, 13), (counts, 4), (index, 1), (filling, 6)]);
    refuse_all(
        recorder,
        &[
            // C(100, 2) = 4950 supports and C(11, 1) = 11 compositions.
            draft(4950, 0, 1, 0),
            draft(41, 11, 1, 0),
            // Counts (0, 10): the first of the two has no mass, and is not the smallest such id.
            draft(1, 0, 0, 0),
            draft(41, 0, 1, 0),
            draft(41, 3, 1, 1),
        ],
    )
}

pub fn size_malformed() -> Value {
    let parameters = SchemeParameters::CSqs { lattice_resolution: 100, code: ENUMERATIVE };
    let (recorder, _) = session("malformed drafts", 10_000, parameters, &[1]);
    // K = 10001, 16384, and 5000, which is too large to rank and too small to be V.
    let draft = |size| [bits(&[(size, 14)]), vec![0; 2000]].concat();
    refuse_all(recorder, &[draft(10_000), draft(16_383), draft(4_999)])
}

/// 2²⁴ is probability 1.
pub const ONE: u32 = 1 << 24;

pub fn dense_extremes() -> Vec<Value> {
    let (mut recorder, scheme) = session("extremes", 5, SchemeParameters::Dense, &[1]);
    for (id, ids, counts) in [
        (4, &[4][..], &[ONE][..]),
        (0, &[0], &[1]),
        (3, &[0, 1, 2, 3, 4], &[1, 1023, 1024, 2047, 2048]),
        (1, &[1, 3], &[ONE, ONE - (1 << 13)]),
    ] {
        recorder.round(&Drafts::Distributions(vec![token(&scheme, id, ids, counts)]), 0, 2);
    }
    let draft = |probabilities: [u64; 5], id| bits(&[probabilities.map(|p| (p, 16)).to_vec(), vec![(id, 3)]].concat());
    let one = 0x3c00;
    let malformed = [
        draft([0; 5], 0),
        draft([one, one, 0, 0, 0], 0),
        draft([one + 1, 0, 0, 0, 0], 0),
        draft([one, 0x8000, 0, 0, 0], 0),
        draft([one, 0, 0, 0, 0], 1),
        draft([one, 0, 0, 0, 0], 5),
    ];
    let extremes = refuse_all(recorder, &malformed);
    let (mut recorder, scheme) = session("V = 1", 1, SchemeParameters::Dense, &[0]);
    recorder.round(&Drafts::Distributions(vec![token(&scheme, 0, &[0], &[3])]), 1, 0);
    vec![extremes, recorder.done()]
}

pub fn tk_slt_extremes() -> Vec<Value> {
    let mut sessions = Vec::new();
    for (name, v, k) in [("K = 1", LARGE, 1), ("K = V", 5, 5), ("V = 151936", LARGE, 8)] {
        let (mut recorder, scheme) = session(name, v, SchemeParameters::TkSlt { support_size: k }, &[1]);
        let ids: Vec<u32> = (v - k..v).collect();
        let counts: Vec<u32> = (0..k).map(|at| (1024 + at) << (at % 8)).collect();
        let whole = token(&scheme, v - 1, &ids, &counts);
        let one_hot = token(&scheme, v / 2, &[v / 2], &[1]);
        recorder.round(&Drafts::Distributions(vec![whole, one_hot]), 1, 0);
        sessions.push(recorder.done());
    }
    let (recorder, _) = session("malformed drafts", 5, SchemeParameters::TkSlt { support_size: 2 }, &[1]);
    let draft = |ids: [u64; 2], [p, q]: [u64; 2], index| {
        bits(&[(ids[0], 3), (ids[1], 3), (p, 16), (q, 16), (index, 1), (0, 1)])
    };
    let one = 0x3c00;
    let malformed = [
        draft([3, 1], [one, 1], 0),
        draft([3, 3], [one, 1], 0),
        draft([3, 5], [one, 1], 0),
        draft([3, 4], [one, one], 0),
        draft([3, 4], [one + 1, 1], 0),
        draft([3, 4], [0, 0], 0),
        draft([1, 4], [0, one], 1),
        draft([0, 4], [0, one], 0),
    ];
    sessions.push(refuse_all(recorder, &malformed));
    sessions
}

pub fn dssd_extremes() -> Value {
    let scheme = SchemeParameters::Dssd { downlink: Downlink::Sampled(255) };
    let (mut recorder, _) = session("V = 151936", LARGE, scheme, &[1]);
    let token = |id, count, total| DraftProbability { id, count, total };
    let tokens = vec![token(LARGE - 1, 1, 1), token(0, ONE, ONE), token(7, 1, 2 * ONE - 1), token(9, 2047, 2048)];
    recorder.round(&Drafts::Probabilities(tokens), 4, 5);
    let draft = |id: u32, count, total| bits(&[(id.into(), 18), (count, 16), (total, 25)]);
    refuse_all(recorder, &[draft(0, 0, 1), draft(0, 2, 1), draft(0, 0x3c01, 1 << 24), draft(LARGE, 1, 1)])
}

pub fn coupled_extremes() -> Value {
    let (mut recorder, _) = session("V = 151936", LARGE, SchemeParameters::Coupled, &[1]);
    recorder.round(&Drafts::Ids(vec![LARGE - 1, 0, 77]), 3, 5);
    refuse_all(recorder, &[bits(&[(LARGE.into(), 18)])])
}
