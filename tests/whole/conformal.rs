//! Theorem 2 of C-SQS on the real pair, over one session of many generations (Bhattacharjee et al., eq. 9).

use outrider_cloud::session::Limits;
use outrider_codec::{
    frame::SamplingParameters,
    scheme::{Code, SchemeParameters},
};
use outrider_speculation::{
    draft::conformal::ThresholdParameters,
    session::edge::{Mode, Settings, Speculation},
};
use outrider_tests::server::{Edge, Server, generate};

const USUAL: SamplingParameters = SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.95 };
const GENERATIONS: u64 = 16;
/// What the default settings are, with which the bound says something from 1011 tokens on; and larger steps, with which
/// it is a few per cent by the end.
const CASES: [ThresholdParameters; 2] = [
    ThresholdParameters { target: 0.0005, step: 0.001, initial: 0.01 },
    ThresholdParameters { target: 0.01, step: 0.05, initial: 0.2 },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn theorem_2_holds_on_the_real_pair() {
    let edge = Edge::load();
    let server = Server::start(CASES.len(), Limits::default()).await;
    for threshold in CASES {
        let ThresholdParameters { target, step, initial } = threshold;
        let scheme = SchemeParameters::CSqs { lattice_resolution: 100, code: Code::Enumerative };
        let mode = Mode::Speculative(Speculation { threshold, ..Speculation::new(scheme, 4) });
        let mut session = edge.connect(&server.url).await;
        let (mut tokens, mut told) = (0, None);
        for seed in 1..=GENERATIONS {
            let settings = Settings { mode: mode.clone(), sampling: USUAL, seed, max_new_tokens: 128 };
            let prompt = edge.prompt("The old woman looked at the boy and");
            let (ids, generated) = generate(&mut session, prompt, &settings).await;
            tokens += ids.len();
            let (mean, bound) = (generated.statistics.mean_dropped_mass, generated.statistics.dropped_mass_bound);
            // Of a generation the last two tokens may not have been read.
            let at = |counted: f64| target + (initial + 1.0 + step * target) / (step * counted);
            let (least, most) = (at(tokens as f64), at(tokens as f64 - 2.0 * seed as f64));
            match bound {
                Some(bound) => assert!((least..=most).contains(&bound) && mean.unwrap() <= bound && bound < 1.0),
                None => assert!(most >= 1.0, "{tokens} tokens, and the bound is at most {most}"),
            }
            told = bound.zip(mean);
        }
        session.close().await;
        let (bound, mean) = told.expect("the session is long enough");
        println!("{threshold:?}: {mean:.5} of at most {bound:.5} over {tokens} tokens");
    }
}
