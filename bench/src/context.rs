//! `cargo xtask bench context`: guesses that are looked up, in the text itself and in texts that the edge alone knows.
//!
//! SmolLM2-135M-Instruct with its draft; a native edge and the server's engine run in this process, over an emulated
//! link in real time. The first argument is a folder: the report goes to `context.md` there, and to standard output.
//! With the executable of vLLM as the second and the folder of `outrider_vllm` as the third, vLLM with its own n-grams
//! writes the same greedy texts, without a link.

mod texts;

use std::{fmt::Write, fs, path::Path, sync::Arc, time::Instant};

use outrider_cloud::{
    edge::NativeEdge,
    pair::{Ends, PairPaths, draft_info, target_info},
    target::engine::{Engine, GuessPolicy},
};
use outrider_codec::frame::{MAX_DRAFT_TOKENS, SamplingParameters};
use outrider_models::{Model, Tokenizer};
use outrider_speculation::{
    draft::Passages,
    session::{
        cloud::TargetInfo,
        edge::{Ahead, Mode, Settings},
    },
};
use serde::Serialize;
use serde_json::json;

use crate::{
    chat::{QUESTIONS, Template},
    checkpoint,
    context::texts::{DOCUMENTS, FILES},
    fleet::{
        self,
        engine::{Drafting, Launch},
        players::Plain,
    },
    guesses::over_link,
    passes::Failure,
    report,
};

const ROUND_TRIPS_MS: [u64; 2] = [2, 50];
const TOKENS: u32 = 128;
/// Tokens of a file that the server sees before it continues the file.
const BEGINNING: usize = 256;

/// The ends that guess.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum Way {
    /// The draft model in the browser alone.
    Draft,
    /// It, and what the text repeats.
    Text,
    /// Both, and what the page knows.
    Page,
    /// The server, from what the text repeats, without a draft model.
    Server,
    /// The same, and every guess is judged, whatever its row costs.
    ServerAll,
    /// vLLM, from what the text repeats.
    Vllm,
}

impl Way {
    /// Ways of this program.
    const OWN: [Self; 5] = [Self::Draft, Self::Text, Self::Page, Self::Server, Self::ServerAll];

    fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft model",
            Self::Text => "and the text's own repetitions",
            Self::Page => "and the page's texts",
            Self::Server => "server, from the text's repetitions",
            Self::ServerAll => "server, every guess judged",
            Self::Vllm => "vLLM's own n-grams",
        }
    }
}

/// A prompt, and the texts that the page knows beside it.
type Prompt = (Vec<u32>, Vec<Vec<u32>>);

/// Prompts of one kind, all at the same temperature.
struct Work {
    name: &'static str,
    temperature: f32,
    prompts: Vec<Prompt>,
}

#[derive(Default, Serialize)]
struct Total {
    tokens: f64,
    passes: f64,
    accepted: f64,
    seconds: f64,
}

/// The models, loaded once.
struct Pair {
    draft: Model,
    tokenizer: Tokenizer,
    template: Template,
    plain: Engine,
    helped: Engine,
    judging_all: Engine,
    info: TargetInfo,
}

/// Runs the measurement with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let (folder, vllm) = match *arguments {
        [folder] => (Path::new(folder), None),
        [folder, vllm, package] => (Path::new(folder), Some((vllm, package))),
        _ => return Err("a folder is expected, and perhaps vLLM and its package's folder".into()),
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let mut paths = PairPaths { model: vec!["smollm2".parse()?], ..PairPaths::default() };
    runtime.block_on(paths.fetch())?;
    let (tokenizer, _) = paths.tokenizer_for(Ends::Both)?;
    let (draft, target) = (paths.draft_with(&tokenizer)?, paths.target_with(&tokenizer)?);
    let template = Template::of(&paths, &target, &tokenizer)?;
    let info = target_info(&target, &tokenizer, MAX_DRAFT_TOKENS)?;
    let helped = Engine::start(paths.target_with(&tokenizer)?, 1)?.with_lookups();
    let judging_all = Engine::start(paths.target_with(&tokenizer)?, 1)?.with_lookups().judging(GuessPolicy::All);
    let pair = Pair { draft, tokenizer, template, plain: Engine::start(target, 1)?, helped, judging_all, info };
    let mut rows = Vec::new();
    let works = runtime.block_on(works(&pair))?;
    for work in &works {
        for trip in ROUND_TRIPS_MS {
            for way in Way::OWN {
                let total = runtime.block_on(pair.write(work, way, trip))?;
                println!("{}, {trip} ms, {way:?}: {:.3} passes a token", work.name, total.passes / total.tokens);
                rows.push((work.name, trip, way, total));
            }
        }
    }
    if let Some((vllm, package)) = vllm {
        let model = folder.join("context-checkpoint");
        checkpoint::write(&paths.target_gguf()?, &paths.tokenizer_for(Ends::Both)?.1, &model)?;
        let launch = Launch { vllm: vllm.as_ref(), package: package.as_ref(), model: &model, logs: folder };
        let engine = runtime.block_on(launch.start(&Drafting::Ngrams))?;
        for work in works.iter().filter(|work| work.temperature == 0.0) {
            rows.push((work.name, 0, Way::Vllm, runtime.block_on(by_vllm(&engine, work))?));
        }
    }
    let samples = json!(rows);
    report::write(folder, "context", &table(&rows)?, samples, None)
}

/// Texts of vLLM, one after the other. A step without an accepted draft writes one token.
async fn by_vllm(engine: &fleet::engine::Engine, work: &Work) -> Result<Total, Failure> {
    let mut client = Plain::connect(engine.address()).await?;
    let (before, began) = (engine.counts().await?, Instant::now());
    for (prompt, _) in &work.prompts {
        client.write(prompt, |_| ()).await?;
    }
    let seconds = began.elapsed().as_secs_f64();
    let counts = before.since(&[engine]).await?;
    let passes = counts.written - counts.accepted;
    Ok(Total { tokens: counts.written, passes, accepted: counts.accepted, seconds })
}

async fn works(pair: &Pair) -> Result<Vec<Work>, Failure> {
    let mut code = Vec::new();
    for file in FILES {
        let mut own = pair.tokenizer.encode(&fs::read_to_string(file)?)?;
        let folder = Path::new(file).parent().ok_or("a file is in a folder")?;
        let mut others = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|is| is == "rs") && path != Path::new(file) {
                others.push(pair.tokenizer.encode(&fs::read_to_string(path)?)?);
            }
        }
        own.truncate(BEGINNING);
        code.push((own, others));
    }
    let mut answered = Vec::new();
    for question in QUESTIONS {
        let prompt = pair.turn(question)?;
        let earlier = pair.text(&prompt, &[], Way::Draft, 0, (0.0, 0)).await?.0;
        answered.push((prompt, vec![earlier]));
    }
    // Short texts are repeated with a change, or a question about them is answered.
    let about = |asked: &dyn Fn(&str, &str) -> String| -> Result<Vec<Prompt>, Failure> {
        let prompt = |(document, question): &(&str, &str)| -> Result<Prompt, Failure> {
            Ok((pair.turn(&asked(document, question))?, vec![pair.tokenizer.encode(document)?]))
        };
        DOCUMENTS.iter().map(prompt).collect()
    };
    let copied = about(&|document, _| {
        format!("Repeat the following text word for word, but begin with the word \"Note\":\n\n{document}")
    })?;
    let read = about(&|document, question| {
        format!("Answer the question in words of the document.\n\n{document}\n\nQuestion: {question}")
    })?;
    Ok(vec![
        Work { name: "code", temperature: 0.0, prompts: code },
        Work { name: "copying", temperature: 0.0, prompts: copied },
        Work { name: "answers from a document", temperature: 0.0, prompts: read },
        // The page has the same answer.
        Work { name: "answered before", temperature: 0.0, prompts: answered },
        // Nothing is known of these.
        Work { name: "chat", temperature: 0.7, prompts: chat(pair)? },
    ])
}

fn chat(pair: &Pair) -> Result<Vec<Prompt>, Failure> {
    QUESTIONS.map(|question| Ok((pair.turn(question)?, Vec::new()))).into_iter().collect()
}

impl Pair {
    /// A question in the form of the target's chat template.
    fn turn(&self, said: &str) -> Result<Vec<u32>, Failure> {
        self.template.ask(&self.tokenizer, said)
    }

    async fn write(&self, work: &Work, way: Way, trip: u64) -> Result<Total, Failure> {
        let mut total = Total::default();
        for (seed, (prompt, texts)) in (1..).zip(&work.prompts) {
            let known: &[Vec<u32>] = if way == Way::Page { texts } else { &[] };
            let began = Instant::now();
            let (ids, passes, accepted) = self.text(prompt, known, way, trip, (work.temperature, seed)).await?;
            total.seconds += began.elapsed().as_secs_f64();
            total.tokens += ids.len() as f64;
            total.passes += passes;
            total.accepted += accepted;
        }
        Ok(total)
    }

    /// One text in a session of its own, with its passes and accepted guesses.
    async fn text(
        &self,
        prompt: &[u32],
        known: &[Vec<u32>],
        way: Way,
        trip: u64,
        (temperature, seed): (f32, u64),
    ) -> Result<(Vec<u32>, f64, f64), Failure> {
        let engine = match way {
            Way::Server => &self.helped,
            Way::ServerAll => &self.judging_all,
            Way::Draft | Way::Text | Way::Page | Way::Vllm => &self.plain,
        };
        let transport = over_link(engine, &self.info, trip).await;
        let mut edge = NativeEdge::greet(&self.draft, draft_info(&self.draft, &self.tokenizer)?, transport).await?;
        let mut passages = Passages::default();
        known.iter().enumerate().for_each(|(name, tokens)| passages.add(&name.to_string(), tokens.clone()));
        edge.set_passages(Arc::new(passages));
        let mode = match way {
            Way::Server | Way::ServerAll | Way::Vllm => Mode::CloudOnly,
            Way::Draft => Mode::Ahead(Ahead { drafts_only: true, ..Ahead::default() }),
            Way::Text | Way::Page => Mode::Ahead(Ahead::default()),
        };
        let sampling = SamplingParameters { temperature, top_k: 0, top_p: 1.0 };
        let settings = Settings { mode, sampling, seed, max_new_tokens: TOKENS };
        let mut ids = Vec::new();
        let generated = edge
            .generate(prompt.to_vec(), &settings, |committed| ids.extend(committed.tokens.iter().map(|(id, _)| *id)))
            .await?;
        edge.close().await;
        Ok((ids, generated.statistics.server_passes as f64, generated.statistics.accepted as f64))
    }
}

fn table(rows: &[(&str, u64, Way, Total)]) -> Result<String, Failure> {
    let mut text = format!(
        "SmolLM2-135M-Instruct (Q4_1) with its draft, a native edge and the engine in one process, the link emulated \
         in real time: ten prompts of each kind, at most {TOKENS} tokens. Passes: of the target, per \
         token.\n\n\
         | work | round trip, ms | guesses | passes / token | tokens / pass | tokens/s |\n|---|--:|---|--:|--:|--:|\n"
    );
    for (work, trip, way, total) in rows {
        writeln!(
            text,
            "| {work} | {trip} | {} | {:.3} | {:.2} | {:.0} |",
            way.name(),
            total.passes / total.tokens,
            total.tokens / total.passes,
            total.tokens / total.seconds
        )?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_on_after_their_beginning() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for file in FILES {
            let bytes = fs::metadata(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}")).len();
            // A token of SmolLM2's has fewer than five bytes of code on average.
            assert!(bytes > 5 * (BEGINNING as u64 + u64::from(TOKENS)), "{file} has {bytes} bytes");
        }
    }
}
