//! Reports of measurements, printed and written to files.

use std::path::Path;

use outrider_papers::report::files::Report;
use serde_json::Value;

use crate::passes::Failure;

/// Prints a report and leaves it in `folder`.
pub fn write(folder: &Path, name: &str, text: &str, samples: Value, svg: Option<String>) -> Result<(), Failure> {
    let text = Report { text: text.to_owned(), numbers: samples, svg }.write(folder, name)?;
    println!("\n{text}\nWritten to {name}.md and {name}.json in {}", folder.display());
    Ok(())
}
