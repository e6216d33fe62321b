//! A conversation: each generation of a session goes on from the text of the one before.

use outrider_codec::frame::SamplingParameters;
use outrider_speculation::session::{
    edge::{Ahead, Mode, Settings},
    options::{DraftingOptions, SchemeName},
};
use outrider_tests::server::{Edge, Options, Server, generate};

const SAID: &str = "Once upon a time there was a little girl who lived in a house by the sea, and her dog was old.";
const NEXT: &str = " Then her father came home and said:";
const LENGTH: u32 = 24;

/// The second turn reads what is new, and its text is the one that a session without a past writes, token for token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_turn_reads_only_what_is_new() {
    let edge = Edge::load();
    let server = Server::start_as(Options::default()).await;
    let k_sqs = DraftingOptions { scheme: SchemeName::KSqs.into(), ..DraftingOptions::default() };
    let modes = [Mode::CloudOnly, Mode::Ahead(Ahead::default()), Mode::Speculative(k_sqs.speculation().unwrap())];
    let read = || {
        let text = server.engine.metrics().text();
        let line = text.lines().find(|line| line.starts_with("outrider_tokens_read_total")).unwrap();
        line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()
    };
    for mode in modes {
        for temperature in [0.0, 0.7] {
            let sampling = SamplingParameters { temperature, top_k: 0, top_p: 1.0 };
            let settings = Settings { mode: mode.clone(), sampling, seed: 7, max_new_tokens: LENGTH };
            let mut session = edge.connect(&server.url).await;
            let said = edge.prompt(&SAID.repeat(5));
            let (answer, _) = generate(&mut session, said.clone(), &settings).await;
            let next = edge.tokenizer.encode(NEXT).unwrap();
            let longer = [&said[..], &answer, &next].concat();
            let before = read();
            let (text, generated) = generate(&mut session, longer.clone(), &settings).await;
            let fed = read() - before;
            // What was drafted, and at most a last token that the first turn had no need to read.
            let most = next.len() + LENGTH as usize + generated.statistics.drafted + 2;
            assert!(fed <= most, "{fed} of {} tokens, {mode:?}, T = {temperature}", longer.len());
            let mut fresh = edge.connect(&server.url).await;
            assert_eq!(generate(&mut fresh, longer, &settings).await.0, text, "{mode:?}, T = {temperature}");
        }
    }
}
