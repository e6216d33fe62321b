//! Pairs of one tokenizer whose tables have other numbers of rows, as published families have them: what is compared is
//! the tokens. Texts are those of the pair without such rows, token for token.

use outrider_cloud::{
    edge::{NativeEdge, Transport},
    pair::{PairError, PairPaths, draft_info, target_info},
    session::Limits,
};
use outrider_codec::{
    frame::SamplingParameters,
    scheme::{Code, SchemeParameters},
};
use outrider_models::{Chunk, Model, Tokenizer};
use outrider_speculation::{
    judge::rules::Rule,
    session::edge::{Ahead, Mode, Settings, Speculation},
};
use outrider_tests::{
    padded::padded,
    samplings::at,
    schemes,
    server::{MAX_DRAFT_TOKENS, Server, generate},
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

/// Ways to write, each at three temperatures.
fn cases() -> Vec<(Mode, SamplingParameters)> {
    let rounds = |scheme| Mode::Speculative(Speculation::new(scheme, 4));
    let mut modes: Vec<Mode> = schemes::every(16, 100).into_iter().map(rounds).collect();
    let rules = [("lossy", 0.3), ("opt", 0.1), ("token-v1", 0.2), ("diff", 0.1)];
    let rule = |(name, parameter)| Speculation::new(K_SQS, 4).with_rule(Rule::new(name, parameter).unwrap());
    modes.extend(rules.map(rule).map(Mode::Speculative));
    modes.extend([Mode::Ahead(Ahead::default()), Mode::CloudOnly]);
    modes.into_iter().flat_map(|mode| [0.0, 0.7, 1.0].map(|t| (mode.clone(), at(t)))).collect()
}

/// The texts of a draft at a server, one for each case.
async fn texts(draft: &Model, tokenizer: &Tokenizer, server: &Server) -> Vec<Vec<u32>> {
    let prompt = tokenizer.encode_prompt(draft.config().first_token(), PROMPT).unwrap();
    let mut texts = Vec::new();
    for (mode, sampling) in cases() {
        let transport = Transport::connect(&server.url).await.unwrap();
        let mut edge = NativeEdge::greet(draft, draft_info(draft, tokenizer).unwrap(), transport).await.unwrap();
        let settings = Settings { mode, sampling, seed: 7, max_new_tokens: 24 };
        texts.push(generate(&mut edge, prompt.clone(), &settings).await.0);
        edge.close().await;
    }
    texts
}

/// A server of a target's file.
async fn serve(file: &[u8], tokenizer: &Tokenizer) -> Server {
    let model = cut(file, tokenizer);
    let info = target_info(&model, tokenizer, MAX_DRAFT_TOKENS).unwrap();
    Server::start_with(model, info, 8, Limits::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn padded_pairs_write_the_text_of_the_pair_without() {
    let pair = PairPaths::default();
    let tokenizer = pair.tokenizer().unwrap();
    let draft = pair.draft_with(&tokenizer).unwrap();
    let expected = texts(&draft, &tokenizer, &Server::start(8, Limits::default()).await).await;
    assert!(expected.iter().all(|text| text.len() == 24));
    for (more_at_the_edge, more_at_the_server) in [(24, 131), (200, 0)] {
        let draft = cut(&draft_file(more_at_the_edge), &tokenizer);
        let server = serve(&target_file(more_at_the_server), &tokenizer).await;
        for (text, ((expected, case), index)) in
            texts(&draft, &tokenizer, &server).await.iter().zip(expected.iter().zip(cases()).zip(0..))
        {
            assert_eq!(text, expected, "{more_at_the_edge} and {more_at_the_server} rows, case {index}: {case:?}");
        }
    }
}

/// What the test above would miss if these rows were small: at either end they are the likeliest by far.
#[test]
fn rows_behind_the_last_token_would_be_drawn() {
    let tokenizer = PairPaths::default().tokenizer().unwrap();
    for file in [draft_file(24), target_file(64)] {
        let (model, cut) = (uncut(&file), cut(&file, &tokenizer));
        let tokens = tokenizer.encode_prompt(model.config().first_token(), PROMPT).unwrap();
        let rows = |model: &Model| -> Vec<Vec<f32>> {
            let positions: Vec<usize> = (0..tokens.len()).collect();
            let mut cache = model.new_cache();
            let chunk = Chunk { cache: &mut cache, tokens: &tokens, positions: &positions };
            model.forward(&mut [chunk]).unwrap()[0].iter().map(<[f32]>::to_vec).collect()
        };
        for (all, kept) in rows(&model).iter().zip(rows(&cut)) {
            let (tokens, rest) = all.split_at(tokenizer.vocab_size());
            assert_eq!(tokens, kept, "what is kept has its bits");
            let most = |logits: &[f32]| logits.iter().fold(f32::NEG_INFINITY, |most, &x| most.max(x));
            assert!(most(rest) > most(tokens) + 5.0, "{} beside {}", most(rest), most(tokens));
        }
    }
}

/// The planted error: one end keeps its rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_keeps_its_rows_is_caught() {
    let tokenizer = PairPaths::default().tokenizer().unwrap();
    let whole = uncut(&target_file(64));
    let refused = target_info(&whole, &tokenizer, MAX_DRAFT_TOKENS);
    assert!(matches!(refused, Err(PairError::Vocabulary { what: "target model", .. })));
    let refused = draft_info(&uncut(&draft_file(24)), &tokenizer);
    assert!(matches!(refused, Err(PairError::Vocabulary { what: "draft model", .. })));
    // A server that tells the tokens' number and judges by all rows.
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
