//! Command `outrider generate`, a native edge.

mod beside;
mod chat;
mod sampling;

use std::{num::ParseIntError, path::PathBuf, sync::Arc};

use clap::Args;
use outrider_models::{ChatTemplate, HeadsFile, Model, ModelConfig, TemplateVariables, TextStream, Tokenizer};
use outrider_speculation::{
    control::stop::StopRule,
    draft::{Confidence, Gate, Passages},
    session::{
        edge::{Mode, Settings, Speculation},
        options::{
            SchemeChoice,
            numbers::{MAX_NEW_TOKENS, SEED},
        },
    },
    study::{Report, RoundRecord},
};
use serde::Serialize;

use self::sampling::SamplingArgs;
use super::{
    drafting::DraftingArgs,
    explain::ExplainArgs,
    output::{CommandError, print, print_while_read},
};
use crate::{
    edge::{Generated, NativeEdge, Retry, Transport},
    pair::{self, Ends, PairPaths},
    target::engine::Engine,
};

/// Generate text, drafting natively for a server
#[derive(Debug, Args)]
pub struct Generate {
    /// Text to continue; with --chat the first message
    #[arg(required_unless_present_any = ["chat", "prompts"])]
    prompt: Option<String>,
    /// File of prompts, one per line; each is continued with the same settings, one after the other
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "chat"])]
    prompts: Option<PathBuf>,
    /// Chat: answer the prompt, then each line of standard input
    ///
    /// The model's chat template turns the conversation into prompts. Both ends keep the tokens that they have read,
    /// and read only new ones. Special tokens in a message stay text.
    #[arg(long, conflicts_with = "json")]
    chat: bool,
    /// System message, which comes before all others
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    /// Jinja template that turns a conversation into a prompt; the model's own if not given, or else a plain form
    #[arg(long, value_name = "PATH", requires = "chat")]
    chat_template: Option<PathBuf>,
    /// JSON file with a list of functions for the model to call, in the form of `tools` in OpenAI's API
    ///
    /// Calls are printed as the model writes them; no function is called.
    #[arg(long, value_name = "FILE", requires = "chat")]
    tools: Option<PathBuf>,
    /// JSON object of further variables for the chat template, such as '{"enable_thinking": false}'
    #[arg(long, value_name = "JSON", requires = "chat", value_parser = chat::variables)]
    chat_template_kwargs: Option<TemplateVariables>,
    /// URL of the server to draft for; ?model=NAME at its end selects one of several models
    #[arg(long, value_name = "URL", default_value = "ws://127.0.0.1:8787/session", conflicts_with = "local",
        value_parser = session_url)]
    server: String,
    /// Bearer token, if the server requires one
    #[arg(long, env = "OUTRIDER_TOKEN", hide_env_values = true, conflicts_with = "local")]
    token: Option<String>,
    /// Run both ends in this process, without a server
    #[arg(long)]
    local: bool,
    /// Text file of which guesses are taken where the text continues as it does; repeat it for more
    ///
    /// For the schemes that guess, `ahead` and `auto`; the text stays the same. The server sees nothing of a file but
    /// guesses, and those after four of its tokens at the earliest.
    #[arg(long, value_name = "FILE", conflicts_with = "cloud_only")]
    context: Vec<PathBuf>,
    /// Let the target generate alone, for comparison
    #[arg(long)]
    cloud_only: bool,
    #[command(flatten)]
    explain: ExplainArgs,
    #[command(flatten)]
    pair: PairPaths,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print one JSON object: token ids, text, settings, statistics, a record per round and what --explain compares
    #[arg(long)]
    json: bool,
}

/// Parses a seed of 64 bits; negative ones count back from 2⁶⁴, as in the API.
fn seed(text: &str) -> Result<u64, String> {
    text.parse()
        .or_else(|error: ParseIntError| text.parse::<i64>().map(i64::cast_unsigned).map_err(|_| error.to_string()))
}

#[derive(Debug, Args, Serialize)]
#[serde(rename_all = "camelCase")]
struct SettingsArgs {
    #[arg(long, value_name = "COUNT", help = MAX_NEW_TOKENS.explanation, default_value_t = MAX_NEW_TOKENS.default as u32)]
    max_tokens: u32,
    #[command(flatten)]
    #[serde(flatten)]
    sampling: SamplingArgs,
    #[arg(long, help = SEED.explanation, default_value_t = SEED.default as u64)]
    #[arg(allow_negative_numbers = true, value_parser = seed)]
    seed: u64,
    #[command(flatten)]
    #[serde(flatten)]
    drafting: DraftingArgs,
}

/// JSON object that `--json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    mode: &'static str,
    prompt: &'a str,
    prompt_token_ids: &'a [u32],
    token_ids: &'a [u32],
    text: &'a str,
    finish: &'static str,
    settings: &'a SettingsArgs,
    statistics: &'a Report,
    rounds: &'a [RoundRecord],
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<serde_json::Value>,
}

impl Generate {
    pub(super) async fn run(mut self) -> Result<(), CommandError> {
        outrider_models::check_instruction_set()?;
        let mut settings = self.settings.settings(self.cloud_only, self.explain.is_wanted())?;
        let tools = self.tools.as_deref().map(chat::tools).transpose()?.unwrap_or_default();
        self.pair.fetch().await?;
        let (tokenizer, _) = self.pair.tokenizer_for(if self.local { Ends::Both } else { Ends::Draft })?;
        let draft = self.pair.draft_with(&tokenizer)?;
        let mut info = pair::draft_info(&draft, &tokenizer)?;
        let heads = self.pair.heads(&draft, &tokenizer)?;
        info.heads = heads.as_ref().map(pair::heads).transpose()?;
        let (mut edge, template) = if self.local {
            let target = self.pair.target_with(&tokenizer)?;
            let template = self.chat.then(|| self.template(target.config(), &tokenizer)).transpose()?;
            let transport = self.local(target, &tokenizer)?;
            (NativeEdge::greet(&draft, info, transport).await?, template)
        } else {
            let token = self.token.as_deref();
            let edge = NativeEdge::connect(&draft, info, &self.server, token, Retry::default()).await?;
            let template = if self.chat { Some(self.servers_template(&draft, &tokenizer).await?) } else { None };
            self.settings.sampling.learn_from(&self.server, token).await;
            (edge, template)
        };
        settings.sampling = self.settings.sampling.complete();
        edge.set_passages(Arc::new(passages(&self.context, &tokenizer)?));
        if let Some(template) = template {
            let variables = self.chat_template_kwargs.unwrap_or_default();
            let opening = chat::Opening { template, system: self.system, tools, variables, said: self.prompt };
            chat::converse(opening, &mut edge, &tokenizer, &settings).await?;
            edge.close().await;
            return Ok(());
        }
        let mut prompts = self.prompt.clone().into_iter().collect::<Vec<_>>();
        if let Some(path) = &self.prompts {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("the prompts in {} cannot be read: {error}", path.display()))?;
            // Some editors begin a file with a byte order mark.
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
            prompts.extend(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
            if prompts.is_empty() {
                return Err(format!("{} has no prompts; write one per line", path.display()).into());
            }
        }
        for prompt in &prompts {
            self.write(prompt, &mut edge, (&draft, &tokenizer, heads.as_ref()), &settings).await?;
        }
        edge.close().await;
        Ok(())
    }

    /// Continues one prompt and prints the text with its statistics.
    async fn write(
        &self,
        said: &str,
        edge: &mut NativeEdge<'_>,
        (draft, tokenizer, heads): (&Model, &Tokenizer, Option<&HeadsFile>),
        settings: &Settings,
    ) -> Result<(), CommandError> {
        let prompt = tokenizer.encode_prompt(draft.config().first_token(), said)?;
        let (mut stream, mut text) = (TextStream::after(tokenizer, &prompt), String::new());
        let (mut token_ids, mut rounds) = (Vec::new(), Vec::new());
        let generated = edge
            .generate(prompt.clone(), settings, |committed| {
                for &(id, _) in &committed.tokens {
                    let piece = stream.push(tokenizer, id);
                    self.show(&piece);
                    text.push_str(&piece);
                    token_ids.push(id);
                }
                rounds.extend(committed.round.clone());
            })
            .await?;
        let rest = stream.finish();
        self.show(&rest);
        text.push_str(&rest);
        let explained = if self.explain.is_wanted() {
            let alone = Settings { mode: Mode::CloudOnly, ..settings.clone() };
            let alone = edge.generate(prompt.clone(), &alone, |_| {}).await?.statistics;
            ExplainArgs::explained(&settings.mode, heads, &generated.statistics, &rounds, &alone)?
        } else {
            None
        };
        let report = generated.statistics.report();
        if self.json {
            let output = Output {
                mode: match rounds_of(&settings.mode, &report) {
                    _ if self.cloud_only => "cloud-only",
                    Some(_) => "speculative",
                    None => "ahead",
                },
                prompt: said,
                prompt_token_ids: &prompt,
                token_ids: &token_ids,
                text: &text,
                finish: generated.end.name(),
                settings: &self.settings,
                statistics: &report,
                rounds: &rounds,
                explained: explained.map(|explained| explained.json),
            };
            print(&format!("{}\n", serde_json::to_string(&output)?));
        } else {
            print(&format!("\n\n{}", summary(&settings.mode, &generated, &report)));
            if let Some(explained) = explained {
                print(&format!("\n{}", explained.text));
            }
        }
        Ok(())
    }

    /// The chat template that was given, or else a model's own.
    fn template(&self, config: &ModelConfig, tokenizer: &Tokenizer) -> Result<ChatTemplate, CommandError> {
        let model = self.pair.target.as_deref().or(self.pair.draft.as_deref());
        Ok(crate::chat::find(self.chat_template.as_deref(), model, config, tokenizer)?)
    }

    /// The chat template that was given, or else the server's: the conversation is its target's.
    async fn servers_template(&self, draft: &Model, tokenizer: &Tokenizer) -> Result<ChatTemplate, CommandError> {
        let own = match self.chat_template {
            None => beside::fetch(&self.server, "pair/chat.json", self.token.as_deref()).await,
            Some(_) => None,
        };
        let own = own.and_then(|json| ChatTemplate::from_json(&json).ok());
        own.map_or_else(|| self.template(draft.config(), tokenizer), Ok)
    }

    fn local(&mut self, target: Model, tokenizer: &Tokenizer) -> Result<Transport, CommandError> {
        self.settings.sampling.follow(&target.config().sampling);
        let info = pair::target_info(&target, tokenizer, outrider_codec::frame::MAX_DRAFT_TOKENS)?;
        let engine = Engine::start(target, 1)?;
        Transport::local(&engine, info).ok_or_else(|| "the engine has no free slot".into())
    }

    /// Prints a piece of text as it comes, unless JSON was requested.
    fn show(&self, piece: &str) {
        if !self.json {
            print_while_read(piece);
        }
    }
}

/// Reads the address of a server: that of its sessions, or that of its page.
fn session_url(text: &str) -> Result<String, String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("ws", text));
    let scheme = match scheme {
        "ws" | "http" => "ws",
        "wss" | "https" => "wss",
        _ => return Err(format!("{scheme} is not among the schemes ws, wss, http and https")),
    };
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let place = place.trim_end_matches('/');
    let path = if place.contains('/') { "" } else { "/session" };
    Ok(format!("{scheme}://{place}{path}{}", query.map(|query| format!("?{query}")).unwrap_or_default()))
}

/// Reads files of passages. Each is named by its path.
fn passages(files: &[PathBuf], tokenizer: &Tokenizer) -> Result<Passages, CommandError> {
    let mut passages = Passages::default();
    for path in files {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("the context {} cannot be read: {error}", path.display()))?;
        passages.add(&path.to_string_lossy(), tokenizer.encode(&text)?);
    }
    Ok(passages)
}

impl SettingsArgs {
    fn settings(&self, cloud_only: bool, explain: bool) -> Result<Settings, CommandError> {
        let speculation = Speculation { explain, ..self.drafting.0.speculation()? };
        let Speculation { rule, gate, stop, adaptive_mode, max_in_flight, .. } = &speculation;
        let changes_text = rule.info().lossy || *gate != Gate::Never;
        let of_rounds = [
            (changes_text, "gates and lossy rules need"),
            (*adaptive_mode, "--adaptive-mode needs"),
            (*max_in_flight > 1, "--max-in-flight needs"),
            (*stop != StopRule::Fixed, "--stop-rule needs"),
        ];
        if !cloud_only
            && self.drafting.0.scheme == SchemeChoice::Ahead
            && let Some((_, needs)) = of_rounds.into_iter().find(|(is_set, _)| *is_set)
        {
            return Err(format!("--scheme ahead has no rounds, which {needs}").into());
        }
        if cloud_only && changes_text {
            return Err("--cloud-only has no drafts, which gates and lossy rules judge".into());
        }
        let mode = if cloud_only { Mode::CloudOnly } else { self.drafting.0.mode(speculation) };
        Ok(Settings { mode, sampling: self.sampling.parameters(), seed: self.seed, max_new_tokens: self.max_tokens })
    }
}

fn summary(mode: &Mode, generated: &Generated, report: &Report) -> String {
    let mut lines = vec![
        ("tokens", format!("{} ({})", report.tokens, generated.end.name())),
        ("tokens/s", format!("{:.1}", report.tokens_per_second)),
        ("server passes per token", format!("{:.3}", report.server_passes_per_token)),
    ];
    if let Some(speculation) = rounds_of(mode, report) {
        lines.extend(departures(speculation, report));
    }
    if report.judged > 0 {
        let accepted = format!(
            "{:.3} ({} of {} judged, {} drafted)",
            report.acceptance_rate, report.accepted, report.judged, report.drafted
        );
        lines.extend([
            ("acceptance rate", accepted),
            ("uplink bits per drafted token", format!("{:.1}", report.uplink_bits_per_drafted_token)),
            ("of these, payload", format!("{:.1}", report.payload_bits_per_drafted_token)),
        ]);
    }
    if report.wasted > 0 {
        lines.push(("wasted", format!("{} (behind a rejection, never verified)", report.wasted)));
    }
    if report.drafted == 0 && report.rounds > 0 && !declines(mode) {
        lines.push(("drafted", "nothing: no token fits into the bit budget (--bit-budget 0 lifts it)".to_owned()));
    }
    if let Some(mean) = report.mean_dropped_mass {
        let bound = report.dropped_mass_bound.map(|bound| format!(" (Theorem 2 bounds it by {bound:.3})"));
        lines.push(("mean dropped mass", format!("{mean:.6}{}", bound.unwrap_or_default())));
    }
    if let Some(bytes) = report.downlink_bytes_per_rejection {
        let follow_ups = format!("{:.0} ({} of {} asked on)", bytes, report.follow_ups, report.resampled);
        lines.push(("downlink bytes per rejection", follow_ups));
    }
    lines.extend([
        ("uplink bits per token", format!("{:.1}", report.uplink_bits_per_token)),
        ("downlink bits per token", format!("{:.1}", report.downlink_bits_per_token)),
        ("first token", format!("{:.0} ms", report.first_token_ms)),
    ]);
    lines.iter().map(|(name, value)| format!("{name:<30} {value}\n")).collect()
}

/// Parameters of drafting in rounds, if the edge did so. For `auto` the report shows whether it did.
fn rounds_of<'a>(mode: &'a Mode, report: &Report) -> Option<&'a Speculation> {
    match mode {
        Mode::Speculative(speculation) => Some(speculation),
        Mode::Auto(speculation) if report.rounds + report.passed + report.streamed > 0 => Some(speculation),
        _ => None,
    }
}

/// Returns true if rounds may be empty because the edge leaves them to the target.
fn declines(mode: &Mode) -> bool {
    let (Mode::Speculative(speculation) | Mode::Auto(speculation)) = mode else { return false };
    let is_cascade = matches!(speculation.gate, Gate::TokenCascade { .. } | Gate::SequenceCascade { .. });
    is_cascade || matches!(speculation.stop, StopRule::Bild { .. })
}

/// Lines about rule, gate, unverified tokens and varying draft lengths.
fn departures(speculation: &Speculation, report: &Report) -> Vec<(&'static str, String)> {
    let unknown = || "not known yet".to_owned();
    let mut lines = Vec::new();
    let info = speculation.rule.info();
    let parameter = info.symbol.map(|symbol| format!(", {symbol} = {}", speculation.rule.parameter() as f32));
    let lossy = if info.lossy { " (lossy)" } else { "" };
    lines.push(("acceptance rule", format!("{}{}{lossy}", info.name, parameter.unwrap_or_default())));
    match speculation.gate {
        Gate::Never => {}
        Gate::Sprinter { .. } => lines.push(("gate", "sprinter (lossy)".to_owned())),
        Gate::TokenCascade { alpha } => lines.push(("gate", format!("token-cascade, α = {alpha} (lossy)"))),
        Gate::SequenceCascade { alpha, confidence } => {
            let name = match confidence {
                Confidence::Mean => "sequence-cascade",
                Confidence::Product => "sequence-product",
            };
            lines.push(("gate", format!("{name}, α = {alpha} (lossy)")));
        }
    }
    if report.passed > 0 {
        lines.push(("passed without verification", format!("{} (lossy)", report.passed)));
    }
    if report.streamed > 0 {
        lines.push(("written by the target alone", report.streamed.to_string()));
    }
    if speculation.adaptive_mode || speculation.stop == StopRule::Odld {
        let length = report.optimal_draft_length.map_or_else(unknown, |length| length.to_string());
        lines.push(("best draft length (gamma*)", length));
    }
    if speculation.adaptive_mode {
        let speedup = report.predicted_speedup.map_or_else(unknown, |speedup| format!("{speedup:.2}"));
        lines.push(("speed-up, as estimated", speedup));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_by_the_address_of_its_page() {
        let url = |text| session_url(text).unwrap();
        for text in ["127.0.0.1:9100", "http://127.0.0.1:9100", "ws://127.0.0.1:9100/", "ws://127.0.0.1:9100/session"] {
            assert_eq!(url(text), "ws://127.0.0.1:9100/session");
        }
        assert_eq!(url("https://a.example/?model=b"), "wss://a.example/session?model=b");
        assert_eq!(url("wss://a.example/proxy/session"), "wss://a.example/proxy/session");
        assert!(session_url("ftp://a").is_err());
    }
}
