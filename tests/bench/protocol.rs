//! The lines that a measurement and an engine exchange. Each engine is a process of its own, so that its threads, its
//! memory and its crashes are its own; engines of other languages speak the same lines.
//!
//! ```text
//! started as  ENGINE MODEL THREADS [SETTING]
//!                                      ← ready LOAD_MS BUILD       BUILD: the instruction sets, to the line's end
//! pass ROWS CACHED LOGITS TIMES →      LOGITS: all | last
//!                                      ← ok MS MS …                one a pass, behind one that is not timed
//!                                      ← no REASON                 what this engine cannot do
//! memory →                             ← ok KIB                    the most that was resident so far
//! ```
//!
//! A pass runs ROWS tokens behind CACHED ones, which are rolled back to after each. The engine ends with its input.

use std::{
    fmt::Display,
    fs,
    io::{self, BufRead, Write},
    time::Instant,
};

/// One kind of pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// Tokens.
    pub rows: usize,
    /// Tokens before them.
    pub cached: usize,
    /// Logits of every row rather than the last.
    pub all_logits: bool,
}

/// What answers.
pub trait Engine {
    type Error: Display;

    /// Runs one pass, with exactly `pass.cached` tokens cached before and any number after.
    fn run(&mut self, pass: Pass, tokens: &[u32]) -> Result<(), Self::Error>;

    /// Makes exactly the first `cached` of `tokens` cached, as cheaply as it can.
    fn rewind(&mut self, cached: usize, tokens: &[u32]) -> Result<(), Self::Error>;
}

/// Answers until the input ends. `vocabulary` bounds the tokens; `build` says how the engine was compiled.
pub fn serve<E: Engine>(
    mut engine: E,
    began: Instant,
    build: &str,
    vocabulary: u32,
) -> Result<(), Box<dyn std::error::Error>> {
    let tokens: Vec<u32> = (0..2048).map(|i| token(i, vocabulary)).collect();
    let mut out = io::stdout().lock();
    writeln!(out, "ready {} {build}", milliseconds(began))?;
    out.flush()?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["pass", rows, cached, logits, times] => {
                let pass = Pass { rows: rows.parse()?, cached: cached.parse()?, all_logits: logits == "all" };
                match time(&mut engine, pass, times.parse()?, &tokens) {
                    Ok(times) => writeln!(out, "ok {}", times.join(" "))?,
                    Err(reason) => writeln!(out, "no {}", reason.to_string().replace('\n', " "))?,
                }
            }
            ["memory"] => writeln!(out, "ok {}", peak_memory()?)?,
            _ => return Err(format!("no engine understands {line:?}").into()),
        }
        out.flush()?;
    }
    Ok(())
}

/// The tokens that every engine sees: words, no special tokens, and few that repeat.
fn token(index: u32, vocabulary: u32) -> u32 {
    let first = 259.min(vocabulary - 1);
    first + index * 37 % (vocabulary - first)
}

fn time<E: Engine>(engine: &mut E, pass: Pass, times: usize, tokens: &[u32]) -> Result<Vec<String>, E::Error> {
    let mut found = Vec::new();
    for round in 0..=times {
        engine.rewind(pass.cached, tokens)?;
        let start = Instant::now();
        engine.run(pass, &tokens[pass.cached..pass.cached + pass.rows])?;
        if round > 0 {
            found.push(milliseconds(start));
        }
    }
    Ok(found)
}

fn milliseconds(start: Instant) -> String {
    format!("{:.4}", start.elapsed().as_secs_f64() * 1e3)
}

/// KiB, from what Linux tells of a process.
fn peak_memory() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    kib.ok_or_else(|| io::Error::other("the system does not tell the most memory a process used"))
}
