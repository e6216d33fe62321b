//! Parser for tool calls in the text that a model generates.
//!
//! Two forms are supported:
//!
//! - `<tool_call>` and `</tool_call>` around `{"name": …, "arguments": {…}}`, anywhere in the text, as Hermes and Qwen
//!   write it;
//! - a text that consists only of `{"name": …, "parameters": {…}}`, as in Llama 3.1, or of a list of such objects, as
//!   in Mistral. This form is read only if the template does not teach the first one and all names are those of tools.
//!
//! All other text is passed on unchanged, except that white space next to a call is dropped. Text is returned as soon
//! as it cannot be part of a call, and is never taken back.

use serde::Deserialize;
use serde_json::{Deserializer, from_str, value::RawValue};

use super::conversation::Tool;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
/// Prefix that Mistral's models write before the second form. It has no text where it is a special token.
const LIST: &str = "[TOOL_CALLS]";

/// Tool call of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Name of the called tool.
    pub name: String,
    /// Arguments of the call: a JSON object, as the model has written it.
    pub arguments: String,
}

/// Piece of the model's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text outside calls, never empty.
    Text(String),
    /// Complete call of a tool.
    Call(Call),
}

/// Incremental reader that separates tool calls from text.
#[derive(Debug, Clone)]
pub struct CallReader {
    /// Names of the tools, the only ones allowed in the second form.
    names: Vec<String>,
    /// True while the whole text may still be in the second form.
    may_be_bare: bool,
    /// Text that has not been returned yet.
    held: String,
    /// True if only white space has followed the last call.
    is_behind_call: bool,
}

impl CallReader {
    /// Creates a reader for these tools. `tagged`: the template teaches the form with tags.
    pub(super) fn new(tools: &[Tool], tagged: bool) -> Self {
        let names = tools.iter().filter_map(|tool| tool.get("function")?["name"].as_str());
        let names = names.map(ToOwned::to_owned).collect();
        Self { names, may_be_bare: !tagged, held: String::new(), is_behind_call: false }
    }

    /// Returns true if calls stand between tags: before any text, the form that the template teaches.
    #[must_use]
    pub fn is_tagged(&self) -> bool {
        !self.may_be_bare
    }

    /// Adds text and returns the pieces that have become certain.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        self.held.push_str(text);
        let begin = self.held.trim_start();
        self.may_be_bare &= begin.is_empty() || begin.starts_with(['{', '[']);
        let mut pieces = Vec::new();
        if !self.may_be_bare {
            self.read(&mut pieces);
            let open = self.held.find(OPEN).unwrap_or_else(|| self.held.len() - overlap(&self.held, OPEN));
            let end = self.held[..open].trim_end().len();
            self.give(end, &mut pieces);
        }
        pieces
    }

    /// Ends the text and returns the remaining pieces.
    pub fn finish(&mut self) -> Vec<Piece> {
        if self.may_be_bare
            && let Some(calls) = self.bare()
        {
            self.held.clear();
            return calls.into_iter().map(Piece::Call).collect();
        }
        let mut pieces = Vec::new();
        self.read(&mut pieces);
        self.give(self.held.len(), &mut pieces);
        pieces
    }

    /// Takes complete calls and the text before them.
    fn read(&mut self, pieces: &mut Vec<Piece>) {
        while let Some(open) = self.held.find(OPEN) {
            let body = &self.held[open + OPEN.len()..];
            // The closing tag may also occur inside a string, but without it no call is complete.
            if !body.contains(CLOSE) {
                return;
            }
            match tagged(body) {
                Tagged::Call(call, length) => {
                    let before = self.held[..open].trim_end().len();
                    self.give(before, pieces);
                    self.held.drain(..open - before + OPEN.len() + length);
                    pieces.push(Piece::Call(call));
                    self.is_behind_call = true;
                }
                Tagged::Incomplete => return,
                // An opening tag without a call is ordinary text.
                Tagged::Malformed => self.give(open + OPEN.len(), pieces),
            }
        }
    }

    /// Returns the first `length` bytes of the held text as a piece.
    fn give(&mut self, length: usize, pieces: &mut Vec<Piece>) {
        let given: String = self.held.drain(..length).collect();
        let text = if self.is_behind_call { given.trim_start() } else { &given };
        if !text.is_empty() {
            self.is_behind_call = false;
            pieces.push(Piece::Text(text.to_owned()));
        }
    }

    /// Calls in the second form, if the whole text consists of them.
    fn bare(&self) -> Option<Vec<Call>> {
        let text = self.held.trim();
        let text = text.strip_prefix(LIST).unwrap_or(text);
        let calls = match from_str::<Vec<&RawValue>>(text) {
            Ok(calls) => calls.into_iter().map(call).collect::<Option<Vec<_>>>()?,
            Err(_) => vec![call(from_str(text).ok()?)?],
        };
        let is_known = |call: &Call| self.names.contains(&call.name);
        (!calls.is_empty() && calls.iter().all(is_known)).then_some(calls)
    }
}

/// Contents after an opening tag.
enum Tagged {
    /// Call and its length in bytes, closing tag included.
    Call(Call, usize),
    Incomplete,
    Malformed,
}

fn tagged(body: &str) -> Tagged {
    let mut values = Deserializer::from_str(body).into_iter::<&RawValue>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(error)) if error.is_eof() => return Tagged::Incomplete,
        _ => return Tagged::Malformed,
    };
    let rest = body[values.byte_offset()..].trim_start();
    match (call(value), rest.strip_prefix(CLOSE)) {
        (Some(call), Some(behind)) => Tagged::Call(call, body.len() - behind.len()),
        (Some(_), None) if CLOSE.starts_with(rest) => Tagged::Incomplete,
        _ => Tagged::Malformed,
    }
}

/// A call as models write it; all else in the object is passed over.
#[derive(Deserialize)]
struct Written<'t> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'t RawValue>,
    #[serde(borrow)]
    parameters: Option<&'t RawValue>,
}

/// Reads a call and keeps the numbers of its arguments as they are written, however long.
fn call(value: &RawValue) -> Option<Call> {
    let Written { name, arguments, parameters } = from_str(value.get()).ok()?;
    let arguments = arguments.or(parameters)?.get();
    (arguments.starts_with('{') && !name.is_empty()).then(|| Call { name, arguments: arguments.to_owned() })
}

/// Length of the longest suffix of `text` that is a proper prefix of `tag`. Tags are ASCII.
pub(super) fn overlap(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|&length| text.ends_with(&tag[..length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// Texts and calls in the order in which they were returned, the same wherever the text is cut.
    fn read(text: &str, tagged: bool) -> (Vec<String>, Vec<String>) {
        let tools = [json!({ "type": "function", "function": { "name": "f" } }).as_object().unwrap().clone()];
        let read = |pieces: &[&str]| {
            let mut reader = CallReader::new(&tools, tagged);
            let mut given: Vec<Piece> = pieces.iter().flat_map(|piece| reader.push(piece)).collect();
            given.extend(reader.finish());
            let (mut texts, mut calls) = (vec![String::new()], Vec::new());
            for piece in given {
                match piece {
                    Piece::Text(text) => texts.last_mut().unwrap().push_str(&text),
                    Piece::Call(Call { name, arguments }) => {
                        calls.push(format!("{name} {arguments}"));
                        texts.push(String::new());
                    }
                }
            }
            (texts, calls)
        };
        let whole = read(&[text]);
        let characters: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(read(&characters.iter().map(String::as_str).collect::<Vec<_>>()), whole, "{text}");
        for (cut, _) in text.char_indices() {
            assert_eq!(read(&[&text[..cut], &text[cut..]]), whole, "{text}");
        }
        whole
    }

    #[test]
    fn calls_between_tags_are_read_anywhere() {
        for tagged in [true, false] {
            let text = "Let me see. \n\n<tool_call>\n{\"name\": \"é\", \"arguments\": {\"b\": \"<x>\", \"a\": [1]}}\n</tool_call>\n\
                <tool_call>{\"arguments\":{},\"name\":\"f\"}</tool_call>  then ";
            let (texts, calls) = read(text, tagged);
            assert_eq!(texts, ["Let me see.", "", "then "]);
            assert_eq!(calls, ["é {\"b\": \"<x>\", \"a\": [1]}", "f {}"]);
            let in_a_string =
                "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call><tool_call>\"}}\n</tool_call>";
            assert_eq!(read(in_a_string, tagged).1, ["f {\"a\": \"</tool_call><tool_call>\"}"]);
        }
    }

    /// Numbers that no f64 holds, and a call that a grammar forced.
    #[test]
    fn arguments_are_given_as_they_are_written() {
        for arguments in ["{\"a\" : 3273344754703203124445}", "{\"a\": 2E27531744537, \"b\": 1.50}"] {
            let text = format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {arguments}}}\n</tool_call>");
            assert_eq!(read(&text, true).1, [format!("f {arguments}")]);
            let bare = format!("{{\"name\": \"f\", \"parameters\": {arguments}}}");
            assert_eq!(read(&bare, false).1, [format!("f {arguments}")]);
        }
    }

    #[test]
    fn what_is_no_call_stays_text() {
        for text in [
            "",
            " a \n",
            "a <tool",
            "<tool_call>",
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n",
            "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_cal",
            "<tool_call>{\"name\": \"f\", \"arguments\": \"{}\"}</tool_call>",
            "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call> \n",
            "<tool_call>{\"name\": \"f\"}</tool_call>\n\n<tool_call>f()</tool_call>",
            "<tool_call>{\"name\": \"f\", \"arguments\": {}} and</tool_call>",
            "<tool_call>{\"name\": \"f, \"arguments\": {}}</tool_call>",
            "{\"name\": \"g\", \"parameters\": {}}",
            "{\"name\": \"f\", \"parameters\": {}} or",
            "[]",
            "[TOOL_CALLS]",
            " [{\"name\": \"f\", \"arguments\": {}}, 1]",
            "{\"a\": 1}",
        ] {
            for tagged in [true, false] {
                assert_eq!(read(text, tagged), (vec![text.to_owned()], Vec::new()));
            }
        }
        let around =
            read("<tool_call>no <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call></tool_call>", true);
        assert_eq!(around, (vec!["<tool_call>no".to_owned(), "</tool_call>".to_owned()], vec!["f {}".to_owned()]));
    }

    #[test]
    fn a_text_of_nothing_but_calls_needs_no_tags() {
        let one = "\n{\"name\": \"f\", \"parameters\": {\"a\": {\"b\": null}}}";
        assert_eq!(read(one, false).1, ["f {\"a\": {\"b\": null}}"]);
        let object = "{\"name\": \"f\", \"arguments\": {}}";
        for list in [format!("[{object},{object}]"), format!("[TOOL_CALLS] [{object}, {object}] ")] {
            assert_eq!(read(&list, false), (vec![String::new(); 3], vec!["f {}".to_owned(); 2]));
            assert_eq!(read(&list, true), (vec![list], Vec::new()), "the template teaches another form");
        }
    }

    #[test]
    fn text_is_given_as_it_comes() {
        let mut reader = CallReader::new(&[], true);
        let text = |text: &str| vec![Piece::Text(text.to_owned())];
        assert_eq!(reader.push("I will "), text("I will"));
        assert_eq!(reader.push("a < b"), text(" a < b"));
        assert_eq!(reader.push(" <tool_"), []);
        assert_eq!(reader.push("box>"), text(" <tool_box>"));
        let mut other = CallReader::new(&[], false);
        assert_eq!(other.push("{\"a\""), []);
        assert_eq!(other.push("}"), []);
        assert_eq!(other.finish(), text("{\"a\"}"));
    }
}
