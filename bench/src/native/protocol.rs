//! The lines that a measurement and an engine exchange. Each engine is a process of its own, so that its threads, its
//! memory and its crashes are its own; engines of other languages speak the same lines.
//!
//! ```text
//! started as  ENGINE MODEL THREADS [SETTING]
//!                                      ← ready LOAD_MS BUILD       BUILD: the instruction sets, to the line's end
//! pass ROWS CACHED LOGITS TIMES →      LOGITS: all | last
//!                                      ← ok MS MS …                one a pass, after one that is not timed
//!                                      ← no REASON                 what this engine cannot do
//! memory →                             ← ok KIB                    the most that was resident so far
//! ```
//!
//! A pass runs ROWS tokens after CACHED ones, which are rolled back to after each. The engine ends with its input.

use std::{
    fs,
    io::{self, BufRead, Write},
    time::Instant,
};

use crate::passes::{self, Engine, Failure, Pass};

/// Answers until the input ends. `began` is when loading did, `build` says how the engine was compiled.
pub fn serve(mut engine: impl Engine, began: Instant, build: &str, vocabulary: u32) -> Result<(), Failure> {
    let text = passes::text(vocabulary);
    let now = || began.elapsed().as_secs_f64() * 1e3;
    let mut out = io::stdout().lock();
    writeln!(out, "ready {:.4} {build}", now())?;
    out.flush()?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["pass", rows, cached, logits, times] => {
                let pass = Pass { rows: rows.parse()?, cached: cached.parse()?, all_logits: logits == "all" };
                match passes::time(&mut engine, pass, times.parse()?, &text, now) {
                    Ok(times) => {
                        let times: Vec<String> = times.iter().map(|time| format!("{time:.4}")).collect();
                        writeln!(out, "ok {}", times.join(" "))?;
                    }
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

/// Peak resident memory of this process in KiB, as Linux reports it.
fn peak_memory() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    kib.ok_or_else(|| io::Error::other("the system does not tell the most memory a process used"))
}
