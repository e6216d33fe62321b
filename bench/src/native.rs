//! `cargo xtask bench native`: the server's passes on this processor, beside llama.cpp's and candle's.
//!
//! ```text
//! native FOLDER LLAMA_CPP CANDLE [quick]     measures; results go to FOLDER
//! native engine MODEL THREADS                is Outrider's engine
//! ```
//!
//! All engines of a table hold the same file and take turns, round by round: the machine's speed changes within
//! minutes, so only what was measured side by side compares. The speed of reading memory is measured in every round.

mod bandwidth;
mod engine;
mod protocol;
mod report;

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use outrider_models::{ElementType, Model};

use crate::{
    decoder::Decoder,
    native::{
        bandwidth::Bandwidth,
        engine::Engine,
        report::{ENGINES, Measured, PASSES, Report},
    },
    passes::Failure,
    shapes::{self, GEMMA, QWEN, SMOLLM2, Shape, Storage, TINYLLAMA},
};

const THREADS: [usize; 2] = [1, 2];
const ROUNDS: usize = 7;
const QUICK_ROUNDS: usize = 3;
/// Multiplications that an engine is timed for in one turn, so that small models make more passes.
const TURN: u64 = 2 << 30;
const MOST_TIMES: u64 = 8;

/// Runs the measurement with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    match *arguments {
        ["engine", model, _threads] => outrider(Path::new(model)),
        [folder, llama_cpp, candle] => Bench::new(folder, llama_cpp, candle, false).run(),
        [folder, llama_cpp, candle, "quick"] => Bench::new(folder, llama_cpp, candle, true).run(),
        _ => Err("a folder, two engines and perhaps `quick` are expected".into()),
    }
}

struct Bench {
    folder: PathBuf,
    llama_cpp: PathBuf,
    candle: PathBuf,
    quick: bool,
    bandwidth: Bandwidth,
}

impl Bench {
    fn new(folder: &str, llama_cpp: &str, candle: &str, quick: bool) -> Self {
        let [folder, llama_cpp, candle] = [folder, llama_cpp, candle].map(PathBuf::from);
        Self { folder, llama_cpp, candle, quick, bandwidth: Bandwidth::new() }
    }

    fn run(&self) -> Result<(), Failure> {
        let shapes = shapes::chosen(if self.quick { &[SMOLLM2] } else { &[SMOLLM2, GEMMA, QWEN, TINYLLAMA] })?;
        let mut report = Report::new();
        for shape in shapes {
            for format in
                [Storage::All(ElementType::Q8_0), Storage::All(ElementType::Q4_0), Storage::Q4KM, Storage::Q5KM]
            {
                let model = shape.write(format, &self.folder.join("models"))?;
                for threads in THREADS {
                    println!("{} {}, {threads} threads", shape.name, format.name());
                    report.tables.push(self.measure(&shape, format, &model, threads)?);
                }
            }
        }
        report.write(&self.folder)
    }

    /// Loads the model in every engine, which then take turns.
    fn measure(&self, shape: &Shape, format: Storage, model: &Path, threads: usize) -> Result<Measured, Failure> {
        let mut measured = Measured::new(shape, format, threads);
        let mut engines = Vec::new();
        for name in ENGINES {
            engines.push(self.start(name, model, threads)?);
        }
        for round in 0..if self.quick { QUICK_ROUNDS } else { ROUNDS } {
            measured.bandwidth.push(self.bandwidth.measure(threads));
            for (pass, times) in PASSES.into_iter().zip(&mut measured.times) {
                let work = shape.multiplications() * pass.rows as u64;
                let turn = (TURN * threads as u64 / work).clamp(1, MOST_TIMES);
                // A prompt takes as long as all else together.
                if pass.cached == 0 && round % 2 == 1 {
                    continue;
                }
                for (engine, times) in engines.iter_mut().zip(times) {
                    times.extend(engine.time(pass, turn as usize)?);
                }
            }
        }
        for engine in &mut engines {
            measured.load_ms.push(engine.load_ms);
            measured.peak_bytes.push(engine.peak_bytes()?);
            measured.builds.push(engine.build.clone());
        }
        Ok(measured)
    }

    fn start(&self, name: &str, model: &Path, threads: usize) -> Result<Engine, Failure> {
        let (command, setting) = match name {
            "Outrider" => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["native", "engine"]);
                (command, None)
            }
            "candle" => (Command::new(&self.candle), None),
            "llama.cpp" => (Command::new(&self.llama_cpp), Some("plain")),
            _ => (Command::new(&self.llama_cpp), Some("flash")),
        };
        Engine::start(command, model, threads, setting).map_err(|error| format!("{name}: {error}").into())
    }
}

/// Outrider's own engine. The number of threads is read from the environment.
fn outrider(path: &Path) -> Result<(), Failure> {
    let began = Instant::now();
    let decoder = Decoder::new(Model::open(path)?);
    let vocabulary = decoder.vocabulary();
    protocol::serve(decoder, began, outrider_models::instruction_set(), vocabulary)
}
