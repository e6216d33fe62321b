//! An acceptance rule of one's own: both ends on two toy models, a judge that is not Outrider's, and the distribution
//! that it promises beside the one that comes out.
//!
//! ```sh
//! cargo run --release -p outrider-examples --bin own-rule
//! ```
//!
//! The session hands out a [`Round`] and checks the [`Judgement`] that it takes. Who makes it, and how, is the driver's
//! affair, so a rule needs no change of the sessions, the wire or the edge. What it lacks in this way: a name that
//! clients can ask for, and statistics and a page that know it as lossy. For those it goes into the table
//! (docs/adding.md).
#![expect(clippy::print_stdout, reason = "the table is what the program is for")]

use std::{error::Error, time::Duration};

use outrider_codec::{
    frame::{Limits, SamplingParameters},
    scheme::{Code, Drafts, SchemeParameters},
};
use outrider_speculation::{
    judge::{Judgement, NextToken, Round},
    sample::{Randomness, transform},
    session::{
        cloud::{Admission, CloudOutput, CloudSession, TargetInfo},
        edge::{DraftInfo, EdgeOutput, EdgeSession, Event, Mode, Settings, Speculation},
    },
};

/// The draft model's distribution, whatever the text.
const Q: [f64; 4] = [0.4, 0.3, 0.2, 0.1];
/// The target's distribution.
const P: [f64; 4] = [0.1, 0.2, 0.3, 0.4];
/// The rule's number: how much of the text may be the draft model's.
const WEIGHT: f64 = 0.25;
const GENERATIONS: u64 = 20_000;

/// The rule: at a drafted position the text is distributed as π = (1 − w)·p + w·q̂.
///
/// Draft x is accepted with probability min(1, π(x)/q̂(x)), and the first rejected one is replaced by a draw from
/// max(0, π − q̂), normalised. Any π may be here; the acceptance makes it the text's distribution.
fn judge(round: &Round, rows: &[Vec<f32>]) -> Result<Judgement, Box<dyn Error>> {
    let Drafts::Distributions(drafts) = &round.drafts else { return Err("the scheme sends no distributions".into()) };
    let mut randomness = round.randomness.clone();
    for (accepted, (draft, row)) in drafts.iter().zip(rows).enumerate() {
        let mut q = vec![0.0; row.len()];
        for (&id, &count) in draft.dist.ids().iter().zip(draft.dist.counts()) {
            q[id as usize] = f64::from(count) / f64::from(draft.dist.total());
        }
        let p = transform(row, &round.sampling)?;
        let pi: Vec<f64> = p.iter().zip(&q).map(|(p, q)| (1.0 - WEIGHT) * p + WEIGHT * q).collect();
        let x = draft.id as usize;
        if randomness.unit() >= pi[x] / q[x] {
            let residual: Vec<f64> = pi.iter().zip(&q).map(|(pi, q)| (pi - q).max(0.0)).collect();
            let next = NextToken::Token(draw(&residual, &mut randomness));
            return Ok(Judgement { accepted, next, ..Judgement::default() });
        }
    }
    // The bonus token has no q̂, so it is the target's own.
    let bonus = rows.get(drafts.len()).map(|row| transform(row, &round.sampling)).transpose()?;
    let next = bonus.map_or(NextToken::Nothing, |p| NextToken::Token(draw(&p, &mut randomness)));
    Ok(Judgement { accepted: drafts.len(), next, ..Judgement::default() })
}

/// Draws an id in proportion to its weight.
fn draw(weights: &[f64], randomness: &mut Randomness) -> u32 {
    let mut left = randomness.unit() * weights.iter().sum::<f64>();
    let drawn = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    drawn.unwrap_or(0) as u32
}

/// The first token of a generation.
fn first_token(seed: u64) -> Result<usize, Box<dyn Error>> {
    let (vocab_size, tokenizer_hash, context_length, now) = (4, [0; 32], 16, Duration::ZERO);
    let mut edge =
        EdgeSession::new(DraftInfo { vocab_size, tokenizer_hash, context_length, heads: None, guess_chance: None });
    let target = TargetInfo { vocab_size, tokenizer_hash, limits: Limits::rounds(context_length, 1), eos_ids: vec![] };
    let mut cloud = CloudSession::new(target, Admission::default());
    let settings = Settings {
        mode: Mode::Speculative(Speculation::new(
            SchemeParameters::Qs { lattice_resolution: 100, code: Code::Enumerative },
            1,
        )),
        sampling: SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 },
        seed,
        // One draft, and room for the token after it.
        max_new_tokens: 2,
    };
    let logits = |distribution: [f64; 4]| distribution.map(|probability| probability.ln() as f32).to_vec();
    loop {
        match edge.poll(now)? {
            Some(EdgeOutput::Send(frame)) => cloud.handle_frame(&frame),
            Some(EdgeOutput::Forward(forward)) => {
                for _ in 0..forward.rows {
                    edge.handle_logits(&logits(Q), &[], now)?;
                }
            }
            Some(EdgeOutput::Event(Event::Connected(_))) => edge.start(vec![0], &settings, now)?,
            Some(EdgeOutput::Event(Event::Committed(committed))) => return Ok(committed.tokens[0].0 as usize),
            Some(EdgeOutput::Event(event)) => return Err(format!("{event:?}").into()),
            None => match cloud.poll() {
                Some(CloudOutput::Send(frame)) => edge.handle_frame(&frame, now)?,
                Some(CloudOutput::Verify(pass)) => {
                    let rows = vec![logits(P); pass.forward.rows];
                    // A pass that only reads the prompt has no rows, and judges nothing.
                    let judgement = if rows.is_empty() { Judgement::default() } else { judge(&pass.round, &rows)? };
                    cloud.handle_judgement(judgement);
                }
                Some(
                    CloudOutput::Hold(_)
                    | CloudOutput::Draft(_)
                    | CloudOutput::Offer(_)
                    | CloudOutput::Shape(_)
                    | CloudOutput::Close,
                )
                | None => {
                    return Err("the cloud has nothing more to say".into());
                }
            },
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut counts = [0u32; 4];
    for seed in 0..GENERATIONS {
        counts[first_token(seed)?] += 1;
    }
    println!("token      p      q     pi  measured");
    let mut distance = 0.0;
    for (id, count) in counts.into_iter().enumerate() {
        let (pi, measured) = ((1.0 - WEIGHT) * P[id] + WEIGHT * Q[id], f64::from(count) / GENERATIONS as f64);
        println!("{id:>5} {:>6.3} {:>6.3} {pi:>6.3} {measured:>9.3}", P[id], Q[id]);
        distance += (pi - measured).abs() / 2.0;
    }
    // From p the distance would be 0.1.
    if distance > 0.015 { Err(format!("the distance from pi is {distance:.3}").into()) } else { Ok(()) }
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
