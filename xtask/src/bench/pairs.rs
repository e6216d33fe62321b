//! Pairs of models with which `bench link` measures drafting ahead.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::choice;
use crate::pair::{self, SMOLLM2};
use crate::process;
use crate::workspace::Workspace;

/// Variable that chooses pairs by name.
const CHOICE: &str = "BENCH_PAIRS";

/// Pairs of models with which drafting ahead is measured, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pairs {
    /// The built-in draft before targets of three sizes, over all links; server and browser have a core each, as two
    /// machines have theirs
    SmallDraft,
    /// A draft of a real size, over three round trips
    RealDraft,
    /// The published chat model with the draft made for it, over four round trips, with questions of a chat
    Published,
    /// Server and browser share their cores, as on the machine of someone who tries it; over the nearest link
    OneMachine,
}

/// Models of one pair, by their source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Models {
    /// The built-in pair, each of the two grown to a size if one is given.
    BuiltIn { target: Option<&'static str>, draft: Option<&'static str> },
    /// SmolLM2-135M-Instruct, grown to a size if one is given, with the draft made for it.
    Published { target: Option<&'static str> },
}

impl Pairs {
    /// Pairs that the variable names, as in `published,one-machine`; `None` if it is not set.
    pub fn chosen() -> Result<Option<Vec<Self>>> {
        let Ok(names) = std::env::var(CHOICE) else { return Ok(None) };
        let named = |name: &str| {
            let known = Self::value_variants().iter().map(|pairs| choice::name(*pairs)).collect::<Vec<_>>().join(", ");
            let unknown = || format!("{CHOICE} names {name:?}, and there are {known}");
            Self::value_variants().iter().copied().find(|pairs| choice::name(*pairs) == name).with_context(unknown)
        };
        names.split(',').map(named).collect::<Result<Vec<_>>>().map(Some)
    }

    /// Names and models of the pairs.
    pub fn models(self) -> &'static [(&'static str, Models)] {
        match self {
            Self::RealDraft => &[("1.1B, draft 135M", Models::BuiltIn { target: Some("1.1B"), draft: Some("135M") })],
            Self::Published => &[
                ("SmolLM2-135M-Instruct", Models::Published { target: None }),
                ("SmolLM2-135M-Instruct at the cost of 1.1B", Models::Published { target: Some("1.1B") }),
            ],
            Self::SmallDraft | Self::OneMachine => &[
                ("built-in", Models::BuiltIn { target: None, draft: None }),
                ("135M", Models::BuiltIn { target: Some("135M"), draft: None }),
                ("1.1B", Models::BuiltIn { target: Some("1.1B"), draft: None }),
            ],
        }
    }

    /// Name of the file for the measurements.
    pub fn file(self) -> &'static str {
        match self {
            Self::SmallDraft => "ahead-measured.json",
            Self::RealDraft => "ahead-real-draft-measured.json",
            Self::Published => "ahead-published-measured.json",
            Self::OneMachine => "ahead-shared-measured.json",
        }
    }

    /// The last arguments of `ahead.mjs`.
    pub fn forms(self, form: Option<&'static str>) -> Vec<&'static str> {
        match self {
            Self::SmallDraft => form.into_iter().collect(),
            Self::RealDraft => vec!["trips"],
            Self::Published => [Some("chat"), form].into_iter().flatten().collect(),
            Self::OneMachine => vec!["near"],
        }
    }

    /// True if server and browser are held to a core each.
    pub fn has_core_each(self) -> bool {
        self != Self::OneMachine
    }

    /// The command, held to a core of its own where each end has one.
    pub fn hold(self, command: Command, core: usize) -> Command {
        if self.has_core_each() { process::hold(command, core) } else { command }
    }
}

impl Models {
    /// Arguments of `outrider serve` for these models, which are written or downloaded if they are not there.
    pub fn arguments(self, workspace: &Workspace, server: &Path) -> Result<Vec<OsString>> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut grown = |flag: &str, role: &str, size: Option<&str>| -> Result<()> {
            if let Some(size) = size {
                arguments.extend([flag.into(), pair::grow(workspace, role, size)?.into()]);
            }
            Ok(())
        };
        match self {
            Self::BuiltIn { target, draft } => {
                grown("--target", "target", target)?;
                grown("--draft", "draft", draft)?;
            }
            Self::Published { target: None } => {
                process::run(workspace.command(server).args(["fetch", "--model", SMOLLM2]))?;
                arguments.extend(["--model", SMOLLM2].map(OsString::from));
            }
            Self::Published { target } => {
                let [target, draft] = pair::smollm2(workspace, server, target)?;
                arguments.extend(["--target".into(), target.into(), "--draft".into(), draft.into()]);
                // As the published one has them.
                arguments.extend(["--activation-bits", "16"].map(OsString::from));
            }
        }
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_files_of_their_own_and_names_that_a_script_can_split() {
        let all = Pairs::value_variants();
        for (index, pairs) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| other.file() != pairs.file()), "{pairs:?}");
            assert!(pairs.models().iter().all(|(name, _)| !name.contains('=')), "{pairs:?}");
        }
        assert_eq!(Pairs::Published.forms(Some("quick")), ["chat", "quick"]);
    }
}
