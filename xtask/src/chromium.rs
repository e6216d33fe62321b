//! Settings with which Chromium is started for wasm tests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use crate::workspace::Workspace;

/// No window, no sandbox (which root may not use), and no traffic of the browser's own.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    // WebGPU in software: the same on every machine.
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// Writes the file from which wasm-bindgen's test runner reads the browser's path and flags; returns the file's path.
pub fn write_webdriver_json(workspace: &Workspace, browser: &Path) -> Result<PathBuf> {
    let path = workspace.scratch()?.join("webdriver.json");
    let options = json!({ "goog:chromeOptions": { "binary": browser, "args": FLAGS } });
    fs::write(&path, options.to_string()).with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(path)
}
