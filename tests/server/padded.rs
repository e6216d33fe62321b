//! Pairs of one tokenizer whose tables have other numbers of rows, as published families have them: both ends cut the
//! rows after the last token, and one that does not is caught. Whole texts are compared in `cloud/tests/models.rs`.

use outrider_cloud::{
    edge::{NativeEdge, Transport},
    pair::{PairError, PairPaths, draft_info, target_info},
    session::Limits,
};
use outrider_codec::scheme::{Code, SchemeParameters};
use outrider_models::{Model, Tokenizer};
use outrider_speculation::session::edge::{Mode, Settings, Speculation};
use outrider_testing::{logits::on_cpu, padded::padded};
use outrider_tests::{
    samplings::at,
    server::{MAX_DRAFT_TOKENS, Server},
};

const PROMPT: &str = "Once upon a time";
const K_SQS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 16, lattice_resolution: 100, code: Code::Adaptive };

fn draft_file(rows: usize) -> Vec<u8> {
    padded(&PairPaths::default().draft_file().unwrap(), rows)
}

fn target_file(rows: usize) -> Vec<u8> {
    padded(&PairPaths::default().target_gguf().unwrap(), rows)
}

/// A model of a file, with all its rows.
fn uncut(file: &[u8]) -> Model {
    Model::from_gguf(&mut &*file).unwrap()
}

fn cut(file: &[u8], tokenizer: &Tokenizer) -> Model {
    let mut model = uncut(file);
    model.cut_vocabulary(tokenizer.vocab_size()).unwrap();
    model
}

/// Cut models have the logits of the tokens, bit for bit. At either end the other rows are the likeliest by far, and
/// would be drawn.
#[test]
fn rows_behind_the_last_token_would_be_drawn() {
    let tokenizer = PairPaths::default().tokenizer().unwrap();
    for file in [draft_file(24), target_file(64)] {
        let (model, cut) = (uncut(&file), cut(&file, &tokenizer));
        let tokens = tokenizer.encode_prompt(model.config().first_token(), PROMPT).unwrap();
        let rows = |model: &Model| on_cpu(model, &tokens, tokens.len());
        for (all, kept) in rows(&model).iter().zip(rows(&cut)) {
            let (tokens, rest) = all.split_at(tokenizer.vocab_size());
            assert_eq!(tokens, kept, "what is kept has its bits");
            let most = |logits: &[f32]| logits.iter().fold(f32::NEG_INFINITY, |most, &x| most.max(x));
            assert!(most(rest) > most(tokens) + 5.0, "{} beside {}", most(rest), most(tokens));
        }
    }
}

/// Planted error: one end keeps its rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_keeps_its_rows_is_caught() {
    let tokenizer = PairPaths::default().tokenizer().unwrap();
    let whole = uncut(&target_file(64));
    let refused = target_info(&whole, &tokenizer, MAX_DRAFT_TOKENS);
    assert!(matches!(refused, Err(PairError::Vocabulary { what: "target model", .. })));
    let refused = draft_info(&uncut(&draft_file(24)), &tokenizer);
    assert!(matches!(refused, Err(PairError::Vocabulary { what: "draft model", .. })));
    // A server that declares the tokens' number and judges by all rows.
    let cut = cut(&draft_file(24), &tokenizer);
    let info = target_info(&PairPaths::default().target().unwrap(), &tokenizer, MAX_DRAFT_TOKENS).unwrap();
    let server = Server::start_with(whole, info, 8, Limits::default()).await;
    let prompt = tokenizer.encode_prompt(cut.config().first_token(), PROMPT).unwrap();
    for temperature in [0.0, 1.0] {
        let transport = Transport::connect(&server.url).await.unwrap();
        let mut edge = NativeEdge::greet(&cut, draft_info(&cut, &tokenizer).unwrap(), transport).await.unwrap();
        let mode = Mode::Speculative(Speculation::new(K_SQS, 4));
        let settings = Settings { mode, sampling: at(temperature), seed: 7, max_new_tokens: 24 };
        let failed = edge.generate(prompt.clone(), &settings, |_| {}).await;
        assert!(failed.is_err(), "a token that nobody has is no text");
    }
    // A tokenizer with more tokens than a table has rows is another model's.
    let mut small = uncut(&draft_file(24));
    assert!(small.cut_vocabulary(5000).is_err());
}
