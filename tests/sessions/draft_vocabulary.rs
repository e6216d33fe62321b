//! Drafts whose output head has rows for some tokens only (`d2t`): greedy and coupled text is the server's own.

use core::time::Duration;

use outrider_codec::scheme::SchemeParameters;
use outrider_speculation::session::edge::{Ahead, Mode, Origin, Settings, Speculation};
use outrider_tests::{
    in_process::{InProcess, Times},
    samplings::at,
    schemes,
    toy::ToyModel,
};
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);
/// Size of the vocabulary.
const V: u32 = 23;
/// Number of tokens of a text.
const LENGTH: u32 = 40;
const PROMPT: [u32; 2] = [1, 2];

fn settings(mode: Mode, temperature: f32, seed: u64) -> Settings {
    Settings { mode, sampling: at(temperature), seed, max_new_tokens: LENGTH }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Heads of every number of rows, under every scheme at temperature 0 and coupled at any temperature.
    #[test]
    fn greedy_and_coupled_text_is_the_servers_own(
        seed in any::<u64>(), difference in 0.0f64..2.0, temperature in 0.2f32..1.5,
        tokens in prop::collection::btree_set(0..V, 1..V as usize), scheme in 0..schemes::count(), k in 1u32..8,
        resolution in 1u32..200, draft_length in 1u32..6, max_in_flight in 1u8..=4,
    ) {
        let tokens: Vec<u32> = tokens.into_iter().collect();
        let target = ToyModel::target(V, seed);
        let draft = target.draft(difference).trimmed(&tokens, &tokens);
        let mut pair = InProcess::connect(draft, target.clone(), 64, &[]);
        let rounds =
            |scheme| Mode::Speculative(Speculation { max_in_flight, ..Speculation::new(scheme, draft_length) });
        let greedy = target.greedy(&PROMPT, LENGTH as usize, &[]);
        let mode = rounds(schemes::every(k, resolution)[scheme]);
        prop_assert_eq!(pair.generate(&PROMPT, &settings(mode, 0.0, seed)).tokens, greedy);
        let alone = pair.generate(&PROMPT, &settings(Mode::CloudOnly, temperature, seed)).tokens;
        let coupled = settings(rounds(SchemeParameters::Coupled), temperature, seed);
        prop_assert_eq!(pair.generate(&PROMPT, &coupled).tokens, alone);
    }
}

/// A planted off-by-one in d2t: coupled text stays the server's own, in rounds and ahead of it, and fewer drafts are
/// accepted.
#[test]
fn an_off_by_one_in_d2t_costs_accepted_drafts_and_no_token() {
    let tokens: Vec<u32> = (0..V).filter(|id| id % 2 == 1).collect();
    let off_by_one: Vec<u32> = tokens.iter().map(|id| id - 1).collect();
    let target = ToyModel::target(V, 5);
    let times = Times { draft: MS, pass: MS * 10, row: MS / 2, delay: MS * 2, own_draft: None };
    let rounds = Mode::Speculative(Speculation::new(SchemeParameters::Coupled, 4));
    for mode in [rounds, Mode::Ahead(Ahead::default())] {
        let [right, wrong] = [&tokens, &off_by_one].map(|d2t| {
            let draft = target.draft(0.3).trimmed(&tokens, d2t);
            let mut accepted = 0;
            for (seed, temperature) in (0..30).zip([0.0, 0.3, 0.7].into_iter().cycle()) {
                let mut pair = InProcess::timed(draft.clone(), target.clone(), times);
                let alone = pair.generate(&PROMPT, &settings(Mode::CloudOnly, temperature, seed)).tokens;
                let run = pair.generate(&PROMPT, &settings(mode.clone(), temperature, seed));
                assert_eq!(run.tokens, alone, "{mode:?} at {temperature}");
                let tokens = run.committed.iter().flat_map(|committed| &committed.tokens);
                accepted += tokens.filter(|token| token.1 == Origin::Accepted).count();
            }
            accepted
        });
        println!("accepted {right}, with an off-by-one {wrong}: {mode:?}");
        assert!(right > 2 * wrong && right > 100, "{right} and {wrong}: {mode:?}");
    }
}
