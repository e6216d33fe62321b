//! Versions as tools print them: three numbers.

use std::fmt;

use anyhow::{Context, Result};

/// `major.minor.patch`, ordered as such; anything after a `-` or `+` is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Changes that break.
    pub major: u64,
    /// Changes that add.
    pub minor: u64,
    /// Changes that mend.
    pub patch: u64,
}

impl Version {
    /// A version known beforehand.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self { major, minor, patch }
    }

    /// Reads `1.2.3`, `v1.2.3` or `1.2.3-rc.1`.
    pub fn parse(text: &str) -> Option<Self> {
        let core = text.strip_prefix('v').unwrap_or(text);
        let core = core.split(['-', '+']).next()?;
        let mut numbers = core.split('.').map(|number| number.parse().ok());
        let version = Self::new(numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(version)
    }

    /// The first version in what a tool prints for `--version`, such as `wasm-bindgen 0.2.130`.
    pub fn in_output(output: &str) -> Result<Self> {
        output
            .split_whitespace()
            .find_map(Self::parse)
            .with_context(|| format!("there is no version in {:?}", output.trim()))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_tools_print() {
        let cases = [
            ("wasm-bindgen 0.2.130", Version::new(0, 2, 130)),
            ("v20.20.2\n", Version::new(20, 20, 2)),
            ("rustc 1.95.0-nightly (59807616e 2026-04-14)", Version::new(1, 95, 0)),
            ("Chromium 1.2.3.4 typos-cli 1.52.0+build", Version::new(1, 52, 0)),
        ];
        for (output, version) in cases {
            assert_eq!(Version::in_output(output).unwrap(), version, "{output:?}");
        }
    }

    #[test]
    fn rejects_what_is_no_version() {
        for text in ["", "1", "1.2", "1.2.3.4", "1.2.x", "a.b.c", "1..3", "-1.2.3"] {
            assert_eq!(Version::parse(text), None, "{text:?}");
        }
        assert!(Version::in_output("command not found").is_err());
    }

    #[test]
    fn orders_by_number_not_by_letter() {
        assert!(Version::new(0, 2, 99) < Version::new(0, 2, 130));
        assert!(Version::new(9, 9, 9) < Version::new(20, 0, 0));
    }
}
