//! Grammars of answers: JSON, JSON of a schema, and tool calls, by llguidance.
//!
//! A grammar says which tokens the answer may go on with. At its end only the tokens that end a text are left.

use std::{
    sync::{Arc, OnceLock},
    thread,
};

use llguidance::{
    Matcher, ParserFactory,
    api::{ParserLimits, TopLevelGrammar},
    toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie},
};
use outrider_models::{CallReader, ReasoningReader, Tokenizer, Tool};
use serde_json::{Map, Value, json};

/// White space between the parts of JSON: a space, or a line break with indentation. A small model may otherwise write
/// nothing else until its limit.
const WHITE_SPACE: &str = r"( |\n[ \t]{0,20})?";

/// The most parts, objects and lists, of a schema.
const MOST_PARTS: usize = 10_000;
/// Stack of the thread that compiles a schema: llguidance follows references and parts by recursion, at most
/// [`MOST_PARTS`] deep, and a thread without room ends the process.
const STACK: usize = 512 << 20;
/// Largest number of a schema. Above it integers are no longer exact, and llguidance does not end for the least i64.
const LARGEST: f64 = 9_007_199_254_740_992.0;
/// Smallest number above 0 of a schema: llguidance nests a group for each decimal, and patterns have at most 250.
const SMALLEST: f64 = 1e-30;

/// Source of the grammars of one model; its table of tokens is made for the first of them.
#[derive(Clone, Default)]
pub struct Grammars(Arc<OnceLock<Option<ParserFactory>>>);

impl std::fmt::Debug for Grammars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Grammars").field(&self.0.get().is_some()).finish()
    }
}

/// Form that an answer has to have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Form {
    /// JSON that fits a schema.
    Json(Value),
    /// A call of one of these tools, with tags or without.
    Call { tools: Vec<Tool>, is_tagged: bool },
}

impl Form {
    /// Creates the form of a call as `calls` reads it; `tools` are those of a request.
    pub(crate) fn call(tools: Vec<Tool>, calls: &CallReader) -> Self {
        Self::Call { tools, is_tagged: calls.is_tagged() }
    }

    /// Grammar of this form, or of reasoning that a prompt has opened, its end, and then this form.
    ///
    /// # Errors
    /// If the schema cannot be kept to, or is too large.
    fn grammar(&self, after_reasoning: bool) -> Result<TopLevelGrammar, String> {
        let (mut schema, is_tagged) = match self {
            Self::Json(schema) => {
                let mut schema = schema.clone();
                check(&mut schema, Place::Schema, None, &mut 0)?;
                (schema, false)
            }
            Self::Call { tools, is_tagged } => (schema_of_calls(tools, *is_tagged)?, *is_tagged),
        };
        let options = json!({ "whitespace_pattern": WHITE_SPACE });
        match &mut schema {
            // A client's own options could make an answer that is no JSON.
            Value::Object(map) => drop(map.insert("x-guidance".to_owned(), options)),
            // `true` is any JSON.
            other => schema = json!({ "allOf": [other], "x-guidance": options }),
        }
        let answer = if is_tagged { r#""<tool_call>\n" json "\n</tool_call>""# } else { "json" };
        let end = ReasoningReader::END;
        let start = match (after_reasoning, is_tagged) {
            (false, false) => return Ok(TopLevelGrammar::from_json_schema(schema)),
            (false, true) => format!("start: {answer}\n"),
            (true, _) => format!("start: reasoning /\\n{{1,2}}/? {answer}\nreasoning[suffix={end:?}]: /(?s:.*)/\n"),
        };
        Ok(TopLevelGrammar::from_lark(format!("{start}json: %json {schema}\n")))
    }
}

/// Schema of a call of one of these tools, with the parameters of each in `$defs`.
fn schema_of_calls(tools: &[Tool], is_tagged: bool) -> Result<Value, String> {
    let arguments = if is_tagged { "arguments" } else { "parameters" };
    let (mut calls, mut definitions, mut parts) = (Vec::new(), Map::new(), 0);
    for (index, function) in tools.iter().filter_map(|tool| tool.get("function")).enumerate() {
        let place = format!("#/$defs/{index}");
        calls.push(json!({
            "type": "object",
            "properties": {
                "name": { "const": function["name"] },
                arguments: { "type": "object", "$ref": place },
            },
            "required": ["name", arguments],
            "additionalProperties": false,
        }));
        let parameters = function.get("parameters").filter(|schema| schema.is_object());
        let mut parameters = parameters.cloned().unwrap_or_else(|| json!({}));
        check(&mut parameters, Place::Schema, Some(&place), &mut parts)?;
        definitions.insert(index.to_string(), parameters);
    }
    Ok(json!({ "anyOf": calls, "$defs": definitions }))
}

impl Grammars {
    /// Compiles a form for answers of a model with `vocab_size` rows, which begin within reasoning if `after_reasoning`
    /// is true.
    ///
    /// # Errors
    /// The reason why an answer cannot have this form, for the client.
    pub(crate) fn compile(
        &self,
        form: &Form,
        after_reasoning: bool,
        tokenizer: &Tokenizer,
        vocab_size: u32,
        eos_ids: &[u32],
    ) -> Result<Grammar, String> {
        let grammar = form.grammar(after_reasoning)?;
        let factory = self.0.get_or_init(|| factory(tokenizer, vocab_size, eos_ids)).as_ref();
        let factory = factory.ok_or("the model has no token that ends a text")?;
        let compile = || {
            let mut matcher = Matcher::new(factory.create_parser(grammar));
            match matcher.get_error() {
                Some(error) => Err(reason(&error)),
                None => match matcher.compute_mask() {
                    Ok(_) => Ok(Grammar { matcher, read: Vec::new() }),
                    Err(error) => Err(reason(&error.to_string())),
                },
            }
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("grammar".to_owned()).stack_size(STACK);
            let compiled = thread.spawn_scoped(scope, compile).map(thread::ScopedJoinHandle::join);
            let compiled = compiled.map_err(|error| format!("no thread can be started: {error}"))?;
            compiled.unwrap_or_else(|_| Err("its schema cannot be compiled".to_owned()))
        })
    }
}

/// Grammar of one answer, and the tokens that it has read.
pub(crate) struct Grammar {
    matcher: Matcher,
    read: Vec<u32>,
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammar").field("read", &self.read).finish_non_exhaustive()
    }
}

impl Grammar {
    /// Copies the grammar for another answer of the same request.
    pub(crate) fn copy(&self) -> Self {
        Self { matcher: self.matcher.deep_clone(), read: self.read.clone() }
    }

    /// Sets the logits of tokens that cannot follow `answer` to −∞. Returns false, and changes nothing, after an answer
    /// that does not fit.
    ///
    /// # Errors
    /// If the grammar takes too much work.
    pub(crate) fn exclude(&mut self, answer: &[u32], logits: &mut [f32]) -> Result<bool, String> {
        let same = self.read.iter().zip(answer).take_while(|(read, id)| read == id).count();
        if same < self.read.len() {
            self.matcher.rollback(self.read.len() - same).map_err(|error| reason(&error.to_string()))?;
            self.read.truncate(same);
        }
        for &id in &answer[same..] {
            let fits = !self.matcher.is_stopped()
                && self.matcher.try_consume_tokens(&[id]).map_err(|error| reason(&error.to_string()))? == 1;
            if !fits {
                return Ok(false);
            }
            self.read.push(id);
        }
        let mask = self.matcher.compute_mask_or_eos().map_err(|error| reason(&error.to_string()))?;
        for (id, logit) in (0..).zip(logits) {
            if !mask.is_allowed(id) {
                *logit = f32::NEG_INFINITY;
            }
        }
        Ok(true)
    }
}

fn factory(tokenizer: &Tokenizer, vocab_size: u32, eos_ids: &[u32]) -> Option<ParserFactory> {
    let words: Vec<Vec<u8>> = (0..vocab_size)
        .map(|id| match (tokenizer.bytes_of(id), tokenizer.token(id)) {
            (Some(bytes), _) => bytes,
            (None, Some(special)) => [&[TokTrie::SPECIAL_TOKEN_MARKER], special.as_bytes()].concat(),
            (None, None) => Vec::new(),
        })
        .collect();
    let info = TokRxInfo::new(vocab_size, *eos_ids.first()?);
    let trie = TokTrie::from(&info, &words).with_eos_tokens(eos_ids);
    let tokens: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let mut factory = ParserFactory::new_simple(&tokens).ok()?;
    factory.quiet();
    // A schema of a stranger may take some ten milliseconds for each token, and ten megabytes.
    *factory.limits_mut() = ParserLimits {
        max_lexer_states: 5_000,
        step_lexer_fuel: 100_000,
        step_max_items: 20_000,
        max_grammar_size: 50_000,
        verbose_errors: false,
        ..Default::default()
    };
    Some(factory)
}

/// Meaning of a value within a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A schema, or a list of them.
    Schema,
    /// Schemas by their names.
    Names,
    /// A value that JSON may have, or a part of one.
    Literal,
}

/// Refuses numbers that are not exact and schemas of too many parts; `parts` counts them. Removes what explains values,
/// which may have any numbers and is not part of the grammar: nothing is compiled that was not checked. References
/// within the schema become those to its place `base` in another one, if given.
fn check(value: &mut Value, place: Place, mut base: Option<&str>, parts: &mut usize) -> Result<(), String> {
    *parts += usize::from(value.is_object() || value.is_array());
    if *parts > MOST_PARTS {
        return Err(format!("its schema has more than {MOST_PARTS} parts"));
    }
    match value {
        Value::Number(number) if number.as_f64().is_none_or(|number| number.abs() >= LARGEST) => {
            Err(format!("numbers in schemas must be between −2⁵³ and 2⁵³, and {number} is not"))
        }
        Value::Number(number) if number.as_f64().is_some_and(|number| number != 0.0 && number.abs() < SMALLEST) => {
            Err(format!("numbers in schemas must be 0 or at least {SMALLEST:e}, and {number} is not"))
        }
        Value::Array(values) => values.iter_mut().try_for_each(|value| check(value, place, base, parts)),
        Value::Object(fields) => {
            if place == Place::Schema {
                fields.retain(|name, _| !matches!(name.as_str(), "default" | "examples"));
                // References are within the nearest schema that has an address.
                base = base.filter(|_| !fields.get("$id").is_some_and(Value::is_string));
                if let Some(Value::String(reference)) = fields.get_mut("$ref") {
                    if let Some(base) = base.filter(|_| reference == "#" || reference.starts_with("#/")) {
                        reference.replace_range(..1, base);
                    }
                    *reference = as_uri(reference);
                }
            }
            fields.iter_mut().try_for_each(|(name, value)| {
                let place = match (place, name.as_str()) {
                    (Place::Schema, "const" | "enum") | (Place::Literal, _) => Place::Literal,
                    (Place::Schema, "properties" | "patternProperties" | "$defs" | "definitions") => Place::Names,
                    (Place::Schema, "dependentSchemas" | "dependencies") => Place::Names,
                    (Place::Schema | Place::Names, _) => Place::Schema,
                };
                check(value, place, base, parts)
            })
        }
        _ => Ok(()),
    }
}

/// Writes what a URI cannot have in per cent, as in references to definitions with names of any language.
fn as_uri(reference: &str) -> String {
    let is_of_uris = |byte: u8| byte.is_ascii_graphic() && !br#""<>\^`{|}"#.contains(&byte);
    let escaped = |byte: u8| if is_of_uris(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    reference.bytes().map(escaped).collect()
}

/// The reason in an error of llguidance, without the place in a pattern that it draws.
fn reason(text: &str) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    if first.contains("NoExtensionBias") {
        return "its schema has references that lead back to themselves and to nothing else".to_owned();
    }
    match lines.find_map(|line| line.trim().strip_prefix("error: ")) {
        Some(error) => format!("{first} {error}"),
        None => first,
    }
}

#[cfg(test)]
mod tests;
