//! The exactness contract end to end: real models, the real server, a real socket; one configuration of every scheme.
//!
//! With top-k 3 a text of three tokens of the small models has 27 possible values, whose distribution is read off the
//! target in 13 passes. As a socket takes its time, errors are seen of four times the size that other tests see.

use outrider_cloud::{
    edge::{NativeEdge, Transport},
    session::Limits,
};
use outrider_codec::frame::SamplingParameters;
use outrider_models::Model;
use outrider_speculation::{
    sample,
    session::edge::{Mode, Settings, Speculation},
};
use outrider_testing::logits::on_cpu;
use outrider_tests::{
    blocks::{self, draft_info},
    goodness::{self, assert_follows, samples_for},
    schemes,
    server::generate,
};

const SAMPLING: SamplingParameters = SamplingParameters { temperature: 1.0, top_k: 3, top_p: 1.0 };
const PROMPT: [u32; 2] = [3, 14];
const LENGTH: u32 = 3;
/// Every text with its probability.
fn distribution(target: &Model) -> Vec<(Vec<u32>, f64)> {
    let mut distribution = vec![(PROMPT.to_vec(), 1.0)];
    for _ in 0..LENGTH {
        let grown = distribution.into_iter().flat_map(|(prefix, mass)| {
            let next = sample::transform(&on_cpu(target, &prefix, 1)[0], &SAMPLING).unwrap();
            let likely = (0u32..).zip(next).filter(|&(_, p)| p > 0.0);
            likely.map(|(id, p)| ([&prefix[..], &[id]].concat(), mass * p)).collect::<Vec<_>>()
        });
        distribution = grown.collect();
    }
    distribution.into_iter().map(|(text, mass)| (text[PROMPT.len()..].to_vec(), mass)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_scheme_is_exact_through_a_real_socket() {
    let (target, draft) = (blocks::target(), blocks::draft());
    let distribution = distribution(&target);
    assert_eq!(distribution.len(), 27);
    let texts = samples_for(distribution.len(), 4.0 * goodness::error());
    // An edge that has said goodbye may still be leaving when the next one comes.
    let server = blocks::server(2, Limits::default()).await;
    for scheme in schemes::every(2, 12) {
        let transport = Transport::connect(&server.url).await.unwrap();
        let mut edge = NativeEdge::greet(&draft, draft_info(&draft), transport).await.unwrap();
        let mode = Mode::Speculative(Speculation::new(scheme, 2));
        let mut counts = vec![0; distribution.len()];
        let (mut judged, mut accepted) = (0, 0);
        for seed in 0..texts.into() {
            let settings = Settings { mode: mode.clone(), sampling: SAMPLING, seed, max_new_tokens: LENGTH };
            let (text, generated) = generate(&mut edge, PROMPT.to_vec(), &settings).await;
            counts[distribution.iter().position(|row| row.0 == text).expect("the target can write this")] += 1;
            judged += generated.statistics.judged;
            accepted += generated.statistics.accepted;
        }
        edge.close().await;
        let expected: Vec<f64> = distribution.iter().map(|row| row.1).collect();
        assert_follows(&counts, &expected, scheme);
        println!("{:<8} accepted {:.3}", scheme.name(), accepted as f64 / judged as f64);
        assert!(accepted < judged, "some drafts are rejected, or nothing is tested");
    }
}
