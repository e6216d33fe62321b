//! An engine from the measurement's side: a child process that is asked for passes, as
//! [`protocol`](crate::native::protocol) has it.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use crate::passes::{Failure, Pass};

/// Time for threads that spin after their work to fall asleep, before another engine is timed.
const SETTLING: Duration = Duration::from_millis(30);

/// A model loaded by one engine.
pub struct Engine {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    pub load_ms: f64,
    /// Instruction sets it was built with, or takes.
    pub build: String,
}

impl Engine {
    /// Starts `command` on a model.
    pub fn start(mut command: Command, model: &Path, threads: usize, setting: Option<&str>) -> Result<Self, Failure> {
        let threads = threads.to_string();
        command.arg(model).arg(&threads).args(setting);
        // Variables that set the threads of Rust's engines.
        for variable in ["OUTRIDER_THREADS", "CANDLE_NUM_THREADS", "RAYON_NUM_THREADS"] {
            command.env(variable, &threads);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let requests = child.stdin.take().ok_or("an engine has no input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("an engine has no output")?);
        let mut engine = Self { child, requests, answers, load_ms: f64::NAN, build: String::new() };
        let line = engine.line()?;
        let ready = line.strip_prefix("ready ").and_then(|rest| rest.split_once(' '));
        let (load, build) = ready.ok_or_else(|| format!("an engine began with {line:?}"))?;
        (engine.load_ms, engine.build) = (load.parse()?, build.to_owned());
        Ok(engine)
    }

    /// Milliseconds of each of `times` passes; none if the engine has no such pass.
    pub fn time(&mut self, pass: Pass, times: usize) -> Result<Vec<f64>, Failure> {
        thread::sleep(SETTLING);
        let logits = if pass.all_logits { "all" } else { "last" };
        let answer = self.ask(&format!("pass {} {} {logits} {times}", pass.rows, pass.cached))?;
        match answer.strip_prefix("ok ") {
            Some(times) => times.split(' ').map(|time| Ok(time.parse()?)).collect(),
            None if answer.starts_with("no ") => Ok(Vec::new()),
            None => Err(format!("an engine answered {answer:?}").into()),
        }
    }

    /// The most bytes resident so far.
    pub fn peak_bytes(&mut self) -> Result<f64, Failure> {
        let answer = self.ask("memory")?;
        let kib = answer.strip_prefix("ok ").ok_or_else(|| format!("an engine answered {answer:?}"))?;
        Ok(kib.parse::<f64>()? * 1024.0)
    }

    fn ask(&mut self, request: &str) -> Result<String, Failure> {
        writeln!(self.requests, "{request}")?;
        self.requests.flush()?;
        self.line()
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(format!("an engine ended by itself ({})", self.child.wait()?).into());
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Fails only if the process has ended already, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
