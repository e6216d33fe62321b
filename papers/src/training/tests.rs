use std::collections::BTreeSet;

use super::*;
use crate::built_in;

fn pair() -> (Model, Model, Tokenizer) {
    (built_in::draft(), built_in::target(), built_in::tokenizer())
}

fn small(seed: u64) -> Settings {
    Settings { texts: 32, length: 40, seed, ..Settings::default() }
}

#[test]
fn a_seed_decides_every_byte_of_the_file() {
    let (draft, target, tokenizer) = pair();
    let run = |seed| {
        let trained = train(&draft, &target, &tokenizer, None, &small(seed), &mut |_| {}).unwrap();
        (trained.heads.to_bytes(), trained.report)
    };
    let (bytes, report) = run(1);
    assert_eq!(run(1), (bytes.clone(), report.clone()));
    assert_ne!(run(2).0, bytes);
    let read = HeadsFile::from_bytes(&bytes).unwrap();
    read.check_draft(draft.config(), &tokenizer).unwrap();
    assert!(read.check_draft(target.config(), &tokenizer).is_err(), "the hidden states are the draft's");
    assert_eq!(read.metadata.notes["seed"], "1");
    assert!((read.metadata.eta_fp - report.at_threshold.false_positive).abs() < 1e-4);
}

#[test]
fn parts_share_no_prompt_and_have_all_kinds_equally() {
    let (draft, target, tokenizer) = pair();
    let settings = Settings { texts: 80, ..small(3) };
    let pair = Pair { draft: &draft, target: &target, sampling: settings.sampling };
    let mut randomness = Randomness::new(3, End::Cloud);
    let parts = collect(&pair, &tokenizer, &[], true, &settings, &mut randomness, &mut |_| {}).unwrap();
    let parts = [&parts.training, &parts.validation, &parts.test];
    assert_eq!(parts.map(Vec::len), [56, 12, 12]);
    let beginnings = |texts: &[Text]| -> BTreeSet<Vec<u32>> {
        texts.iter().map(|text| text.tokens[..text.tokens.len() - text.examples.len()].to_vec()).collect()
    };
    let sets = parts.map(|part| beginnings(part));
    assert_eq!(sets.each_ref().map(BTreeSet::len), [14, 3, 3]);
    assert!(sets[0].is_disjoint(&sets[1]) && sets[0].is_disjoint(&sets[2]) && sets[1].is_disjoint(&sets[2]));
    for part in parts {
        for kind in Kind::ALL {
            assert_eq!(4 * part.iter().filter(|text| text.kind == kind).count(), part.len());
        }
    }
}

#[test]
fn the_report_adds_up() {
    let (draft, target, tokenizer) = pair();
    let report = train(&draft, &target, &tokenizer, None, &small(1), &mut |_| {}).unwrap().report;
    let (first, last) = (report.curve[0], report.curve[20]);
    assert_eq!((first.true_positive, first.false_positive), (1.0, 1.0));
    assert_eq!((last.true_positive, last.false_positive), (0.0, 0.0));
    assert_eq!(report.curve[10], report.at_threshold);
    assert_eq!(report.kinds.iter().map(|kind| kind.positions).sum::<usize>(), report.test_positions);
    let Measured { passed, acceptance, distance } = report.measured;
    let rates = report.at_threshold;
    let expected = report.base_rate * rates.true_positive + (1.0 - report.base_rate) * rates.false_positive;
    assert!((passed - expected).abs() < 1e-9);
    assert!((acceptance - distance - report.acceptance_verified).abs() < 1e-9);
    assert!((report.acceptance_theory - report.distance_theory - report.acceptance_verified).abs() < 1e-9);
    assert!(report.acceptance_verified <= acceptance && acceptance <= 1.0);
}

#[test]
fn mistakes_are_named() {
    let (draft, target, tokenizer) = pair();
    let error = |draft: &Model, prompts: Option<&[String]>, settings: &Settings| {
        train(draft, &target, &tokenizer, prompts, settings, &mut |_| {}).unwrap_err()
    };
    for length in [0, BEGINNING, 513] {
        let found = error(&draft, None, &Settings { length, ..small(1) });
        assert!(matches!(found, TrainingError::Length { least: 17, most: 512, .. }), "{found}");
    }
    let one = ["Once upon a time there was a king.".to_owned(), String::new()];
    assert!(matches!(error(&draft, Some(&one), &small(1)), TrainingError::TooFew { found: 1, .. }));
    assert!(matches!(error(&draft, None, &Settings { texts: 0, ..small(1) }), TrainingError::TooFew { found: 0, .. }));
    let found = error(&draft, None, &Settings { lambda: 0.0, ..small(1) });
    assert!(matches!(found, TrainingError::OneClass { what: "no", .. }), "{found}");
    // A model that drafts for itself is always right.
    let found = error(&target, None, &small(1));
    assert!(matches!(found, TrainingError::OneClass { what: "all", .. }), "{found}");
}

/// The pair's gate reaches the figures of `pair/README.md` on texts that it was not trained on.
#[test]
fn the_pairs_gate_does_as_its_metadata_say() {
    let (draft, target, tokenizer) = pair();
    let file = HeadsFile::from_bytes(include_bytes!("../../../pair/draft/gate.safetensors")).unwrap();
    file.check_draft(draft.config(), &tokenizer).unwrap();
    for head in [&file.gate, &file.stop] {
        assert_eq!(head.as_ref().unwrap().token.len(), 3, "the heads see the token");
    }
    let said = &file.metadata;
    let settings = Settings { texts: 64, length: 96, seed: 20_000, ..Settings::default() };
    assert_eq!((said.lambda, said.tau), (settings.lambda, settings.threshold));
    let sampling = outrider_codec::frame::SamplingParameters {
        temperature: said.temperature,
        top_k: said.top_k,
        top_p: said.top_p,
    };
    assert_eq!(sampling, settings.sampling);
    assert_ne!(said.notes["seed"], settings.seed.to_string());
    let (area, rates) = evaluate(&draft, &target, &tokenizer, &file.gate.unwrap(), &settings).unwrap();
    assert!((area - said.auc).abs() < 0.03, "{area} and {}", said.auc);
    // Rates at one threshold vary more from text to text than the area does.
    assert!((rates.true_positive - said.eta_tp).abs() < 0.06, "{rates:?}");
    assert!((rates.false_positive - said.eta_fp).abs() < 0.06, "{rates:?}");
}
