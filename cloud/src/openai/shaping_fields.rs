//! Parameters that change the target's logits, in a request or in the options of a session's Shape.

use std::sync::{Arc, OnceLock};

use outrider_speculation::session::cloud::{Shaping, ShapingOptions, TargetInfo};
use serde_json::{Value, json};

use super::{
    conversation,
    fields::{Fields, wrong},
};
use crate::{
    http::{ApiError, Served},
    session::Shaper,
    shaping::{
        AnswerShaping, Penalties,
        grammar::{Form, Grammar},
    },
};

/// Parameters that change the target's logits.
pub(super) struct ShapingFields {
    pub(super) penalties: Penalties,
    /// Form of the text; `None` for any.
    pub(super) form: Option<Form>,
}

impl ShapingFields {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, ApiError> {
        let penalties = Penalties {
            bias: bias(fields.take("logit_bias"))?,
            frequency: fields.number("frequency_penalty", -2.0..=2.0)?.unwrap_or(0.0) as f32,
            presence: fields.number("presence_penalty", -2.0..=2.0)?.unwrap_or(0.0) as f32,
            repetition: fields.number("repetition_penalty", 0.01..=100.0)?.unwrap_or(1.0) as f32,
            min_p: fields.number("min_p", 0.0..=1.0)?.unwrap_or(0.0) as f32,
        };
        Ok(Self { penalties, form: form(fields.take("response_format"))? })
    }
}

/// Creates the function that makes changes of logits for sessions of a model.
pub(crate) fn shaper(served: &Served) -> Shaper {
    let served = served.clone();
    Arc::new(move |options| make(&served, options).map_err(|error| error.message().to_owned()))
}

fn make(served: &Served, options: &ShapingOptions) -> Result<Arc<dyn Shaping>, ApiError> {
    let mut fields = Fields::parse(options.options.as_bytes())?;
    let forced = conversation::forced(&mut fields)?;
    let ShapingFields { penalties, form } = ShapingFields::read(&mut fields)?;
    fields.finish()?;
    check(&penalties, &served.target)?;
    let call = (!forced.is_empty()).then(|| Form::call(forced.clone(), &served.template.call_reader(&forced)));
    let form = call.or(form);
    let shaping = |after_reasoning| -> Result<AnswerShaping, ApiError> {
        let grammar = grammar(served, form.as_ref(), after_reasoning)?;
        Ok(AnswerShaping::new(penalties.clone(), options.temperature, options.prompt, grammar))
    };
    let at_once = shaping(false)?;
    if form.is_none() || served.template.reasoning_reader(&served.tokenizer, &[]).is_none() {
        return Ok(Arc::new(at_once));
    }
    let after_reasoning = shaping(true)?;
    Ok(Arc::new(FormShaping {
        served: served.clone(),
        prompt: options.prompt,
        at_once,
        after_reasoning,
        is_open: OnceLock::new(),
    }))
}

/// Change of a session's logits by a form, whose place the prompt determines: the session has it when it writes.
#[derive(Debug)]
struct FormShaping {
    served: Served,
    /// Number of tokens of the prompt.
    prompt: usize,
    at_once: AnswerShaping,
    after_reasoning: AnswerShaping,
    /// True if the prompt has opened reasoning; known from the first token on.
    is_open: OnceLock<bool>,
}

impl Shaping for FormShaping {
    fn shape(&self, text: &[u32], logits: &mut [f32]) -> Result<bool, String> {
        let is_open = self.is_open.get_or_init(|| {
            let prompt = text.get(..self.prompt).unwrap_or(text);
            let reader = self.served.template.reasoning_reader(&self.served.tokenizer, prompt);
            reader.is_some_and(|reader| reader.is_open())
        });
        if *is_open { &self.after_reasoning } else { &self.at_once }.shape(text, logits)
    }
}

/// Refuses biases of tokens that the target does not have.
pub(super) fn check(penalties: &Penalties, TargetInfo { vocab_size, .. }: &TargetInfo) -> Result<(), ApiError> {
    if penalties.bias.iter().any(|(id, _)| id >= vocab_size) {
        let text = format!("logit_bias names a token outside the vocabulary of {vocab_size}.");
        return Err(ApiError::invalid(text).param("logit_bias"));
    }
    Ok(())
}

/// Compiles the form of an answer, which begins within reasoning if `after_reasoning` is true.
pub(super) fn grammar(
    served: &Served,
    form: Option<&Form>,
    after_reasoning: bool,
) -> Result<Option<Grammar>, ApiError> {
    let Some(form) = form else { return Ok(None) };
    let TargetInfo { vocab_size, eos_ids, .. } = &served.target;
    let compiled = served.grammars.compile(form, after_reasoning, &served.tokenizer, *vocab_size, eos_ids);
    compiled.map(Some).map_err(|error| {
        let param = if matches!(form, Form::Json(_)) { "response_format" } else { "tools" };
        ApiError::invalid(format!("The answer cannot have this form: {error}.")).param(param)
    })
}

/// Reads `logit_bias`: a bias from −100 to 100 for each of some token ids.
fn bias(value: Option<Value>) -> Result<Vec<(u32, f32)>, ApiError> {
    let expected = || wrong("logit_bias", "an object of token ids, each with a number from -100 up to 100");
    let Some(value) = value else { return Ok(Vec::new()) };
    let entry = |(id, bias): (&String, &Value)| {
        let bias = bias.as_f64().filter(|bias| (-100.0..=100.0).contains(bias))?;
        Some((id.parse().ok()?, bias as f32))
    };
    let biases: Option<Vec<(u32, f32)>> = value.as_object().ok_or_else(expected)?.iter().map(entry).collect();
    biases.ok_or_else(expected)
}

/// Reads `response_format`.
fn form(value: Option<Value>) -> Result<Option<Form>, ApiError> {
    let expected = || {
        wrong(
            "response_format",
            r#"{"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "json_schema": {"name": …, "schema": …}}"#,
        )
    };
    let Some(value) = value else { return Ok(None) };
    match value.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(Form::Json(json!({ "type": "object" })))),
        Some("json_schema") => {
            let schema = value["json_schema"].get("schema").filter(|schema| schema.is_object() || schema.is_boolean());
            Ok(Some(Form::Json(schema.ok_or_else(expected)?.clone())))
        }
        _ => Err(expected()),
    }
}
