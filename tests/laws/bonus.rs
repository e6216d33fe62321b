//! Algorithm 4 of Narasimhan et al. ("Faster Cascades via Speculative Decoding") over whole sessions: which tokens a
//! round of γ drafts commits, and how many. After γ accepted drafts comes one token more, distributed as π there.
//!
//! exact and bild have p in π's place: of the exact rule that is π, and Kim et al. have the target write the token.

use std::ops::Range;

use outrider_codec::scheme::{Code, Drafts, SchemeParameters};
use outrider_speculation::{
    judge::{Judgement, NextToken, Round, Rule, judge},
    session::edge::{Mode, Settings},
};
use outrider_tests::{
    closed_forms::Position,
    goodness::{assert_caught, assert_follows, cell, samples},
    samplings::{NEUTRAL, SHARPENED},
    texts::{Ends, PROMPT, Texts},
};

use crate::rules::{SPARSE, farthest};

const ADAPTIVE: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 7, code: Code::Adaptive };
/// Size of the vocabulary.
const V: u32 = 3;
/// The most tokens that a round commits, γ + 1.
const MOST: usize = 3;

/// Index of the tokens that a round commits in its histogram: the shorter ones first.
fn index(tokens: &[u32]) -> usize {
    let shorter: usize = (1..tokens.len()).map(|length| (V as usize).pow(length as u32)).sum();
    shorter + cell(tokens, V)
}

/// The number of [indices](index).
fn cells() -> usize {
    (1..=MOST).map(|length| (V as usize).pow(length as u32)).sum()
}

/// The distribution of the tokens that the first round commits, by [`index`]. The token after γ accepted drafts has the
/// distribution that `bonus` returns for the position.
fn algorithm_4(texts: &Texts, bonus: impl Fn(&Position) -> Vec<f64>) -> Vec<f64> {
    let mut distribution = vec![0.0; cells()];
    let mut open = vec![(PROMPT.to_vec(), 1.0)];
    while let Some((text, mass)) = open.pop() {
        let position = texts.position(&text);
        let after = |id: u32| [&text[..], &[id]].concat();
        let mut ends = |id: u32, p: f64| distribution[index(&after(id)[PROMPT.len()..])] += mass * p;
        if text.len() - PROMPT.len() == texts.draft_length {
            (0..).zip(bonus(&position)).for_each(|(id, p)| ends(id, p));
            continue;
        }
        let fate = position.fate(&texts.rule);
        (0..).zip(fate.replaced).for_each(|(id, p)| ends(id, p));
        open.extend((0..).zip(fate.accepted).map(|(id, p)| (after(id), mass * p)));
    }
    distribution
}

/// Counts of the tokens that the first rounds of sessions commit, by [`index`].
fn committed(texts: &Texts) -> Vec<u32> {
    let mut pair = texts.connect();
    let mode = Mode::Speculative(texts.speculation());
    let mut settings = Settings { mode, sampling: texts.sampling, seed: 0, max_new_tokens: MOST as u32 };
    let mut counts = vec![0; cells()];
    for seed in 0..samples(cells()).into() {
        settings.seed = seed;
        let run = pair.generate(&PROMPT, &settings);
        let first: Vec<u32> = run.committed[0].tokens.iter().map(|token| token.0).collect();
        counts[index(&first)] += 1;
    }
    counts
}

/// Distribution of the bonus token: π, or p under the rules whose bonus token is the target's.
fn bonus(rule: Rule) -> impl Fn(&Position) -> Vec<f64> {
    move |position| {
        let fate = position.fate(&rule);
        match rule.info().name {
            "exact" | "bild" => position.p.clone(),
            _ => fate.accepted.iter().zip(fate.replaced).map(|(accepted, replaced)| accepted + replaced).collect(),
        }
    }
}

#[test]
fn a_round_commits_what_algorithm_4_does() {
    for (index, info) in Rule::all().iter().enumerate() {
        let sparse = match info.name {
            "lossy" => ADAPTIVE,
            // They need all of q.
            "bild" | "bild-star" => SchemeParameters::Dense,
            _ => SPARSE,
        };
        // `rules` has every rule under both.
        let (sampling, scheme) = [(NEUTRAL, SchemeParameters::Dense), (SHARPENED, sparse)][index % 2];
        let (texts, _) = farthest(info.name, sampling, scheme);
        let counts = committed(&texts);
        assert_follows(&counts, &algorithm_4(&texts, bonus(texts.rule)), (texts.rule, scheme, sampling));
    }
}

/// Counts of the tokens, by [`index`], of a round whose last draft is judged by a rule of its own.
fn committed_with(texts: &Texts, last: Rule) -> Vec<u32> {
    let drafted = texts.draft_length;
    let longer = Texts { draft_length: drafted + 1, ..texts.clone() };
    let mut counts = vec![0; cells()];
    for seed in 0..samples(cells()).into() {
        let mut ends = Ends::new(seed, &PROMPT);
        let (drafts, rows) = longer.round(&PROMPT, |row, _| Some(texts.draw(row, &mut ends.edge)));
        let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let tokens = |rule, range: Range<usize>| {
            let alone = Round::alone(texts.sampling, seed, PROMPT.len() + range.start);
            let drafts = Drafts::Distributions(drafts[range.clone()].to_vec());
            // No token of p's follows a continued round, under any rule.
            let round = Round { rule, drafts, continued: true, ..alone };
            let Judgement { accepted, next, .. } = judge(&round, &rows[range]).unwrap();
            let next = if let NextToken::Token(token) = next { Some(token) } else { None };
            (round.drafts.ids()[..accepted].to_vec(), next)
        };
        let (mut text, next) = tokens(texts.rule, 0..drafted);
        match next {
            Some(token) => text.push(token),
            None => {
                let (accepted, replaced) = tokens(last, drafted..drafted + 1);
                text.extend(accepted.into_iter().chain(replaced));
            }
        }
        counts[index(&text)] += 1;
    }
    counts
}

/// Planted errors: a bonus token that is distributed as p, and one as q̂.
#[test]
fn a_bonus_token_of_another_distribution_is_caught() {
    for name in ["lossy", "diff", "token-v1", "mentored"] {
        let (texts, _) = farthest(name, NEUTRAL, SchemeParameters::Dense);
        let distribution = algorithm_4(&texts, bonus(texts.rule));
        assert_follows(&committed_with(&texts, texts.rule), &distribution, name);
        for (of, wrong) in [("p", Rule::EXACT), ("q̂", Rule::new("chow", 1.0).unwrap())] {
            assert_caught(&committed_with(&texts, wrong), &distribution, (name, of));
        }
    }
}
