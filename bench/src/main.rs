//! **Measurements.** The programs that `cargo xtask bench` runs; its help describes the arguments.
//!
//! The first argument names a measurement, the others are its own. Tables go to standard output and, with charts and
//! raw samples, into the folder that is named.
#![expect(clippy::print_stdout, reason = "measurements print what they found")]

mod capacity;
mod chat;
mod checkpoint;
mod context;
mod decoder;
mod edge;
mod fleet;
mod grow;
mod guesses;
mod hostile;
mod link;
mod models;
mod native;
mod page;
mod passes;
mod predictions;
mod published;
mod report;
mod samples;
mod schemes;
mod serve;
mod shapes;
mod soak;
mod sweep_memory;
#[cfg(test)]
mod tests;

use passes::Failure;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (name, arguments) = arguments.split_first().ok_or("the name of a measurement is expected")?;
    match *name {
        "capacity" => capacity::run(arguments),
        "context" => context::run(arguments),
        "edge" => edge::run(arguments),
        "fleet" => fleet::run(arguments),
        "grow" => grow::run(arguments),
        "guesses" => guesses::run(arguments),
        "hostile" => hostile::run(arguments),
        "link" => link::run(arguments),
        "native" => native::run(arguments),
        "page" => page::run(arguments),
        "predictions" => predictions::run(arguments),
        "published" => published::run(arguments),
        "schemes" => schemes::run(arguments),
        "serve" => serve::run(arguments),
        "soak" => soak::run(arguments),
        _ => Err(format!("there is no measurement called {name}").into()),
    }
}
