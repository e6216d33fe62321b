//! Times forward passes of a model.
//!
//! ```text
//! cargo run --release -p outrider-models --example forward_time -- MODEL [CACHED [ROWS]]
//! ```
//!
//! MODEL is a `.gguf` file, or a folder with `model.safetensors` and `config.json`. For each number of new tokens, or
//! for ROWS, the fastest and the median of many passes behind CACHED tokens (64 if not given), with logits for every
//! one. OUTRIDER_THREADS is the number of threads.
#![allow(clippy::print_stdout, reason = "a command-line program")]

use std::{error::Error, path::Path, time::Instant};

use outrider_models::{Chunk, Model, Scratch};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: forward_time MODEL [CACHED [ROWS]]")?;
    let cached: usize = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let only: Option<usize> = arguments.next().map(|text| text.parse()).transpose()?;
    let model = Model::open(Path::new(&path))?;
    let (mut cache, mut scratch) = (model.new_cache(), Scratch::default());
    let vocab_size = model.config().vocab_size as u32;
    let tokens: Vec<u32> = (0..cached.max(only.unwrap_or(64)) as u32).map(|i| i * 37 % vocab_size).collect();
    model.forward(&mut [Chunk { cache: &mut cache, tokens: &tokens[..cached], positions: &[] }])?;
    println!("{path}, {cached} tokens cached");
    println!("{:>6} {:>12} {:>12} {:>18}", "rows", "fastest µs", "median µs", "median tokens/s");
    let all = [1, 2, 4, 5, 9, 16, 64];
    for rows in only.map_or(all.to_vec(), |rows| vec![rows]) {
        let positions: Vec<usize> = (0..rows).collect();
        let mut times = Vec::new();
        let began = Instant::now();
        while times.len() < 5 || (began.elapsed().as_millis() < 400 && times.len() < 2000) {
            let start = Instant::now();
            let chunk = Chunk { cache: &mut cache, tokens: &tokens[..rows], positions: &positions };
            model.forward_with(&mut [chunk], &mut scratch)?;
            times.push(start.elapsed());
            cache.truncate(cached);
        }
        times.sort_unstable();
        let median = times[times.len() / 2].as_secs_f64();
        let fastest = times[0].as_secs_f64() * 1e6;
        println!("{rows:>6} {fastest:>12.1} {:>12.1} {:>18.0}", median * 1e6, rows as f64 / median);
    }
    Ok(())
}
