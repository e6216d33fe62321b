//! Command `outrider bench`, which measures this machine.

use clap::{Args, Subcommand};

use super::output::CommandError;

mod report;
mod shapes;
mod verify;

/// Measure this machine, or its GPU
#[derive(Debug, Args)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Verify(verify::Verify),
}

impl Bench {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        match self.what {
            What::Verify(verify) => verify.run().await,
        }
    }
}
