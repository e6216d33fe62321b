//! The one system whose package manager we dare to call: Debian, as root.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::process;

/// Whether packages can be installed without asking anyone.
pub fn can_install() -> bool {
    Path::new("/etc/debian_version").exists()
        && process::find_on_path("apt-get").is_some()
        && process::capture(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Installs `packages` with apt-get.
pub fn install(packages: &[&str]) -> Result<()> {
    ensure!(can_install(), "installing {} needs Debian and root", packages.join(", "));
    process::run(apt_get().args(["update", "-qq"]))?;
    process::run(apt_get().args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
