use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytesize::ByteSize;
use outrider_codec::frame::SamplingParameters;
use outrider_models::{Chunk, KvCache, Model, ModelConfig};
use outrider_speculation::{Forward, judge::Round, session::cloud::Pass};

use super::*;
use crate::{pair::PairPaths, target::cpu::CpuTarget};

mod branches;
mod turns;

type Rows = Vec<Vec<f32>>;

fn target() -> Model {
    PairPaths::default().target().unwrap()
}

fn engine(sessions: usize) -> Engine {
    Engine::start(target(), sessions).unwrap()
}

fn pass(keep: usize, tokens: &[u32], rows: usize) -> Forward {
    Forward::new(keep, tokens.to_vec(), rows)
}

fn text(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| (i * 37 + seed * 101) % 4000).collect()
}

impl ModelSlot {
    /// Logits of a pass on the CPU.
    async fn logits(&self, forward: Forward) -> Result<Rows, EngineError> {
        let sampling = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
        match self.run(Pass { forward, round: Arc::new(Round::alone(sampling, 1, 1)), left: 1, shaping: None }).await? {
            Answer::Rows(rows) => Ok(rows),
            Answer::Judged(_) => panic!("the engine's thread does not judge on the CPU"),
        }
    }
}

/// Last `rows` rows of a text, from a cache of its own, computed in one run.
fn alone(model: &Model, tokens: &[u32], rows: usize) -> Rows {
    let mut cache = model.new_cache();
    let positions: Vec<usize> = (tokens.len() - rows..tokens.len()).collect();
    let chunk = Chunk { cache: &mut cache, tokens, positions: &positions };
    model.forward(&mut [chunk]).unwrap().remove(0).iter().map(<[f32]>::to_vec).collect()
}

#[track_caller]
fn assert_same_bits(got: &Rows, expected: &Rows) {
    assert_eq!(got.len(), expected.len());
    let bits = |rows: &Rows| rows.iter().flatten().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert!(bits(got) == bits(expected));
}

#[tokio::test]
async fn slots_are_counted_and_given_up() {
    let engine = engine(2);
    let (first, second) = (engine.slot().unwrap(), engine.slot().unwrap());
    assert!(engine.slot().is_none());
    drop(first);
    assert_eq!(engine.load().sessions, 1);
    assert!(engine.slot().is_some());
    drop(second);
    assert_eq!(engine.load().sessions, 0);
}

/// A long prompt in chunks beside a short one gives the same logits as alone and in one run.
#[tokio::test]
async fn passes_share_runs_without_changing_their_logits() {
    let model = target();
    let prompt = text(0, 400);
    let engine = engine(2);
    let (long, short) = (engine.slot().unwrap(), engine.slot().unwrap());
    let (a, b) = tokio::join!(long.logits(pass(0, &prompt, 2)), async {
        short.logits(pass(0, &prompt[..9], 0)).await.unwrap();
        short.logits(pass(9, &prompt[9..20], 2)).await
    });
    assert_same_bits(&a.unwrap(), &alone(&model, &prompt, 2));
    assert_same_bits(&b.unwrap(), &alone(&model, &prompt[..20], 2));
    assert_eq!(engine.load().passes, 3);
    assert!(engine.load().runs >= 400 / 64, "the long prompt is read in chunks");
}

/// A continued conversation: only new tokens are read, with the same logits.
#[tokio::test]
async fn what_an_earlier_text_had_in_common_is_not_read_again() {
    let (model, engine) = (target(), engine(1));
    let slot = engine.slot().unwrap();
    let fed = || engine.metrics().engine.tokens.get();
    let mut text = text(0, 120);
    slot.logits(pass(0, &text[..80], 0)).await.unwrap();
    assert_eq!(fed(), 80);
    let rows = slot.logits(pass(0, &text, 3)).await.unwrap();
    assert_same_bits(&rows, &alone(&model, &text, 3));
    assert_eq!(fed(), 120);
    text[50] += 1;
    let rows = slot.logits(pass(0, &text, 3)).await.unwrap();
    assert_same_bits(&rows, &alone(&model, &text, 3));
    assert_eq!(fed(), 120 + 70, "from the first difference on");
    // The wanted rows are not in the cache, so their tokens are read again.
    let rows = slot.logits(pass(0, &text[..100], 8)).await.unwrap();
    assert_same_bits(&rows, &alone(&model, &text[..100], 8));
    assert_eq!(fed(), 190 + 8);
}

/// Slots of one request copy the prompt, and get the bits that they would get alone.
#[tokio::test]
async fn what_a_sibling_has_read_is_copied() {
    let (model, engine) = (target(), engine(3));
    let fed = || engine.metrics().engine.tokens.get();
    let first = engine.slot().unwrap();
    let second = engine.slot().unwrap().copying(first.id());
    let text = text(0, 120);
    first.logits(pass(0, &text, 1)).await.unwrap();
    let rows = second.logits(pass(0, &text, 1)).await.unwrap();
    assert_same_bits(&rows, &alone(&model, &text, 1));
    assert_eq!(fed(), 120 + 1);
    // Each slot continues independently, also after the other was dropped.
    drop(first);
    let longer = [&text[..], &[7, 8, 9]].concat();
    let rows = second.logits(pass(120, &[7, 8, 9], 2)).await.unwrap();
    assert_same_bits(&rows, &alone(&model, &longer, 2));
    let third = engine.slot().unwrap().copying(second.id());
    let other = [&text[..50], &[1; 20]].concat();
    let rows = third.logits(pass(0, &other, 3)).await.unwrap();
    assert_same_bits(&rows, &alone(&model, &other, 3));
    assert_eq!(fed(), 121 + 3 + 20);
}

/// Rounds of many sessions, each rolled back to another length: every session gets the logits that it would get alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_get_what_they_would_get_alone() {
    sessions_side_by_side(ByteSize::gib(1)).await;
}

/// The same with memory for two sessions of eight: most rounds begin with reading all tokens again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_sessions_get_what_they_would_get_with_their_caches() {
    let engine = sessions_side_by_side(memory_for(200)).await;
    assert!(engine.metrics().engine.parkings.get() > 8, "{}", engine.metrics().text());
    assert!(engine.metrics().engine.tokens_again.get() > 8 * 100);
}

/// Twelve prompts at once, and memory for three: a session that has read its prompt writes before another one takes its
/// memory. Served in order of arrival, all sessions would read again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_begun_ends_before_others_begin() {
    let mut read_again = Vec::new();
    for turn in [EngineSettings::default().turn, Duration::ZERO] {
        let kv_memory = ByteSize(3 * memory_for(90).as_u64());
        let settings = EngineSettings { kv_memory, turn, ..EngineSettings::default() };
        let engine = Engine::start_with(CpuTarget::from(target()), settings).unwrap();
        let mut sessions = tokio::task::JoinSet::new();
        for seed in 0..12u32 {
            let slot = engine.slot().unwrap();
            sessions.spawn(async move {
                let text = text(seed, 90);
                slot.logits(pass(0, &text[..60], 0)).await.unwrap();
                for committed in 60..80 {
                    slot.logits(pass(committed, &text[committed..committed + 5], 5)).await.unwrap();
                    // Time in which the edge drafts.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        }
        sessions.join_all().await;
        read_again.push(engine.metrics().engine.tokens_again.get());
    }
    println!("read again: {read_again:?} tokens of {}", 12 * 60);
    assert!(10 * read_again[0] < read_again[1], "{read_again:?}");
}

/// No session keeps others out: after its turn it is parked for a waiting session, and resumes later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newcomer_waits_for_a_turn_and_no_longer() {
    let turn = Duration::from_millis(200);
    let settings = EngineSettings { kv_memory: memory_for(90), turn, ..EngineSettings::default() };
    let engine = Engine::start_with(CpuTarget::from(target()), settings).unwrap();
    let (first, second) = (engine.slot().unwrap(), engine.slot().unwrap());
    let writing = tokio::spawn(async move {
        for length in 0.. {
            first.logits(pass(length % 80, &[1], 1)).await.unwrap();
        }
    });
    while engine.load().passes == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let began = Instant::now();
    second.logits(pass(0, &text(1, 80), 1)).await.unwrap();
    let took = began.elapsed();
    writing.abort();
    assert!(took > turn / 2 && took < 10 * turn, "{took:?}");
}

/// Size of the KV cache of one session with this number of tokens.
fn memory_for(tokens: usize) -> ByteSize {
    ByteSize(target().new_cache().bytes_for(tokens) as u64)
}

async fn sessions_side_by_side(kv_memory: ByteSize) -> Engine {
    let settings = EngineSettings { sessions: 8, batch_rows: 128, kv_memory, turn: Duration::ZERO };
    let engine = Engine::start_with(CpuTarget::from(target()), settings).unwrap();
    let reference = Arc::new(target());
    let mut sessions = tokio::task::JoinSet::new();
    for seed in 0..8u32 {
        let (slot, reference) = (engine.slot().unwrap(), Arc::clone(&reference));
        sessions.spawn(async move {
            let text = text(seed, 90);
            slot.logits(pass(0, &text[..60], 0)).await.unwrap();
            let mut committed = 60;
            for round in 0..6 {
                let drafts = &text[committed..committed + 5];
                let got = slot.logits(pass(committed, drafts, 5)).await.unwrap();
                assert_same_bits(&got, &alone(&reference, &text[..committed + 5], 5));
                committed += 1 + (seed as usize + round) % 4;
            }
        });
    }
    sessions.join_all().await;
    let most = settings.kv_memory.as_u64();
    assert!(engine.load().kv_bytes <= most, "{} bytes of {most}", engine.load().kv_bytes);
    engine
}

#[tokio::test]
async fn the_memory_of_idle_sessions_is_counted_parked_and_given_back() {
    let settings = EngineSettings { sessions: 4, kv_memory: memory_for(128), ..EngineSettings::default() };
    let engine = Engine::start_with(CpuTarget::from(target()), settings).unwrap();
    let slots: Vec<ModelSlot> = (0..4).map(|_| engine.slot().unwrap()).collect();
    for slot in &slots {
        slot.logits(pass(0, &text(1, 64), 1)).await.unwrap();
    }
    let load = settled(&engine, |load| load.parked == 2).await;
    assert_eq!(load.kv_bytes, memory_for(128).as_u64());
    assert!(engine.metrics().text().contains("outrider_sessions_parked 2\n"));
    drop(slots);
    let load = settled(&engine, |load| load.kv_bytes == 0).await;
    assert_eq!((load.parked, load.sessions), (0, 0));
}

/// Waits for the load to satisfy a condition, since the thread updates metrics after it has answered.
async fn settled(engine: &Engine, done: impl Fn(&Load) -> bool) -> Load {
    for _ in 0..500 {
        if done(&engine.load()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(done(&engine.load()), "{:?}", engine.load());
    engine.load()
}

#[tokio::test]
async fn what_can_never_be_done_is_refused() {
    let settings = EngineSettings { kv_memory: memory_for(64), ..EngineSettings::default() };
    let engine = Engine::start_with(CpuTarget::from(target()), settings).unwrap();
    assert_eq!(engine.longest_text(), 64);
    let slot = engine.slot().unwrap();
    let error = slot.logits(pass(0, &text(0, 65), 1)).await.unwrap_err();
    assert!(matches!(error, EngineError::TooLong { tokens: 65, .. }));
    assert!(error.to_string().ends_with("shorten the text, or raise --kv-memory"), "{error}");
    assert_eq!(slot.logits(pass(3, &[1], 1)).await, Err(EngineError::NotRead { keep: 3, read: 0 }));
    let error = slot.logits(pass(0, &text(0, 60), 300)).await.unwrap_err();
    assert!(matches!(error, EngineError::TooManyRows { rows: 300, .. }));
    assert_eq!(slot.logits(pass(0, &text(0, 64), 1)).await.unwrap().len(), 1);
    assert_eq!(self::engine(1).longest_text(), target().config().context_length);
}

#[tokio::test]
async fn a_bad_pass_fails_alone() {
    let engine = engine(2);
    let (good, bad) = (engine.slot().unwrap(), engine.slot().unwrap());
    let (ok, error) = tokio::join!(good.logits(pass(0, &[0, 1], 1)), bad.logits(pass(0, &[9999], 1)));
    assert_eq!(ok.unwrap().len(), 1);
    assert!(matches!(error, Err(EngineError::Model(_))));
    assert!(bad.logits(pass(0, &[0], 1)).await.is_ok());
}

/// The longest possible round fits any budget.
#[test]
fn every_round_fits_a_run() {
    let rows = usize::from(outrider_codec::frame::MAX_DRAFT_TOKENS) + 1;
    assert!(schedule::most_rows(LEAST_BATCH_ROWS) >= rows);
}

/// A target whose runs take a time, and more for each row.
struct Slow {
    target: CpuTarget,
    run: Duration,
    row: Duration,
}

impl Slow {
    fn new(run_ms: u64, row_ms: u64) -> Self {
        let [run, row] = [run_ms, row_ms].map(Duration::from_millis);
        Self { target: CpuTarget::from(target()), run, row }
    }
}

impl Backend for Slow {
    type Pages = <CpuTarget as Backend>::Pages;

    fn config(&self) -> &ModelConfig {
        self.target.config()
    }

    fn name(&self) -> &'static str {
        "slow"
    }

    fn batching(&self) -> &'static str {
        self.target.batching()
    }

    fn warms_up(&self) -> bool {
        true
    }

    fn new_cache(&self) -> KvCache<Self::Pages> {
        self.target.new_cache()
    }

    fn run(&mut self, chunks: &mut [Chunk<'_, Self::Pages>], rounds: &[Option<&Round>]) -> Result<Vec<Answer>, String> {
        let rows = chunks.iter().map(|chunk| chunk.tokens.len() as u32).sum::<u32>();
        std::thread::sleep(self.run + self.row * rows);
        self.target.run(chunks, rounds)
    }
}

/// A session that is answered in one run is in the next one, too: three sessions that began at different times take
/// turns for a run or two, then share all runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_come_back_at_once_share_their_runs() {
    let engine = Engine::start_with(Slow::new(40, 0), EngineSettings::default()).unwrap();
    let mut sessions = tokio::task::JoinSet::new();
    for session in 0..3u32 {
        let slot = engine.slot().unwrap();
        sessions.spawn(async move {
            tokio::time::sleep(Duration::from_millis(15) * session).await;
            for length in 0..16 {
                slot.logits(pass(length, &[session], 1)).await.unwrap();
            }
        });
    }
    sessions.join_all().await;
    // 16 runs are the least; if one session is left out of each, there are 32.
    assert!(engine.load().runs <= 26, "{:?}", engine.load());
}

/// Four guesses take almost four times as long as a pass without guesses: so high is their price before any text, not
/// the quarter of a token that they take of a usual model. A row takes longer than a busy machine is late.
#[test]
fn rows_have_their_price_before_the_first_text() {
    let engine = Engine::start_with(Slow::new(1, 12), EngineSettings::default()).unwrap();
    assert_eq!(engine.pass_micros(), [0; 5]);
    engine.warm_up();
    // An edge hears the same with its Welcome.
    let [one, .., eight, _] = engine.pass_micros();
    assert!(one >= 5000 && eight > 2 * one, "{one}, {eight}");
    // A text of a token in each pass.
    engine.rates.ran(1, 1, 0, Duration::from_millis(13));
    engine.rates.wrote(1);
    let price = engine.rates.row_prices().all(4);
    assert!(price > 1.2, "{price}");
    assert_eq!(engine.load().runs, 0);
}
