//! The controller against a virtual clock: rounds and streams over a link of given rate and delay.

use core::time::Duration;

use proptest::prelude::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::*;
use crate::{
    link::Link,
    random::{End, Randomness},
    theory::tk_slt,
};

fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

/// What is true of a session; times in milliseconds.
#[derive(Debug, Clone, Copy)]
struct World {
    acceptance_rate: f64,
    draft: f64,
    token_bits: f64,
    /// Bits per millisecond.
    rate: f64,
    delay: f64,
    pass: f64,
    alone: f64,
}

const HEADER_BYTES: usize = 20;

impl World {
    /// F.
    fn fixed(&self) -> f64 {
        HEADER_BYTES as f64 * 8.0 / self.rate + 2.0 * self.delay + self.pass
    }

    /// t_d + t_n.
    fn per_draft(&self) -> f64 {
        self.draft + self.token_bits / self.rate
    }

    fn cost_ratio(&self) -> f64 {
        self.per_draft() / self.fixed()
    }

    fn optimal_length(&self, longest: u32) -> u32 {
        tk_slt::optimal_draft_length(self.acceptance_rate, self.cost_ratio(), longest)
    }

    /// Tokens per millisecond at the best length.
    fn speculative_speed(&self, longest: u32) -> f64 {
        let length = self.optimal_length(longest);
        tokens_per_round(self.acceptance_rate, length) / (self.fixed() + f64::from(length) * self.per_draft())
    }
}

/// Which drafts stand.
enum Coin {
    Seeded(Randomness),
    /// As evenly as can be: the sum of what should have stood and has not.
    Even(f64),
}

impl Coin {
    fn stands(&mut self, rate: f64) -> bool {
        match self {
            Self::Seeded(randomness) => randomness.unit() < rate,
            Self::Even(owed) => {
                *owed += rate;
                let stands = *owed >= 1.0;
                *owed -= f64::from(stands);
                stands
            }
        }
    }
}

struct Session {
    controller: Controller,
    world: World,
    coin: Coin,
    /// Times vary by a factor between 1 ± this.
    jitter: f64,
    noise: Randomness,
    uplink: Link,
    now: Duration,
    tokens: usize,
}

const LONGEST: u32 = 16;

impl Session {
    fn new(stop: StopRule, adaptive_mode: bool, world: World, coin: Coin) -> Self {
        let parameters = ControlParameters { stop, draft_length: 4, longest: LONGEST, adaptive_mode };
        let noise = Randomness::new(11, End::Cloud);
        let controller = Controller::new(parameters);
        Self { controller, world, coin, jitter: 0.0, noise, uplink: Link::unlimited(), now: ms(0.0), tokens: 0 }
    }

    fn varied(&mut self, time: f64) -> Duration {
        ms(time * (1.0 + self.jitter * (2.0 * self.noise.unit() - 1.0)))
    }

    /// One round; gives its number of drafts.
    fn round(&mut self) -> usize {
        let mut drafted = 0;
        while self.controller.wants(drafted) {
            drafted += 1;
        }
        let mut accepted = 0;
        while accepted < drafted && self.coin.stands(self.world.acceptance_rate) {
            accepted += 1;
        }
        let drafting = self.varied(self.world.draft * drafted as f64);
        let sent = self.now + drafting;
        let bytes = HEADER_BYTES + (self.world.token_bits / 8.0) as usize * drafted;
        self.uplink.configure(Some(self.world.rate * 1e3), ms(self.world.delay));
        let arrived = self.uplink.arrival(sent, bytes) - sent;
        let rest = self.world.pass + self.world.delay;
        let round_trip = self.varied(arrived.as_secs_f64() * 1e3 + rest);
        self.now = sent + round_trip;
        self.tokens += accepted + 1;
        let judged = (accepted + 1).min(drafted);
        self.controller.round_done(&RoundTimes { drafted, judged, accepted, drafting, round_trip });
        drafted
    }

    /// A move; gives the number of tokens that were streamed.
    fn step(&mut self) -> u32 {
        let Move::Stream { tokens } = self.controller.next_move() else {
            self.round();
            return 0;
        };
        for token in 0..tokens {
            let gap = self.varied(self.world.alone + if token == 0 { 2.0 * self.world.delay } else { 0.0 });
            self.now += gap;
            self.tokens += 1;
            self.controller.token_streamed((token > 0).then_some(gap));
        }
        tokens
    }

    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.round();
        }
    }

    fn chosen(&self) -> u32 {
        self.controller.estimates().draft_length.unwrap()
    }
}

/// Fibre, DSL, a slow uplink; fast and slow drafting.
const WORLDS: [World; 5] = [
    World { acceptance_rate: 0.8, draft: 5.0, token_bits: 800.0, rate: 1000.0, delay: 20.0, pass: 40.0, alone: 40.0 },
    World { acceptance_rate: 0.6, draft: 8.0, token_bits: 2000.0, rate: 1000.0, delay: 30.0, pass: 60.0, alone: 60.0 },
    World { acceptance_rate: 0.9, draft: 15.0, token_bits: 400.0, rate: 50.0, delay: 100.0, pass: 100.0, alone: 100.0 },
    World { acceptance_rate: 0.75, draft: 2.0, token_bits: 8000.0, rate: 2000.0, delay: 5.0, pass: 30.0, alone: 30.0 },
    World { acceptance_rate: 0.5, draft: 1.0, token_bits: 200.0, rate: 200.0, delay: 40.0, pass: 20.0, alone: 20.0 },
];

/// The factor on the rate, then what follows it, to slower links and back.
fn steps(world: World) -> impl Iterator<Item = World> {
    [1.0, 0.1, 1.0, 10.0, 1.0].into_iter().map(move |factor| World { rate: world.rate * factor, ..world })
}

/// The lengths that ODLD gives for the truth, with α as much smaller and larger as an estimate of it may be.
fn near(world: World, off: f64) -> core::ops::RangeInclusive<u32> {
    let at = |acceptance_rate: f64| World { acceptance_rate, ..world }.optimal_length(LONGEST);
    at(world.acceptance_rate - off)..=at(world.acceptance_rate + off)
}

/// Settled: from 20 rounds after the step on, γ* is what ODLD gives for the truth, and nothing else for 40 rounds.
///
/// Acceptance comes as evenly as it can, so α is known to 0.015. Where γ* differs between α ± 0.015 the truth is at a
/// border between two lengths, and both are right; few of the worlds are.
#[test]
fn odld_settles_exactly_after_the_rate_leaps_tenfold() {
    let (mut exact, mut lengths) = (0, std::collections::BTreeSet::new());
    for start in WORLDS {
        let mut session = Session::new(StopRule::Odld, false, start, Coin::Even(0.0));
        for world in steps(start) {
            session.world = world;
            session.rounds(20);
            let right = near(world, 0.015);
            exact += usize::from(right.start() == right.end());
            for round in 20..60 {
                let chosen = session.chosen();
                assert!(right.contains(&chosen), "{chosen}, not {right:?}, {round} rounds into {world:?}");
                lengths.insert(chosen);
                session.round();
            }
            // Steps of less than 5 % of a round trip are not noticed as such; forgetting follows them.
            let cost_ratio = session.controller.estimates().cost_ratio.unwrap();
            assert!((cost_ratio / world.cost_ratio() - 1.0).abs() < 0.05, "{cost_ratio} in {world:?}");
        }
    }
    println!("{exact} of 25 worlds leave one length; lengths seen: {lengths:?}");
    assert!(exact >= 20 && lengths.len() >= 8);
}

/// The same with coins and with times that vary by a fifth. Settled: in 9 of 10 rounds from the 20th to the 60th after
/// the step, γ* is within one of what ODLD gives for α ± 0.08, two deviations of its estimate.
#[test]
fn odld_settles_under_noise() {
    let (mut within, mut rounds) = (0, 0);
    for (seed, start) in WORLDS.into_iter().enumerate() {
        for repetition in 0..8 {
            let coin = Coin::Seeded(Randomness::new(100 * seed as u64 + repetition, End::Edge));
            let mut session = Session::new(StopRule::Odld, false, start, coin);
            session.jitter = 0.2;
            for world in steps(start) {
                session.world = world;
                session.rounds(20);
                let right = near(world, 0.08);
                for _ in 20..60 {
                    let chosen = session.chosen();
                    within += usize::from(chosen + 1 >= *right.start() && chosen <= right.end() + 1);
                    rounds += 1;
                    session.round();
                }
            }
        }
    }
    println!("{within} of {rounds} rounds");
    assert!(within as f64 > 0.9 * rounds as f64, "{within} of {rounds}");
}

/// The rate falls by 3 % a round, so no round is an outlier; γ* keeps up with it.
#[test]
fn odld_follows_a_drift() {
    let mut session = Session::new(StopRule::Odld, false, WORLDS[0], Coin::Even(0.0));
    session.rounds(60);
    for round in 0..100 {
        session.world.rate *= 0.97;
        session.round();
        let right = near(session.world, 0.015);
        let chosen = session.chosen();
        assert!(chosen + 1 >= *right.start() && chosen <= right.end() + 1, "{chosen}, not {right:?}, in round {round}");
    }
}

/// Times vary so much that a rise of the cost per draft is no outlier; what was before is forgotten all the same.
#[test]
fn old_rounds_are_forgotten() {
    let mut world = World { acceptance_rate: 0.8, ..WORLDS[2] };
    let mut session = Session::new(StopRule::Odld, false, world, Coin::Even(0.0));
    session.jitter = 0.3;
    session.rounds(300);
    let before = session.controller.estimates().cost_ratio.unwrap();
    assert!((before / world.cost_ratio() - 1.0).abs() < 0.5, "{before}, not {}", world.cost_ratio());
    world.acceptance_rate = 0.4;
    world.pass = 200.0;
    session.world = world;
    session.rounds(100);
    let after = session.controller.estimates();
    assert!((after.acceptance_rate.unwrap() - 0.4).abs() < 0.05, "{after:?}");
    let round = session.controller.seconds_per_round().unwrap() * 1e3;
    let truth = world.fixed() + f64::from(session.chosen()) * world.per_draft();
    assert!((round / truth - 1.0).abs() < 0.1, "{round}, not {truth}");
}

/// γ* stays as it is where the truth does, so the lengths of rounds would too, and F and t_n could not be told apart
/// when the link changes.
#[test]
fn rounds_vary_as_much_as_is_needed_and_no_more() {
    let mut session = Session::new(StopRule::Odld, false, WORLDS[0], Coin::Even(0.0));
    session.rounds(100);
    let chosen = session.chosen() as usize;
    let trials = (0..100).filter(|_| session.round() != chosen).count();
    println!("{trials} trials in 100 rounds");
    assert!((4..=15).contains(&trials), "{trials}");
    // Where rounds differ anyway there are none.
    let controller = &mut session.controller;
    for round in 0..100 {
        let drafted = 1 + round % 5;
        let round_trip = ms(80.0 + drafted as f64);
        controller.round_done(&RoundTimes { drafted, judged: 1, accepted: 1, drafting: ms(5.0), round_trip });
        assert_eq!(controller.planned, controller.chosen);
    }
}

#[test]
fn one_stalled_round_decides_nothing() {
    for start in WORLDS {
        let mut session = Session::new(StopRule::Odld, false, start, Coin::Even(0.0));
        session.rounds(60);
        let before = session.controller.estimates();
        let stalled = RoundTimes {
            drafted: before.draft_length.unwrap() as usize,
            judged: 0,
            accepted: 0,
            drafting: ms(30_000.0),
            round_trip: ms(90_000.0),
        };
        session.controller.round_done(&stalled);
        assert_eq!(session.controller.estimates(), before);
    }
}

/// The share of the time that AS² loses against the better of the two ways, after it has had time to settle.
fn lost_share(session: &mut Session, rounds: usize) -> f64 {
    let (start, tokens) = (session.now, session.tokens);
    for _ in 0..rounds {
        session.step();
    }
    let took = (session.now - start).as_secs_f64() * 1e3;
    let best = session.world.speculative_speed(LONGEST).max(1.0 / session.world.alone);
    1.0 - (session.tokens - tokens) as f64 / best / took
}

#[test]
fn as2_leaves_speculation_where_it_does_not_pay_and_comes_back() {
    for start in WORLDS {
        let coin = || Coin::Seeded(Randomness::new(5, End::Edge));
        let mut session = Session::new(StopRule::Odld, true, start, coin());
        for (rate, draft) in [(1.0, 1.0), (0.002, 1.0), (1.0, 1.0), (1.0, 60.0), (1.0, 1.0)] {
            let world = World { rate: start.rate * rate, draft: start.draft * draft, ..start };
            session.world = world;
            let gain = world.speculative_speed(LONGEST) * world.alone;
            // Long enough for the longest stream to end and its probe.
            let mut steps = 0;
            while steps < 40 {
                steps += 1;
                session.step();
            }
            let (mut streamed, mut rounds) = (0, 0);
            for _ in 0..60 {
                match session.step() {
                    0 => rounds += 1,
                    tokens => streamed += tokens,
                }
            }
            let lost = lost_share(&mut session, 200);
            println!("gain {gain:.2}: {rounds} rounds, {streamed} tokens streamed; {:.1} % lost", 100.0 * lost);
            if gain > 1.1 {
                assert!(streamed <= 2 * 6, "{streamed} tokens streamed in {world:?}");
            } else if gain < 0.9 {
                assert!(rounds <= 40 && streamed > 60 * rounds, "{rounds}, {streamed} in {world:?}");
            }
            assert!(lost < 0.15, "{lost} lost in {world:?}");
        }
    }
}
