//! Conversation of `outrider generate --chat`, message by message.

use std::{
    fs,
    io::{self, IsTerminal},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use outrider_models::{ChatTemplate, Conversation, Message, TemplateVariables, TextStream, Tokenizer, Tool};
use outrider_speculation::session::edge::Settings;

use crate::{
    cli::output::{CommandError, print, print_while_read},
    edge::NativeEdge,
};

/// Beginning of a conversation.
pub(super) struct Opening {
    /// Template that turns the conversation into prompts.
    pub(super) template: ChatTemplate,
    /// System message before all others.
    pub(super) system: Option<String>,
    /// Tools that the model may call.
    pub(super) tools: Vec<Tool>,
    /// Further variables of the template.
    pub(super) variables: TemplateVariables,
    /// First message of the user.
    pub(super) said: Option<String>,
}

/// Reads the tools that a file lists.
pub(super) fn tools(file: &Path) -> Result<Vec<Tool>, CommandError> {
    let wrong = |error: &dyn std::fmt::Display| format!("--tools {}: {error}", file.display());
    let json = fs::read(file).map_err(|error| wrong(&error))?;
    Ok(serde_json::from_slice(&json).map_err(|error| wrong(&error))?)
}

/// Parses further variables of the template from a JSON object.
pub(super) fn variables(json: &str) -> Result<TemplateVariables, String> {
    serde_json::from_str(json).map_err(|error| format!("it must be a JSON object: {error}"))
}

/// Answers the first message, then every line of standard input until its end. Both ends keep the tokens they have
/// read, so each answer reads only new ones.
pub(super) async fn converse(
    opening: Opening,
    edge: &mut NativeEdge<'_>,
    tokenizer: &Tokenizer,
    settings: &Settings,
) -> Result<(), CommandError> {
    let Opening { template, system, tools, variables, mut said } = opening;
    let messages = system.iter().map(|text| Message::new("system", text)).collect();
    let mut conversation = Conversation { messages, tools, variables, continues: false };
    loop {
        let Some(text) = said.take().map_or_else(ask, |text| Ok(Some(text)))? else { return Ok(()) };
        if text.trim().is_empty() {
            continue;
        }
        conversation.messages.push(Message::new("user", &text));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64);
        let prompt = template.encode(tokenizer, template.source().first_token, &conversation, now)?;
        let (mut stream, mut answer) = (TextStream::after(tokenizer, &prompt), String::new());
        let mut write = |piece: &str| {
            print_while_read(piece);
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

/// Reads the next line, if there is one.
fn ask() -> io::Result<Option<String>> {
    let input = io::stdin();
    if input.is_terminal() {
        print("> ");
    }
    let mut line = String::new();
    Ok((input.read_line(&mut line)? > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned()))
}
