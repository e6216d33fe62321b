//! Prompts and references of a user's own, from a file or folder, in place of the built-in ones.
//!
//! | path | prompts |
//! |---|---|
//! | `.jsonl`, `.json` | an object a line, or a list of objects, with the fields of [`Line`]'s formats |
//! | `.parquet` | a row as such an object |
//! | `.story`, `.summary` | an article of CNN/DailyMail or XSum |
//! | other files | a text a line |
//! | a folder | all of its files, in the order of their names; other files are one text each |

mod formats;

use std::{
    fs, io,
    path::{Path, PathBuf},
    rc::Rc,
};

use outrider_models::{Message, Tokenizer};
use parquet::{
    errors::ParquetError,
    file::reader::{FileReader, SerializedFileReader},
};
use serde_json::Value;

pub use self::formats::{Ask, Line, LineError};
use super::sessions::Failure;

/// Turns text or a conversation into token ids.
pub type Encode = Rc<dyn Fn(&Ask) -> Result<Vec<u32>, Failure>>;

/// Prompts as token ids, each with its line.
#[derive(Clone)]
pub struct Data {
    /// Lines of the file in their order.
    pub lines: Vec<Line>,
    /// Token ids of the prompt of each line.
    pub prompts: Vec<Vec<u32>>,
    encode: Encode,
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Data").field("lines", &self.lines).finish_non_exhaustive()
    }
}

impl Data {
    /// Encodes the prompts of lines.
    ///
    /// # Errors
    /// If a prompt cannot be encoded.
    pub fn new(lines: Vec<Line>, encode: Encode) -> Result<Self, Failure> {
        let prompts: Vec<Vec<u32>> = lines.iter().map(|line| encode(&line.ask)).collect::<Result<_, _>>()?;
        if let Some(number) = prompts.iter().position(Vec::is_empty) {
            return Err(format!("prompt {} of the data is empty; nothing can follow it", number + 1).into());
        }
        Ok(Self { lines, prompts, encode })
    }

    /// Token ids of a conversation.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn encode(&self, messages: Vec<Message>) -> Result<Vec<u32>, Failure> {
        (self.encode)(&Ask::Messages(messages))
    }

    /// Token ids of each prompt followed by its reference.
    ///
    /// # Errors
    /// If the tokenizer refuses a reference.
    pub fn texts(&self, tokenizer: &Tokenizer) -> Result<Vec<Vec<u32>>, Failure> {
        let text = |(prompt, line): (&Vec<u32>, &Line)| {
            let reference = tokenizer.encode_prompt(None, line.reference.as_deref().unwrap_or_default())?;
            Ok([&prompt[..], &reference].concat())
        };
        self.prompts.iter().zip(&self.lines).map(text).collect()
    }
}

/// Error of a file or folder of prompts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// There are fewer prompts than errors can be estimated from.
    #[error("{path} has {found} prompts; give at least 2")]
    TooFew {
        /// Path that was given.
        path: PathBuf,
        /// Number of prompts that were found.
        found: usize,
    },
    /// The file or folder cannot be read.
    #[error("{path} cannot be read: {source}")]
    Read {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is not Parquet, or of a kind that is not supported.
    #[error("{path} cannot be read as Parquet: {source}; convert it to JSON lines")]
    Parquet {
        /// Path of the file that was read.
        path: PathBuf,
        /// Error of the Parquet reader.
        source: ParquetError,
    },
    /// A line is not a prompt.
    #[error("{path}: line {line} {source}")]
    Line {
        /// Path of the file that was read.
        path: PathBuf,
        /// Number of the line or row, from 1.
        line: usize,
        /// Error that the line has.
        source: LineError,
    },
}

/// Reads at most `most` prompts from a file or folder. Empty lines are skipped.
///
/// # Errors
/// If a file cannot be read, a line is not what it should be, or there are fewer than two prompts.
pub fn open(path: &Path, most: usize) -> Result<Vec<Line>, DataError> {
    let read = |source| DataError::Read { path: path.to_owned(), source };
    let mut lines = Vec::new();
    if path.is_dir() {
        let entries = fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(read)?;
        let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        files.retain(|file| file.is_file() && file.file_name().is_none_or(|name| name.as_encoded_bytes()[0] != b'.'));
        files.sort();
        for file in files {
            lines.extend(read_file(&file, true, most - lines.len())?);
        }
    } else {
        lines = read_file(path, false, most)?;
    }
    if lines.len() < 2 { Err(DataError::TooFew { path: path.to_owned(), found: lines.len() }) } else { Ok(lines) }
}

/// Reads at most `most` prompts from a file. A text without a known format is one prompt if it `is_one`, or else each
/// of its lines.
fn read_file(path: &Path, is_one: bool, most: usize) -> Result<Vec<Line>, DataError> {
    let kind = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let at = |line| move |source| DataError::Line { path: path.to_owned(), line, source };
    if kind == "parquet" {
        let wrong = |source| DataError::Parquet { path: path.to_owned(), source };
        let file = fs::File::open(path).map_err(|source| DataError::Read { path: path.to_owned(), source })?;
        let reader = SerializedFileReader::new(file).map_err(wrong)?;
        let rows = reader.get_row_iter(None).map_err(wrong)?.take(most);
        let line = |(number, row): (usize, Result<parquet::record::Row, _>)| {
            formats::of_json(row.map_err(wrong)?.to_json_value()).map_err(at(number)).map(Option::into_iter)
        };
        return Ok((1..).zip(rows).map(line).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect());
    }
    let text = fs::read_to_string(path).map_err(|source| DataError::Read { path: path.to_owned(), source })?;
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let numbered = || (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let lines: Vec<Option<Line>> = match &kind[..] {
        "json" | "jsonl" | "ndjson" if text.trim_start().starts_with('[') => {
            let values: Vec<Value> = serde_json::from_str(text).map_err(LineError::from).map_err(at(1))?;
            let values = (1..).zip(values).take(most);
            values.map(|(number, value)| formats::of_json(value).map_err(at(number))).collect::<Result<_, _>>()?
        }
        "json" | "jsonl" | "ndjson" => {
            let line = |(number, line)| {
                let value = serde_json::from_str(line).map_err(LineError::from).map_err(at(number))?;
                formats::of_json(value).map_err(at(number))
            };
            numbered().take(most).map(line).collect::<Result<_, _>>()?
        }
        "story" => vec![Some(formats::of_story(text).map_err(at(1))?)],
        "summary" => vec![Some(formats::of_summary(text).map_err(at(1))?)],
        _ if is_one => vec![formats::of_text(text)],
        _ => numbered().map(|(_, line)| formats::of_text(line)).take(most).collect(),
    };
    Ok(lines.into_iter().flatten().take(most).collect())
}

#[cfg(test)]
mod tests;
