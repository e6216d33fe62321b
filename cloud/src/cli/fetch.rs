//! Command `outrider fetch`, which downloads models.

use super::output::{CommandError, print};
use crate::pair::PairPaths;

/// Download models into the cache, and print the path of each
///
/// The other commands do it as well when they need a model; this one does nothing else, for images of containers and
/// machines that will have no network.
#[derive(Debug, clap::Args)]
pub(super) struct Fetch {
    #[command(flatten)]
    pair: PairPaths,
}

impl Fetch {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        if self.pair.is_built_in() {
            return Err("there is nothing to fetch: name a model with --model, --target or --draft".into());
        }
        for mut pair in self.pair.each()? {
            pair.fetch().await?;
            for path in [&pair.target, &pair.draft].into_iter().flatten() {
                print(&format!("{}\n", path.display()));
            }
        }
        Ok(())
    }
}
