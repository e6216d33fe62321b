//! `outrider generate --chat`: a conversation, message by message.

use std::{
    fs,
    io::{self, IsTerminal},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use outrider_models::{ChatTemplate, Conversation, Message, Model, TextStream, Tokenizer, Tool};
use outrider_speculation::session::edge::Settings;

use crate::{
    cli::output::{CommandError, print},
    edge::NativeEdge,
};

/// How a conversation begins.
pub(super) struct Opening {
    /// What makes prompts of it.
    pub(super) template: ChatTemplate,
    /// What it is to be like.
    pub(super) system: Option<String>,
    /// What the model is told that it may call.
    pub(super) tools: Vec<Tool>,
    /// What is said first.
    pub(super) said: Option<String>,
}

/// The tools that a file lists.
pub(super) fn tools(file: &Path) -> Result<Vec<Tool>, CommandError> {
    let wrong = |error: &dyn std::fmt::Display| format!("--tools {}: {error}", file.display());
    let json = fs::read(file).map_err(|error| wrong(&error))?;
    Ok(serde_json::from_slice(&json).map_err(|error| wrong(&error))?)
}

/// Answers what is said first, then every line of standard input, until it ends. Both ends keep what they have read: an
/// answer takes reading what is new.
pub(super) async fn converse(
    opening: Opening,
    edge: &mut NativeEdge<'_>,
    (draft, tokenizer): (&Model, &Tokenizer),
    settings: &Settings,
) -> Result<(), CommandError> {
    let Opening { template, system, tools, mut said } = opening;
    let messages = system.iter().map(|text| Message::new("system", text)).collect();
    let mut conversation = Conversation { messages, tools };
    loop {
        let Some(text) = said.take().map_or_else(ask, |text| Ok(Some(text)))? else { return Ok(()) };
        if text.trim().is_empty() {
            continue;
        }
        conversation.messages.push(Message::new("user", &text));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64);
        let prompt = template.encode(tokenizer, draft.config().first_token(), &conversation, now)?;
        let (mut stream, mut answer) = (TextStream::after(tokenizer, &prompt), String::new());
        let mut write = |piece: &str| {
            print(piece);
            answer.push_str(piece);
        };
        let generated = edge.generate(prompt, settings, |committed| {
            committed.tokens.iter().for_each(|&(id, _)| write(&stream.push(tokenizer, id)));
        });
        let report = generated.await?.statistics.report();
        write(&stream.finish());
        print(&format!("\n[{} tokens, {:.1} tokens/s]\n", report.tokens, report.tokens_per_second));
        conversation.messages.push(Message::new("assistant", answer.trim()));
    }
}

/// The next line, if there is one.
fn ask() -> io::Result<Option<String>> {
    let input = io::stdin();
    if input.is_terminal() {
        print("> ");
    }
    let mut line = String::new();
    Ok((input.read_line(&mut line)? > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned()))
}
