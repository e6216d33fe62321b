//! Fields of a request, read by name. A field that remains unread is refused.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::http::ApiError;

/// Parameters that have not been read yet. `null` counts as absent.
pub(super) struct Fields {
    pub(super) map: Map<String, Value>,
    /// Prefix of the parameters' names in error messages.
    pub(super) within: &'static str,
}

/// Number of values that any request may have, however short the model's context.
const VALUES: usize = 1 << 16;
/// Number of further values for each token of the context: a prompt of ids has one, a message some five.
const VALUES_A_TOKEN: usize = 4;

/// Refuses a body with more values than could fit into `context` tokens. A parsed value takes about a hundred times its
/// bytes.
pub(super) fn check_size(body: &[u8], context: usize) -> Result<(), ApiError> {
    let most = VALUES + VALUES_A_TOKEN * context;
    let (mut values, mut is_text, mut is_escaped) = (0, false, false);
    for &byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' | b',' | b':' if !is_text => values += 1,
            _ => {}
        }
    }
    if values > most {
        return Err(ApiError::invalid(format!("The body has {values} values; the limit is {most}.")));
    }
    Ok(())
}

impl Fields {
    pub(super) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(map)) => Ok(Self { map, within: "" }),
            Ok(_) => Err(ApiError::invalid("The body must be a JSON object.")),
            Err(error) => Err(ApiError::invalid(format!("The body is not valid JSON: {error}."))),
        }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(name, "a text")),
        }
    }

    pub(super) fn truth(&mut self, name: &str) -> Result<bool, ApiError> {
        self.take(name).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| wrong(name, "true or false")))
    }

    pub(super) fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_f64().filter(|number| range.contains(number));
        let expected = || format!("a number from {} up to {}", range.start(), range.end());
        number.map(Some).ok_or_else(|| wrong(name, &expected()))
    }

    pub(super) fn integer(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        self.take(name).map(|value| read_integer(name, &value, range)).transpose()
    }

    /// Refuses a parameter that is not implemented, unless its value has no effect.
    pub(super) fn neutral(&mut self, name: &str, neutral: &[Value]) -> Result<(), ApiError> {
        let equals = |value: &Value, other: &Value| match (value.as_f64(), other.as_f64()) {
            (Some(value), Some(other)) => value == other,
            _ => value == other,
        };
        match self.take(name) {
            Some(value) if !neutral.iter().any(|other| equals(&value, other)) => {
                let only: Vec<String> = neutral.iter().map(ToString::to_string).collect();
                let text = format!("{}{name} is not supported here other than as {}.", self.within, only.join(" or "));
                Err(ApiError::invalid(text).param(name).code("unsupported_parameter"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn finish(self) -> Result<(), ApiError> {
        match self.map.iter().find(|(_, value)| !value.is_null()) {
            Some((name, _)) => {
                let text = format!("{}{name} is not supported here.", self.within);
                Err(ApiError::invalid(text).param(name).code("unsupported_parameter"))
            }
            None => Ok(()),
        }
    }
}

/// Reads an integer within a range.
pub(super) fn read_integer(name: &str, value: &Value, range: RangeInclusive<u64>) -> Result<u64, ApiError> {
    number_of(value)
        .filter(|number| range.contains(number))
        .ok_or_else(|| wrong(name, &format!("a whole number from {} to {}", range.start(), range.end())))
}

/// Reads a whole number of at least 0, which may be written as 1.0.
pub(super) fn number_of(value: &Value) -> Option<u64> {
    /// Up to this number every integer is exact as an f64.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let whole = |number: &f64| number.fract() == 0.0 && (0.0..=EXACT).contains(number);
    value.as_u64().or_else(|| value.as_f64().filter(whole).map(|number| number as u64))
}

/// Error of a parameter with an invalid value.
pub(super) fn wrong(name: &str, expected: &str) -> ApiError {
    ApiError::invalid(format!("{name} must be {expected}.")).param(name)
}
