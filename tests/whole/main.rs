//! **Whole.** What holds of the repository and of the real pair.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod bench;
mod checkpoints;
mod circles;
mod conformal;
mod deployment;
mod documents;
mod files;
mod greedy;
mod layering;

// What the measurements rest on. They are a program, of which this takes its parts.
#[path = "../../bench/src/checkpoint.rs"]
mod checkpoint;
#[path = "../../bench/src/gguf_writer.rs"]
mod gguf_writer;
#[path = "../../bench/src/passes.rs"]
mod passes;
#[expect(dead_code, reason = "reports sort")]
#[path = "../../bench/src/samples.rs"]
mod samples;
#[expect(dead_code, reason = "which shapes are measured is a matter of the command line")]
#[path = "../../bench/src/shapes.rs"]
mod shapes;
