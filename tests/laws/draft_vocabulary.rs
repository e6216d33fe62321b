//! Drafts whose output head has rows for some tokens only (`d2t`; FR-Spec, VocabTrim, EAGLE-3): tokens without a row
//! have q = 0, and the text is distributed as the target's own samples.
//!
//! A d2t that is off by one makes a bad draft, and the text stays exact, as long as the drafted token and q̂ are named
//! by the same d2t. The planted errors name one of the two by another.

use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::SamplingParameters,
    scheme::{Code, Downlink, Drafts, SchemeParameters},
};
use outrider_speculation::{
    judge::{Judgement, NextToken, Round, Verification, judge},
    session::edge::{Mode, Speculation},
};
use outrider_tests::{
    goodness::{assert_caught, assert_follows},
    samplings::{NEUTRAL, at},
    texts::{PROMPT, Texts},
};

/// Tokens that have a row, of a vocabulary of four.
const TOKENS: [u32; 3] = [0, 2, 3];
/// The token without a row.
const ABSENT: usize = 1;
const ADAPTIVE: SchemeParameters = SchemeParameters::Qs { lattice_resolution: 12, code: Code::Adaptive };
/// K-SQS with a larger support than the head has rows.
const K_SQS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 4, lattice_resolution: 20, code: Code::Enumerative };

/// Texts over four tokens with a draft of three rows.
fn trimmed(scheme: SchemeParameters, sampling: SamplingParameters) -> Texts {
    let texts = Texts::of_four(scheme, sampling);
    Texts { draft: texts.draft.trimmed(&TOKENS, &TOKENS), ..texts }
}

/// Both state machines write the target's texts, in which the token without a row occurs.
fn assert_exact(scheme: SchemeParameters, sampling: SamplingParameters, verification: Verification) {
    let texts = trimmed(scheme, sampling);
    assert_eq!(texts.draft.logits(&PROMPT)[ABSENT], f32::NEG_INFINITY);
    assert!(texts.position(&PROMPT).q[ABSENT] == 0.0 && texts.position(&PROMPT).p[ABSENT] > 0.05);
    let mode = Mode::Speculative(Speculation { verification, ..texts.speculation() });
    let counts = texts.of_sessions(mode, &mut texts.connect(), |_| {});
    assert_follows(&counts, &texts.of_target(), (scheme, sampling, verification));
}

#[test]
fn distributions_of_few_rows_leave_the_text_exact() {
    assert_exact(SchemeParameters::Dense, at(1.0), Verification::Token);
    assert_exact(K_SQS, at(0.7), Verification::Block);
    assert_exact(ADAPTIVE, at(1.0), Verification::Token);
}

#[test]
fn dssd_and_coupled_drafting_with_few_rows_leave_the_text_exact() {
    let dssd = SchemeParameters::Dssd { downlink: Downlink::Sampled(2) };
    for scheme in [dssd, SchemeParameters::Coupled] {
        assert_exact(scheme, at(1.0), Verification::Token);
    }
}

/// Names the token of a row, given by its right token.
type Named = fn(u32) -> u32;

/// The right token of a row.
const RIGHT: Named = |id| id;

/// The token of the following row: d2t is read one row too late, and the last row gets the first one's token.
const OFF_BY_ONE: Named = |id| TOKENS[(TOKENS.binary_search(&id).unwrap() + 1) % TOKENS.len()];

/// The distribution with its tokens named otherwise.
fn renamed(dist: &DraftDist, named: Named) -> DraftDist {
    let mut rows: Vec<(u32, u32)> =
        dist.ids().iter().zip(dist.counts()).map(|(&id, &count)| (named(id), count)).collect();
    rows.sort_unstable();
    let (ids, counts) = rows.into_iter().unzip();
    DraftDist::new(ids, counts).unwrap()
}

/// Counts of the texts of a loop of rounds. `of_draft` names the drafted token, `of_q` the tokens of q̂ that the server
/// receives.
fn written(texts: &Texts, of_draft: Named, of_q: Named) -> Vec<u32> {
    texts.of_rounds(|text, ends| {
        let (drafts, rows) = texts.round(text, |row, _| {
            let DraftToken { id, dist, support_size } = texts.draw(row, &mut ends.edge);
            Some(DraftToken { id: of_draft(id), dist: renamed(&dist, of_q), support_size })
        });
        let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let round = Round {
            scheme: Some(texts.scheme),
            drafts: Drafts::Distributions(drafts.clone()),
            ..Round::alone(texts.sampling, ends.seed, text.len())
        };
        let Judgement { accepted, next: NextToken::Token(token), .. } = judge(&round, &rows).unwrap() else {
            panic!("the server draws the last token of {:?}", texts.scheme)
        };
        drafts[..accepted].iter().map(|draft| draft.id).chain([token]).collect()
    })
}

#[test]
fn a_distribution_of_other_tokens_than_the_drafted_ones_is_caught() {
    for scheme in [SchemeParameters::Dense, SchemeParameters::TkSlt { support_size: 3 }] {
        let texts = trimmed(scheme, NEUTRAL);
        let of_target = texts.of_target();
        for named in [RIGHT, OFF_BY_ONE] {
            assert_follows(&written(&texts, named, named), &of_target, scheme);
        }
        // The planted errors: d2t is off by one for q̂ alone, and for the drafted token alone.
        for (of_draft, of_q) in [(RIGHT, OFF_BY_ONE), (OFF_BY_ONE, RIGHT)] {
            assert_caught(&written(&texts, of_draft, of_q), &of_target, scheme);
        }
    }
}
