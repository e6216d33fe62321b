//! Which version of a package Cargo.lock holds.

use anyhow::{Context, Result, ensure};

use crate::version::Version;

/// The one version of `package` in the text of a Cargo.lock.
///
/// Cargo writes the file itself, a `[[package]]` table with `name` and `version` on lines of their own, so that no
/// TOML reader is needed. Two versions of the package are an error: there would be no telling which one is meant.
pub fn version_of(lock: &str, package: &str) -> Result<Version> {
    let versions: Vec<&str> = lock
        .split("[[package]]")
        .skip(1)
        .filter(|table| value_of(table, "name") == Some(package))
        .filter_map(|table| value_of(table, "version"))
        .collect();
    let version = versions.first().with_context(|| format!("Cargo.lock has no package {package}"))?;
    ensure!(versions.len() == 1, "Cargo.lock has more than one version of {package}: {}", versions.join(", "));
    Version::parse(version).with_context(|| format!("Cargo.lock gives {package} the version {version:?}"))
}

fn value_of<'a>(table: &'a str, key: &str) -> Option<&'a str> {
    table.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"
version = 4

[[package]]
name = "rand"
version = "0.8.5"

[[package]]
name = "rand"
version = "0.9.5"

[[package]]
name = "wasm-bindgen"
version = "0.2.130"
source = "registry+https://github.com/rust-lang/crates.io-index"
dependencies = [
 "wasm-bindgen-macro",
]

[[package]]
name = "wasm-bindgen-macro"
version = "0.2.131"
"#;

    #[test]
    fn finds_exactly_the_named_package() {
        assert_eq!(version_of(LOCK, "wasm-bindgen").unwrap(), Version::new(0, 2, 130));
    }

    #[test]
    fn absent_and_ambiguous_packages_are_errors() {
        assert!(version_of(LOCK, "wasm").is_err());
        let error = version_of(LOCK, "rand").unwrap_err().to_string();
        assert!(error.contains("0.8.5, 0.9.5"), "{error}");
    }
}
