//! Both state machines over a link that loses nothing: generations end for a true reason, with the text that they
//! promise.

use core::time::Duration;

use arbitrary::{Result, Unstructured};
use outrider_codec::frame::Finish;
use outrider_speculation::{
    draft::Gate,
    judge::Rule,
    session::edge::{EndReason, Origin},
};

use crate::{
    pair::{Pair, Run, drafting},
    rules,
};

/// Runs a few generations, some cancelled, in one connection, in any order of events that the contracts of both ends
/// allow. Each has to end, for a reason that is true; at temperature 0 its tokens have to be those of the model that
/// they are said to come from, and the text the target's own under rules that promise it.
pub fn check(bytes: &[u8]) {
    // Unstructured never runs out: where bytes end it goes on with zeros.
    let _ = play(&mut Unstructured::new(bytes));
}

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let mut pair = Pair::new(input)?;
    pair.settle();
    assert!(pair.edge.is_idle(), "the handshake failed");
    for _ in 0..3 {
        if !pair.start(input)? {
            continue;
        }
        for _ in 0..input.int_in_range(0..=24u8)? {
            match input.int_in_range(0..=15u8)? {
                15 => pair.edge.cancel(),
                14 => pair.now += Duration::from_millis(input.arbitrary::<u16>()?.into()),
                other => drop(pair.step(other.into())),
            }
        }
        pair.settle();
        assert!(pair.edge.is_idle() && !pair.cloud.is_generating(), "the generation came to a halt without an end");
        judge(&pair);
        if input.is_empty() {
            break;
        }
    }
    Ok(())
}

fn judge(pair: &Pair) {
    let run = pair.run.as_ref().expect("a generation was begun");
    let (length, context) = (run.tokens.len(), pair.info.limits.context_length as usize);
    match run.end.expect("an idle edge has told of the end") {
        EndReason::Finish(Finish::Eos) => {
            assert!(run.tokens.last().is_some_and(|token| pair.info.eos_ids.contains(&token.0)));
        }
        EndReason::Finish(Finish::Length) => assert_eq!(length, run.settings.max_new_tokens as usize),
        EndReason::Finish(Finish::Context) => assert_eq!(run.text().len(), context),
        EndReason::Cancelled => {}
    }
    assert!(run.text().len() <= context);
    let within = &run.tokens[..length.saturating_sub(1)];
    assert!(!within.iter().any(|token| pair.info.eos_ids.contains(&token.0)), "the text goes on after its end");
    let (text, other) = (run.text(), &run.cloud_text);
    let both = text.len().min(other.len());
    assert_eq!(text[..both], other[..both], "the two ends have different texts");
    judge_explanation(pair, run);
    if run.settings.sampling.temperature == 0.0 {
        judge_greedy(pair, run);
    }
}

fn judge_explanation(pair: &Pair, run: &Run) {
    let statistics = pair.edge.statistics();
    let Some(explanation) = &statistics.explanation else { return };
    assert_eq!(explanation.judged, statistics.judged, "some drafts came without evidence");
    let judged = explanation.judged as f64;
    if drafting(&run.settings).expect("there are drafts").rule == Rule::EXACT {
        assert!(explanation.divergence <= 1e-5 * judged, "{explanation:?}");
    }
    if run.settings.sampling.temperature == 0.0 && rules::is_the_targets_when_greedy(run.rule()) {
        // Nothing is left to chance.
        let rejected = (statistics.judged - statistics.accepted) as f64;
        assert!((explanation.rejections - rejected).abs() < 1e-4, "{explanation:?}, {rejected} rejected");
    }
}

/// Checks a run at temperature 0, where a model has one token to give.
fn judge_greedy(pair: &Pair, run: &Run) {
    let is_targets = rules::is_the_targets_when_greedy(run.rule());
    let exact = is_targets && drafting(&run.settings).is_none_or(|drafting| drafting.gate == Gate::Never);
    let mut text = run.prompt.clone();
    for &(token, origin) in &run.tokens {
        let target = pair.models[1].greedy(&text);
        let is_free = !exact && matches!(origin, Origin::Accepted | Origin::Passed);
        assert!(is_free || token == target, "the target's token after {text:?} is {target}, not {token}");
        text.push(token);
    }
    if is_targets && pair.models[0].difference == 0 {
        let statistics = pair.edge.statistics();
        assert_eq!(statistics.accepted, statistics.judged, "a draft was not the model's own");
    }
}
