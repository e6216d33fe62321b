//! Times drafts on a GPU without a browser.
//!
//! ```text
//! cargo run --release -p outrider-webgpu --features vulkan --example draft_time -- MODEL.gguf [CACHED [plain]]
//! ```
//!
//! The fastest and the median of many, behind CACHED tokens (64 if not given): forward passes of so many rows, whose
//! logits all come back, and groups of guesses that the GPU chooses by itself. `plain` does without subgroups. A
//! software adapter's speed says nothing of a GPU's.
#![allow(clippy::print_stdout, reason = "a command-line program")]

use std::{error::Error, fs::File, io::BufReader, time::Instant};

use outrider_codec::frame::SamplingParameters;
use outrider_models::StoredModel;
use outrider_speculation::Choice;
use outrider_webgpu::{Gpu, GpuDraft};

/// What is timed: a pass of so many rows; so many tokens read before one whose row comes back; so many guesses.
#[derive(Clone, Copy)]
enum Work {
    Rows(usize),
    Read(usize),
    Guesses(usize),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: draft_time MODEL.gguf [CACHED [plain]]")?;
    let cached: usize = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let stored = StoredModel::from_gguf(&mut BufReader::new(File::open(&path)?))?;
    let gpu = match arguments.next().as_deref() {
        Some("plain") => Gpu::open_without_subgroups().await?,
        _ => Gpu::open().await?,
    };
    let mut draft = GpuDraft::new(gpu, &stored).await?;
    let vocab_size = draft.config().vocab_size as u32;
    let text: Vec<u32> = (0..cached as u32 + 130).map(|i| i * 37 % vocab_size).collect();
    let start = Instant::now();
    draft.forward(&text[..cached], cached.min(1)).await?;
    let first = start.elapsed().as_millis();
    println!(
        "{path} on {}, {}, {cached} tokens cached; the first took {first} ms, compiled",
        draft.gpu().name(),
        if draft.gpu().has_subgroups() { "with subgroups" } else { "without subgroups" }
    );
    println!("{:>10} {:>12} {:>12}", "", "fastest µs", "median µs");
    let sampling = SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.95 };
    for work in [Work::Rows(1), Work::Rows(4), Work::Rows(8), Work::Read(32), Work::Guesses(1), Work::Guesses(8)] {
        let mut times = Vec::new();
        let began = Instant::now();
        while times.len() < 5 || (began.elapsed().as_secs() < 3 && times.len() < 2000) {
            draft.truncate(cached);
            let start = Instant::now();
            match work {
                Work::Rows(rows) => drop(draft.forward(&text[cached..cached + rows], rows).await?),
                Work::Read(tokens) => drop(draft.forward(&text[cached..=cached + tokens], 1).await?),
                Work::Guesses(most) => {
                    let choice = Choice { seed: Some(times.len() as u64), sampling, most };
                    drop(draft.choose(&text[cached..=cached], &choice).await?);
                }
            }
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let [fastest, median] = [times[0], times[times.len() / 2]].map(|time| time.as_secs_f64() * 1e6);
        let name = match work {
            Work::Rows(rows) => format!("{rows} rows"),
            Work::Read(tokens) => format!("{tokens} + 1 tokens"),
            Work::Guesses(most) => format!("{most} guesses"),
        };
        println!("{name:>10} {fastest:>12.1} {median:>12.1}");
    }
    Ok(())
}
