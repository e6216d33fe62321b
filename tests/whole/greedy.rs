//! At temperature 0 the text is the target's own, token for token, whatever is drafted: through a real socket, on the
//! real pair, several sessions at once.

use futures_util::future::join_all;
use outrider_cloud::{pair::PairPaths, session::Limits};
use outrider_codec::{
    frame::SamplingParameters,
    scheme::{Code, SchemeParameters},
};
use outrider_models::Model;
use outrider_speculation::session::edge::{Mode, Settings, Speculation};
use outrider_testing::logits::{argmax, logits_at_all};
use outrider_tests::{
    schemes,
    server::{Edge, Server, generate},
};

const TOKENS: u32 = 128;
const GREEDY: SamplingParameters = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };

const PROMPTS: [&str; 4] =
    ["Once upon a time", "“Come with me,” said the fox,", "The giant lifted his great club", "Deep under the mountain"];

/// The text of the target alone, one token a pass.
fn alone(target: &Model, prompt: &[u32]) -> Vec<u32> {
    let mut cache = target.new_cache();
    let mut pending = prompt.to_vec();
    let mut text = Vec::new();
    while text.len() < TOKENS as usize {
        let rows = logits_at_all(target, &mut cache, &pending);
        let best = argmax(&rows[rows.len() - 1]) as u32;
        text.push(best);
        if target.config().eos_token_ids.contains(&best) {
            break;
        }
        pending = vec![best];
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_text_is_the_targets_own() {
    let target = PairPaths::default().target().unwrap();
    let edge = Edge::load();
    let k_sqs = |support_size, lattice_resolution, draft_length, bit_budget| {
        let scheme = SchemeParameters::KSqs { support_size, lattice_resolution, code: Code::Enumerative };
        Mode::Speculative(Speculation { bit_budget, ..Speculation::new(scheme, draft_length) })
    };
    let modes = [
        k_sqs(8, 100, 4, Some(5000)),
        k_sqs(1, 1, 1, None),
        k_sqs(32, 100, 8, None),
        k_sqs(64, 1000, 16, None),
        k_sqs(16, 20, 6, Some(500)),
        Mode::CloudOnly,
    ];
    let others = schemes::every(16, 100).into_iter().map(|scheme| Mode::Speculative(Speculation::new(scheme, 5)));
    let others: Vec<_> = others.collect();
    let server = Server::start(modes.len() + schemes::count(), Limits::default()).await;
    let expected: Vec<Vec<u32>> = PROMPTS.iter().map(|prompt| alone(&target, &edge.prompt(prompt))).collect();
    assert!(expected.iter().any(|text| text.len() == TOKENS as usize));
    // All modes at once: their passes share runs of the target.
    join_all(modes.iter().chain(&others).map(async |mode| {
        let mut session = edge.connect(&server.url).await;
        let settings = Settings { mode: mode.clone(), sampling: GREEDY, seed: 1, max_new_tokens: TOKENS };
        for (prompt, expected) in PROMPTS.iter().zip(&expected) {
            let (ids, _) = generate(&mut session, edge.prompt(prompt), &settings).await;
            assert_eq!(&ids, expected, "{prompt} with {mode:?}");
        }
        session.close().await;
    }))
    .await;
    let load = server.engine.load();
    assert!(load.runs < load.passes, "passes shared runs: {load:?}");
}
