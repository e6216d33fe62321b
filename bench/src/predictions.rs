//! `cargo xtask bench predictions`: the speed that `outrider check` predicts beside that of sessions.
//!
//! ```text
//! predictions FOLDER OUTRIDER MODELS [quick]     grown models go to MODELS, results to FOLDER
//! ```
//!
//! The check and the server have one core, a native edge the other; the link between them is emulated in real time.
//! The server makes no drafts of its own. The check runs before and after the sessions of its pair, because the speed
//! of a machine drifts: its prediction is the mean of both.

use std::{
    fmt::Write,
    path::Path,
    process::Output,
    time::{Duration, Instant},
};

use outrider_cloud::{
    edge::{NativeEdge, Transport},
    pair::{Ends, PairPaths, draft_info},
};
use outrider_models::{Model, Tokenizer};
use outrider_papers::reproduce::sessions::{DEFAULT_SAMPLING, beginnings};
use outrider_speculation::{
    control::link::Link,
    session::edge::{Ahead, Mode, Settings},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    chat::{QUESTIONS, Template},
    grow::grown,
    passes::Failure,
    report,
    serve::process::{Server, on_core},
};

const ROUND_TRIPS_MS: [u64; 3] = [2, 20, 50];
const TOKENS: u32 = 128;
/// Core of the server and the check; this process is held to another.
const SERVER_CORE: u32 = 0;

/// Pairs: a name, the target's size and the draft's; `None` for the built-in model of that role.
const PAIRS: [(&str, Option<&str>, Option<&str>); 5] = [
    ("built-in", None, None),
    ("37M", Some("37M"), None),
    ("135M", Some("135M"), None),
    ("1.1B", Some("1.1B"), None),
    ("1.1B, draft 37M", Some("1.1B"), Some("37M")),
];

/// Predicted and measured tokens per second at one round trip.
#[derive(Debug, Serialize)]
struct Case {
    pair: String,
    round_trip_ms: u64,
    predicted: [f64; 2],
    measured: [f64; 2],
}

/// Tokens per second of the server alone and with drafts.
const ALONE: usize = 0;
const DRAFTED: usize = 1;

/// Runs the measurement with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let (folder, outrider, models, texts) = match *arguments {
        [folder, outrider, models] => (folder, outrider, models, 10),
        [folder, outrider, models, "quick"] => (folder, outrider, models, 3),
        _ => {
            return Err(
                "a folder, the server's executable, a folder for models and perhaps `quick` are expected".into()
            );
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut cases = Vec::new();
    for (name, target, draft) in PAIRS {
        let file = |role, size: Option<&str>| size.map(|size| grown(Path::new(models), role, size, "q8_0")).transpose();
        let paths = PairPaths { target: file("target", target)?, draft: file("draft", draft)?, ..PairPaths::default() };
        let flags = flags(&paths)?;
        cases.extend(runtime.block_on(pair(name, paths, &flags, Path::new(outrider), texts))?);
    }
    let mut smollm2 = PairPaths { model: vec!["smollm2".parse()?], ..PairPaths::default() };
    runtime.block_on(smollm2.fetch())?;
    let flags = ["--model", "smollm2"].map(str::to_owned);
    cases.extend(runtime.block_on(pair("SmolLM2-135M-Instruct", smollm2, &flags, Path::new(outrider), texts))?);
    report::write(Path::new(folder), "predictions", &table(&cases)?, json!(cases), None)
}

/// Options of the command line that name the same models.
fn flags(paths: &PairPaths) -> Result<Vec<String>, Failure> {
    let mut flags = Vec::new();
    for (flag, path) in [("--target", &paths.target), ("--draft", &paths.draft)] {
        if let Some(path) = path {
            flags.extend([flag.to_owned(), path.to_str().ok_or("a path is no text")?.to_owned()]);
        }
    }
    Ok(flags)
}

/// Predicts and measures the sessions of one pair.
async fn pair(
    name: &str,
    paths: PairPaths,
    flags: &[String],
    outrider: &Path,
    texts: usize,
) -> Result<Vec<Case>, Failure> {
    println!("{name}");
    let before = predict(outrider, flags)?;
    let mut measured = Vec::new();
    {
        let (tokenizer, _) = paths.tokenizer_for(Ends::Both)?;
        let draft = paths.draft_with(&tokenizer)?;
        let prompts = prompts(&paths, &draft, &tokenizer, texts)?;
        let arguments: Vec<&str> = ["--own-draft", "off"].into_iter().chain(flags.iter().map(String::as_str)).collect();
        let server = Server::start_on_core(SERVER_CORE, outrider, &arguments)?;
        for trip in ROUND_TRIPS_MS {
            measured.push(sessions(&draft, &tokenizer, &server.session_url(), trip, &prompts).await?);
        }
    }
    let after = predict(outrider, flags)?;
    let mean = |which: usize, case: usize| (before[case][which] + after[case][which]) / 2.0;
    let cases = ROUND_TRIPS_MS.into_iter().zip(measured).enumerate().map(|(case, (round_trip_ms, measured))| Case {
        pair: name.to_owned(),
        round_trip_ms,
        predicted: [mean(ALONE, case), mean(DRAFTED, case)],
        measured,
    });
    Ok(cases.collect())
}

/// Predictions of `outrider check` for each round trip.
fn predict(outrider: &Path, flags: &[String]) -> Result<Vec<[f64; 2]>, Failure> {
    let trips = ROUND_TRIPS_MS.map(|trip| trip.to_string()).join(",");
    let mut command = on_core(SERVER_CORE, outrider);
    let Output { status, stdout, stderr } =
        command.args(["check", "--json", "--round-trips", &trips]).args(flags).output()?;
    if !status.success() {
        return Err(format!("`outrider check` failed: {}", String::from_utf8_lossy(&stderr)).into());
    }
    let found: Value = serde_json::from_slice(&stdout)?;
    if found["measured"]["isStable"] != true {
        let spread = found["measured"]["spread"].as_f64().map_or(f64::NAN, |spread| 100.0 * spread);
        println!("the machine is busy: the check's times differ by {spread:.0} % of their median");
    }
    let number = |value: &Value| value.as_f64().ok_or("`outrider check` printed no number");
    let mut speeds = Vec::new();
    for prediction in found["predictions"].as_array().into_iter().flatten() {
        let drafted = number(&prediction["tokensPerSecond"])?;
        speeds.push([drafted / number(&prediction["speedup"])?, drafted]);
    }
    Ok(speeds)
}

/// Prompts like the text that the check reads: beginnings of tales, or questions to a chat model.
fn prompts(paths: &PairPaths, draft: &Model, tokenizer: &Tokenizer, count: usize) -> Result<Vec<Vec<u32>>, Failure> {
    if paths.model.is_empty() {
        let first = draft.config().first_token();
        return beginnings(8).iter().take(count).map(|text| Ok(tokenizer.encode_prompt(first, text)?)).collect();
    }
    let template = Template::of(paths, &paths.target_with(tokenizer)?, tokenizer)?;
    QUESTIONS.iter().take(count).map(|question| template.ask(tokenizer, question)).collect()
}

/// Tokens per second over a link, of the server alone and with drafts, text by text in turn.
async fn sessions(
    draft: &Model,
    tokenizer: &Tokenizer,
    url: &str,
    round_trip_ms: u64,
    prompts: &[Vec<u32>],
) -> Result<[f64; 2], Failure> {
    let mut link = Link::unlimited();
    link.configure(None, Duration::from_millis(round_trip_ms) / 2);
    let transport = Transport::connect(url).await?.over(link.clone(), link);
    let mut edge = NativeEdge::greet(draft, draft_info(draft, tokenizer)?, transport).await?;
    let (mut tokens, mut seconds) = ([0.0; 2], [0.0; 2]);
    for (seed, prompt) in (1..).zip(prompts) {
        for (which, mode) in [Mode::CloudOnly, Mode::Ahead(Ahead::default())].into_iter().enumerate() {
            let settings = Settings { mode, sampling: DEFAULT_SAMPLING, seed, max_new_tokens: TOKENS };
            // The time from the first token on: the check says nothing of the prompt's.
            let mut first = None;
            edge.generate(prompt.clone(), &settings, |committed| match first {
                None => first = Some(Instant::now()),
                Some(_) => tokens[which] += committed.tokens.len() as f64,
            })
            .await?;
            seconds[which] += first.map_or(0.0, |first: Instant| first.elapsed().as_secs_f64());
        }
    }
    edge.close().await;
    Ok([ALONE, DRAFTED].map(|which| tokens[which] / seconds[which]))
}

fn table(cases: &[Case]) -> Result<String, Failure> {
    let mut text = format!(
        "`outrider check` and the server on one core, a native edge on another, the link emulated in real time; texts of \
         {TOKENS} tokens. Tokens per second, predicted / measured, and how far the prediction is off. 37M to 1.1B: the \
         built-in pair grown to that cost.\n\n\
         | pair | round trip, ms | alone | with drafts | off | gain | off |\n|---|--:|--:|--:|--:|--:|--:|\n"
    );
    let mut within = [0; 2];
    for Case { pair, round_trip_ms, predicted, measured } in cases {
        let gain = |speeds: &[f64; 2]| speeds[DRAFTED] / speeds[ALONE];
        let off = [predicted[DRAFTED] / measured[DRAFTED] - 1.0, gain(predicted) / gain(measured) - 1.0];
        for (count, off) in within.iter_mut().zip(off) {
            *count += u32::from(off.abs() <= 0.15);
        }
        writeln!(
            text,
            "| {pair} | {round_trip_ms} | {:.0} / {:.0} | {:.0} / {:.0} | {:+.0} % | {:.2} / {:.2} | {:+.0} % |",
            predicted[ALONE],
            measured[ALONE],
            predicted[DRAFTED],
            measured[DRAFTED],
            100.0 * off[0],
            gain(predicted),
            gain(measured),
            100.0 * off[1],
        )?;
    }
    let [speed, gain] = within;
    writeln!(text, "\nWithin 15 %: {speed} of {} speeds, {gain} gains.", cases.len())?;
    Ok(text)
}
