//! Guesses that form a tree: every row equals that of a text that is read alone, and accepted guesses are not read
//! again.

use outrider_speculation::judge::Branch;

use super::*;

const SAMPLING: SamplingParameters = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };

/// A text with a tree of guesses after it.
struct Tree {
    text: Vec<u32>,
    line: Vec<u32>,
    branches: Vec<Branch>,
}

impl Tree {
    /// A tree of branches that cross the edge of a page, exceed a page, and leave other branches; `seed` determines the
    /// tokens.
    fn behind(text: Vec<u32>, seed: u32) -> Self {
        let branch = |(parent, from, length): (usize, usize, usize)| {
            let ids = self::text(seed + 7 * from as u32 + parent as u32, length);
            Branch { parent, from, ids }
        };
        let branches = [(0, 0, 3), (0, 2, 40), (2, 9, 4), (1, 2, 1), (0, 6, 2)].map(branch).to_vec();
        Self { text, line: self::text(seed, 6), branches }
    }

    fn round(&self) -> Round {
        Round { branches: self.branches.clone(), ..Round::ahead(SAMPLING, 1, self.text.len(), self.line.clone()) }
    }

    /// A pass whose cache holds the first `keep` tokens.
    fn pass(&self, keep: usize) -> Pass {
        let forward = pass(keep, &[&self.text[keep..], &self.line].concat(), self.line.len() + 1);
        Pass { forward, round: Arc::new(self.round()), left: 1, shaping: None }
    }

    /// Rows that the pass should give.
    fn expected(&self, model: &Model) -> Rows {
        let round = self.round();
        let mut rows = alone(model, &[&self.text[..], &self.line].concat(), self.line.len() + 1);
        for (line, branch) in (1..).zip(&self.branches) {
            rows.extend(alone(model, &[&self.text[..], &round.line(line)].concat(), branch.ids.len()));
        }
        rows
    }

    /// Text after `guesses` tokens of a line are accepted, and the number of tokens that are in the cache's own line.
    fn accepted(&self, line: usize, guesses: usize) -> (Vec<u32>, usize) {
        let round = self.round();
        let text = [&self.text[..], &round.line(line)[..guesses]].concat();
        let (mut line, mut own) = (line, guesses);
        while let Some(branch) = line.checked_sub(1).map(|index| &self.branches[index]) {
            (line, own) = (branch.parent, own.min(branch.from));
        }
        (text, self.text.len() + own)
    }
}

async fn rows(slot: &ModelSlot, pass: Pass) -> Rows {
    match slot.run(pass).await.unwrap() {
        Answer::Rows(rows) => rows,
        Answer::Judged(_) => panic!("the engine's thread does not judge on the CPU"),
    }
}

/// Judges one tree after another, each after the accepted part of the one before, from the line and from every branch.
/// `others` sessions run in between.
async fn in_turns(engine: &Engine, seed: u32, others: usize) -> usize {
    let (model, slot) = (target(), engine.slot().unwrap());
    let mut tree = Tree::behind(text(seed, 30), seed);
    let mut keep = 0;
    for (turn, (line, guesses)) in
        [(2, 42), (0, 4), (3, 12), (1, 3), (4, 3), (5, 7), (2, 2), (1, 0), (0, 6)].into_iter().enumerate()
    {
        assert_same_bits(&rows(&slot, tree.pass(keep)).await, &tree.expected(&model));
        let (mut text, cached) = tree.accepted(line, guesses);
        for _ in 0..others {
            let other = engine.slot().unwrap();
            other.logits(pass(0, &self::text(turn as u32, 120), 1)).await.unwrap();
        }
        // Token that the target adds after the accepted ones.
        text.push(turn as u32);
        (tree, keep) = (Tree::behind(text, seed + 1 + turn as u32), cached);
    }
    tree.text.len()
}

#[tokio::test]
async fn an_accepted_branch_is_not_read_again() {
    let engine = engine(1);
    let length = in_turns(&engine, 3, 0).await;
    // The text once and all guesses of nine trees, each read once; accepted guesses are part of the text.
    let guesses = 9 * (6 + 3 + 40 + 4 + 1 + 2);
    let accepted = length - 30 - 9;
    let fed = engine.metrics().engine.tokens.get() as usize;
    assert_eq!(fed, length - 1 - accepted + guesses);
    assert_eq!(engine.metrics().engine.tokens_again.get(), 0);
}

/// Branches of sessions that are parked in between, and of several sessions in the same runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branches_of_parked_sessions_and_of_many_at_once() {
    let settings = EngineSettings { kv_memory: memory_for(416), turn: Duration::ZERO, ..EngineSettings::default() };
    let engine = Engine::start_with(CpuTarget::from(target()), settings).unwrap();
    in_turns(&engine, 5, 1).await;
    assert!(engine.metrics().engine.tokens_again.get() > 9 * 30, "{}", engine.metrics().text());
    assert!(engine.load().kv_bytes <= memory_for(416).as_u64(), "{:?}", engine.load());
    let engine = self::engine(4);
    tokio::join!(in_turns(&engine, 1, 0), in_turns(&engine, 2, 0), in_turns(&engine, 9, 0));
}

/// If memory is short, a pass judges its line alone, and no cache is dropped for branches.
#[tokio::test]
async fn without_memory_for_branches_the_line_is_judged() {
    let settings = EngineSettings { kv_memory: memory_for(64), ..EngineSettings::default() };
    let engine = Engine::start_with(CpuTarget::from(target()), settings).unwrap();
    let (model, slot) = (target(), engine.slot().unwrap());
    let tree = Tree::behind(text(3, 30), 3);
    let line = &tree.expected(&model)[..7];
    assert_same_bits(&rows(&slot, tree.pass(0)).await, &line.to_vec());
    let judgement = slot.judge(tree.pass(29)).await.unwrap();
    assert_eq!((judgement.branch, engine.load().kv_bytes), (0, memory_for(64).as_u64()));
}
