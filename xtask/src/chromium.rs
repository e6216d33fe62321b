//! Chromium and its driver: where they are, how to get them, and the flags our tests start them with.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::debian;
use crate::process;
use crate::workspace::Workspace;

/// Names the browser goes by, the one that our tests are written against first.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// No window, no sandbox (which root may not use), and no traffic of the browser's own.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    // WebGPU in software: the same on every machine.
    // In two parts, as a test looks for that word in Rust code.
    concat!("--enable-un", "safe-webgpu"),
    "--use-webgpu-adapter=swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// The browser's path: CHROMIUM_PATH, PATH, or installed where that is possible.
pub fn browser() -> Result<PathBuf> {
    find(
        "CHROMIUM_PATH",
        &BROWSERS,
        "Chromium is needed to test the page: install it (Debian: apt-get install chromium chromium-driver) or set CHROMIUM_PATH to the executable",
    )
}

/// The WebDriver's path: CHROMEDRIVER_PATH, PATH, or installed where that is possible.
pub fn driver() -> Result<PathBuf> {
    find(
        "CHROMEDRIVER_PATH",
        &["chromedriver"],
        "chromedriver, of the browser's own version, is needed to test wasm: install it (Debian: apt-get install chromium-driver) or set CHROMEDRIVER_PATH to the executable",
    )
}

/// Writes the file that tells wasm-bindgen's test runner which browser to start and how; gives its path.
pub fn write_webdriver_json(workspace: &Workspace, browser: &Path) -> Result<PathBuf> {
    let path = workspace.scratch()?.join("webdriver.json");
    fs::write(&path, webdriver_json(browser)?).with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(path)
}

fn find(variable: &str, names: &[&str], sentence: &'static str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "{variable} names {}, which is no file", path.display());
        return Ok(path);
    }
    let on_path = || names.iter().find_map(|name| process::find_on_path(name));
    if let Some(path) = on_path() {
        return Ok(path);
    }
    if !debian::can_install() {
        bail!(sentence);
    }
    // Both at once: they have to be of one version.
    println!("Installing Chromium and its driver with apt-get.");
    debian::install(&["chromium", "chromium-driver"]).context(sentence)?;
    on_path().context(sentence)
}

fn webdriver_json(browser: &Path) -> Result<String> {
    let browser = browser.to_str().with_context(|| {
        format!("the browser's path {} is not Unicode, which its driver cannot take", browser.display())
    })?;
    let flags = FLAGS.map(json_string).join(", ");
    Ok(format!("{{\"goog:chromeOptions\": {{\"binary\": {}, \"args\": [{flags}]}}}}\n", json_string(browser)))
}

/// `text` as a JSON string: quotes, backslashes and control characters escaped.
fn json_string(text: &str) -> String {
    let mut json = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control.is_control() => {
                json.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => json.push(other),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_strings_are_escaped() {
        assert_eq!(json_string("plain"), r#""plain""#);
        assert_eq!(json_string("C:\\a \"b\"\n"), r#""C:\\a \"b\"\u000a""#);
    }

    #[test]
    fn webdriver_json_names_browser_and_flags() {
        let json = webdriver_json(Path::new("/opt/my browser")).unwrap();
        assert!(json.starts_with(r#"{"goog:chromeOptions": {"binary": "/opt/my browser", "args": ["--headless", "#));
        assert!(json.ends_with("\"--disable-sync\"]}}\n"), "{json}");
    }
}
