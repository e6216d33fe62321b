//! The order of sessions while memory is short, and passes that are not computed.

use std::net::{IpAddr, Ipv4Addr};

use tokio::task::JoinHandle;

use super::*;

const GREEDY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const NEIGHBOUR: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

/// Length of a prompt that fills nearly the whole context.
const LONG: usize = 480;

/// An engine whose runs take 40 ms, with memory for a number of tokens.
fn slow_engine(tokens: usize) -> Engine {
    let settings = EngineSettings { kv_memory: memory_for(tokens), ..EngineSettings::default() };
    Engine::start_with(Slow::new(40, 0), settings).unwrap()
}

/// Requests a prompt of a client; returns the time at which it was answered.
fn prompt(engine: &Engine, client: IpAddr, seed: u32, tokens: usize) -> JoinHandle<Instant> {
    let slot = engine.slot().unwrap().of(client);
    tokio::spawn(async move {
        slot.logits(pass(0, &text(seed, tokens), 1)).await.unwrap();
        Instant::now()
    })
}

/// Waits until the engine has made this number of runs.
async fn ran(engine: &Engine, runs: u64) {
    while engine.load().runs < runs {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_pass_overtakes_prompts_that_wait_for_memory() {
    let engine = slow_engine(1100);
    let first = prompt(&engine, GREEDY, 1, LONG);
    ran(&engine, 1).await;
    let second = prompt(&engine, GREEDY, 2, LONG);
    ran(&engine, 2).await;
    // The same client, so that only the size of the pass matters.
    let small = prompt(&engine, GREEDY, 3, 10);
    let (first, second, small) = (first.await.unwrap(), second.await.unwrap(), small.await.unwrap());
    assert!(small < first && first < second);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_prompts_leaves_memory_for_others() {
    let engine = slow_engine(1000);
    let greedy: Vec<_> = (0..4).map(|seed| prompt(&engine, GREEDY, seed, LONG)).collect();
    ran(&engine, 2).await;
    let neighbour = prompt(&engine, NEIGHBOUR, 9, 300).await.unwrap();
    let mut before = 0;
    for prompt in greedy {
        before += usize::from(prompt.await.unwrap() < neighbour);
    }
    assert!(before <= 1, "{before} prompts came first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_waits_while_its_session_has_no_connection() {
    let (engine, model, prompt) = (slow_engine(1100), target(), text(1, LONG));
    let slot = Arc::new(engine.slot().unwrap());
    let asked = tokio::spawn({
        let (slot, prompt) = (Arc::clone(&slot), prompt.clone());
        async move { slot.logits(pass(0, &prompt, 2)).await.unwrap() }
    });
    ran(&engine, 2).await;
    slot.attend(false);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let runs = engine.load().runs;
    assert!(runs < 6, "{runs} runs");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(engine.load().runs, runs);
    slot.attend(true);
    assert_same_bits(&asked.await.unwrap(), &alone(&model, &prompt, 2));
    assert_eq!(engine.load().passes, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_withdrawn_prompt_is_not_read_to_its_end() {
    let (engine, model) = (slow_engine(1100), target());
    let slot = Arc::new(engine.slot().unwrap());
    let asked = tokio::spawn({
        let slot = Arc::clone(&slot);
        async move { slot.logits(pass(0, &text(1, LONG), 2)).await }
    });
    ran(&engine, 2).await;
    slot.withdraw();
    assert_eq!(asked.await.unwrap(), Err(EngineError::Gone));
    assert!(engine.load().runs < 6);
    let other = text(2, 20);
    assert_same_bits(&slot.logits(pass(0, &other, 2)).await.unwrap(), &alone(&model, &other, 2));
}
