//! Grammars of answers: JSON, JSON of a schema, and tool calls, by llguidance.
//!
//! A grammar says which tokens the answer may go on with. At its end only the tokens that end a text are left.

use std::{
    sync::{Arc, OnceLock},
    thread,
};

use llguidance::{
    Matcher, ParserFactory,
    api::{GrammarWithLexer, ParserLimits, TopLevelGrammar},
    toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie},
};
use outrider_models::{CallReader, Tokenizer, Tool};
use serde_json::{Value, json};

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

    /// Refuses schemas that cannot be kept to, or are too large.
    fn check(&self) -> Result<(), String> {
        let mut parts = 0;
        match self {
            Self::Json(schema) => check(schema, &mut parts),
            Self::Call { tools, .. } => {
                let mut schemas = tools.iter().filter_map(|tool| tool.get("function")?.get("parameters"));
                schemas.try_for_each(|schema| check(schema, &mut parts))
            }
        }
    }

    fn grammar(&self) -> TopLevelGrammar {
        let guided = |mut schema: Value| {
            let options = json!({ "whitespace_pattern": WHITE_SPACE });
            match &mut schema {
                Value::Object(map) if !map.contains_key("x-guidance") => {
                    map.insert("x-guidance".to_owned(), options);
                    schema
                }
                Value::Object(_) => schema,
                // `true` is any JSON.
                other => json!({ "allOf": [other], "x-guidance": options }),
            }
        };
        match self {
            Self::Json(schema) => TopLevelGrammar::from_json_schema(guided(schema.clone())),
            Self::Call { tools, is_tagged } => {
                let arguments = if *is_tagged { "arguments" } else { "parameters" };
                let calls = tools.iter().filter_map(|tool| {
                    let function = tool.get("function")?;
                    let parameters = function.get("parameters").filter(|schema| schema.is_object());
                    Some(json!({
                        "type": "object",
                        "properties": {
                            "name": { "const": function["name"] },
                            arguments: parameters.cloned().unwrap_or_else(|| json!({ "type": "object" })),
                        },
                        "required": ["name", arguments],
                        "additionalProperties": false,
                    }))
                });
                let schema = guided(json!({ "anyOf": calls.collect::<Vec<_>>() }));
                if *is_tagged {
                    let lark = format!("start: \"<tool_call>\\n\" call \"\\n</tool_call>\"\ncall: %json {schema}\n");
                    TopLevelGrammar::from_grammar(GrammarWithLexer::from_lark(lark))
                } else {
                    TopLevelGrammar::from_json_schema(schema)
                }
            }
        }
    }
}

impl Grammars {
    /// Compiles a form for answers of a model with `vocab_size` rows.
    ///
    /// # Errors
    /// The reason why an answer cannot have this form, for the client.
    pub(crate) fn compile(
        &self,
        form: &Form,
        tokenizer: &Tokenizer,
        vocab_size: u32,
        eos_ids: &[u32],
    ) -> Result<Grammar, String> {
        form.check()?;
        let factory = self.0.get_or_init(|| factory(tokenizer, vocab_size, eos_ids)).as_ref();
        let factory = factory.ok_or("the model has no token that ends a text")?;
        let compile = || {
            let mut matcher = Matcher::new(factory.create_parser(form.grammar()));
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

/// Refuses numbers that are not exact and schemas of too many parts; `parts` counts them.
fn check(schema: &Value, parts: &mut usize) -> Result<(), String> {
    *parts += usize::from(schema.is_object() || schema.is_array());
    if *parts > MOST_PARTS {
        return Err(format!("its schema has more than {MOST_PARTS} parts"));
    }
    match schema {
        Value::Number(number) if number.as_f64().is_none_or(|number| number.abs() >= LARGEST) => {
            Err(format!("numbers in schemas must be between −2⁵³ and 2⁵³, and {number} is not"))
        }
        Value::Array(values) => values.iter().try_for_each(|value| check(value, parts)),
        Value::Object(fields) => {
            // What explains a value is not part of the grammar.
            let mut grammar = fields.iter().filter(|(name, _)| !matches!(name.as_str(), "default" | "examples"));
            grammar.try_for_each(|(_, value)| check(value, parts))
        }
        _ => Ok(()),
    }
}

/// The reason in an error of llguidance, without the place in a pattern that it draws.
fn reason(text: &str) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    match lines.find_map(|line| line.trim().strip_prefix("error: ")) {
        Some(error) => format!("{first} {error}"),
        None => first,
    }
}
