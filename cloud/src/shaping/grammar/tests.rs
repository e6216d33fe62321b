use std::time::{Duration, Instant};

use super::*;
use crate::pair::PairPaths;

/// Number of rows of the pair's target, and the token that ends its texts.
const ROWS: u32 = 4096;
const END: u32 = 0;

/// Compiles forms for the pair.
struct Pair {
    tokenizer: Tokenizer,
    grammars: Grammars,
}

impl Pair {
    fn load() -> Self {
        Self { tokenizer: PairPaths::default().tokenizer().unwrap(), grammars: Grammars::default() }
    }

    fn compile(&self, form: &Form) -> Result<Grammar, String> {
        self.grammars.compile(form, false, &self.tokenizer, ROWS, &[END])
    }

    fn json(&self, schema: Value) -> Result<Grammar, String> {
        self.compile(&Form::Json(schema))
    }

    /// Returns true if a text may be written and end there.
    fn accepts(&self, grammar: &Grammar, text: &str) -> bool {
        let (ids, mut grammar) = (self.tokenizer.encode(text).unwrap(), grammar.copy());
        let mut logits = vec![0.0; ROWS as usize];
        grammar.exclude(&ids, &mut logits).unwrap() && logits[END as usize] == 0.0
    }
}

fn call(tools: &[Value]) -> Form {
    let tools = tools.iter().map(|function| {
        let tool = json!({ "type": "function", "function": function });
        tool.as_object().unwrap().clone()
    });
    Form::Call { tools: tools.collect(), is_tagged: true }
}

fn called(name: &str, arguments: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
}

/// Every place of a schema: a keyword of annotations there is the name of a property, or the target of a reference.
fn places(inner: &Value) -> Vec<Value> {
    let named = |keyword: &str, name: &str| json!({ keyword: { name: inner } });
    let mut places: Vec<Value> = ["properties", "patternProperties", "dependentSchemas"]
        .into_iter()
        .flat_map(|keyword| ["a", "default", "examples", "const", "enum"].map(|name| named(keyword, name)))
        .collect();
    for keyword in ["$defs", "definitions", "default", "examples", "other", "const", "title"] {
        for name in ["a", "default", "examples", "0"] {
            let mut schema = named(keyword, name);
            schema["$ref"] = json!(format!("#/{keyword}/{name}"));
            places.push(schema);
        }
    }
    for keyword in ["default", "examples", "items", "additionalProperties", "not", "if", "contains", "propertyNames"] {
        places.push(json!({ keyword: inner, "$ref": format!("#/{keyword}") }));
        places.push(json!({ keyword: [inner], "$ref": format!("#/{keyword}/0") }));
        places.push(json!({ keyword: inner, "type": ["object", "array"] }));
    }
    for keyword in ["anyOf", "allOf", "oneOf", "prefixItems"] {
        places.push(json!({ keyword: [inner] }));
        places.push(json!({ keyword: [inner, inner] }));
        places.push(json!({ keyword: [{ "properties": { "default": inner } }] }));
    }
    places
}

/// Writes some tokens that a grammar allows, on this thread's stack.
fn write(mut grammar: Grammar) {
    let mut text = Vec::new();
    for _ in 0..12 {
        let mut logits = vec![0.0; ROWS as usize];
        let fits = grammar.exclude(&text, &mut logits);
        let Some(id) = logits.iter().rposition(|logit| *logit == 0.0).filter(|_| fits == Ok(true)) else { return };
        text.push(id as u32);
    }
}

/// A schema that the compiler follows without end would end the process.
#[test]
fn every_schema_is_compiled_or_refused() {
    let pair = Pair::load();
    let least = i64::MIN;
    let numbers = [
        json!({ "type": "integer", "minimum": least, "maximum": least }),
        json!({ "type": "integer", "minimum": least, "maximum": least + 1 }),
        json!({ "type": "integer", "exclusiveMinimum": least, "exclusiveMaximum": least + 2 }),
        json!({ "type": "integer", "minimum": -9.3e18, "maximum": -9.223_372_036_854_776e18 }),
        json!({ "type": "integer", "maximum": least }),
        json!({ "type": "number", "minimum": -1e300, "maximum": -1e299 }),
        json!({ "const": least }),
        json!({ "enum": [least] }),
    ];
    for schema in numbers.iter().flat_map(places).chain(numbers.clone()) {
        pair.json(schema.clone()).map(write).ok();
        drop(pair.compile(&call(&[json!({ "name": "f", "parameters": schema })])));
    }
    let largest = 9_007_199_254_740_991_i64;
    let mut odd =
        vec![json!({ "type": "string", "minLength": largest }), json!({ "type": "array", "minItems": largest })];
    for numeric in ["integer", "number"] {
        for step in [5e-324, 1e-300, 1e-9, 0.1, 3.0, 4_294_967_295.0, 4_294_967_296.0, 9.0e15] {
            odd.push(json!({ "type": numeric, "multipleOf": step }));
            odd.push(json!({ "type": numeric, "allOf": [{ "multipleOf": step }, { "multipleOf": 1e-9 }] }));
            odd.push(json!({ "type": numeric, "multipleOf": step, "minimum": -largest, "maximum": largest }));
            odd.push(json!({ "type": numeric, "exclusiveMinimum": step, "exclusiveMaximum": step + 1.0 }));
            odd.push(json!({ "type": numeric, "minimum": -step, "maximum": -step }));
        }
        for [least, most] in [[largest - 1, largest], [-largest, -largest], [-largest, 1 - largest], [largest, largest]]
        {
            odd.push(json!({ "type": numeric, "minimum": least, "maximum": most }));
            odd.push(json!({ "type": numeric, "exclusiveMinimum": least, "exclusiveMaximum": most }));
            odd.push(json!({ "type": numeric, "exclusiveMinimum": most, "exclusiveMaximum": least }));
        }
    }
    let names = |count: usize, of: Value| (0..count).map(|name| (format!("a{name}"), of.clone())).collect::<Value>();
    let required: Vec<String> = (0..9000).map(|name| format!("a{name}")).collect();
    odd.extend([
        json!({ "type": "array", "maxItems": largest }),
        json!({ "type": "array", "minItems": largest, "maxItems": largest, "items": { "type": "null" } }),
        json!({ "type": "array", "minItems": 40_000, "items": { "type": "null" } }),
        json!({ "type": "string", "maxLength": largest }),
        json!({ "type": "string", "minLength": 100_000, "maxLength": 100_001 }),
        json!({ "type": "object", "minProperties": largest }),
        json!({ "type": "object", "minProperties": 9000, "additionalProperties": { "type": "null" } }),
        json!({ "type": "object", "properties": names(3000, json!(true)) }),
        json!({ "type": "object", "properties": names(60_000, json!(true)) }),
        json!({ "type": "object", "properties": names(60_000, json!(true)), "required": required }),
        json!({ "type": "object", "required": required }),
        json!({ "anyOf": vec![json!(true); 60_000] }),
        json!({ "allOf": vec![json!(true); 60_000] }),
        json!({ "enum": (0..60_000).collect::<Vec<u32>>() }),
        json!({ "enum": required }),
        json!({ "type": vec!["object"; 9000] }),
        json!({ "type": "object", "patternProperties": names(300, json!(true)) }),
        json!({ "$defs": { "a": { "properties": { "x": { "$ref": "#/$defs/a" } } },
            "b": { "properties": { "x": { "$ref": "#/$defs/b" } } } },
            "allOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/b" }] }),
        json!({ "$defs": { "a": { "items": { "$ref": "#/$defs/a" }, "type": "array" },
            "b": { "items": { "$ref": "#/$defs/b" }, "type": "array" } },
            "allOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/b" }] }),
        json!({ "type": "object", "additionalProperties": { "$ref": "#" },
            "allOf": [{ "$ref": "#/additionalProperties" }] }),
    ]);
    odd.extend(
        ["(".repeat(5000) + &")".repeat(5000), "a?".repeat(5000), "ab|".repeat(20_000)]
            .map(|pattern| json!({ "type": "string", "pattern": pattern })),
    );
    for options in [
        json!({ "whitespace_pattern": "a?".repeat(5000) }),
        json!({ "item_separator": "(", "key_separator": "" }),
        json!({ "json_allowed_escapes": "é" }),
        json!({ "other": 1 }),
        json!(1),
    ] {
        odd.push(json!({ "x-guidance": options, "type": "object" }));
    }
    for schema in odd {
        let began = Instant::now();
        let compiled = pair.json(schema.clone());
        let begin: String = schema.to_string().chars().take(90).collect();
        if let Ok(grammar) = compiled {
            write(grammar);
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{begin}");
    }
}

/// Annotations do not limit a value, and a property may have the name of one.
#[test]
fn a_property_may_have_the_name_of_an_annotation() {
    let pair = Pair::load();
    let integer = json!({ "type": "integer", "default": u64::MAX, "examples": [u64::MAX] });
    let schema = json!({ "type": "object", "additionalProperties": false, "required": ["default", "examples"],
        "properties": { "default": integer, "examples": { "const": { "default": 3 } } } });
    let grammar = pair.json(schema).unwrap();
    assert!(pair.accepts(&grammar, "{\"default\": 7, \"examples\": {\"default\": 3}}"));
    assert!(!pair.accepts(&grammar, "{\"default\": \"a\", \"examples\": {\"default\": 3}}"));
    assert!(!pair.accepts(&grammar, "{\"default\": 7, \"examples\": {}}"));
    let referred = json!({ "default": { "type": "integer" }, "$ref": "#/default" });
    assert!(pair.json(referred).is_err(), "an annotation is no schema");
}

/// By JSON Schema, `#` is the schema that a reference stands in: Pydantic's models have their parts in `$defs`.
#[test]
fn references_of_parameters_stay_within_them() {
    const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";
    let pair = Pair::load();
    let point = json!({ "type": "object", "properties": { "x": { "type": "integer" } }, "required": ["x"],
        "additionalProperties": false });
    let of = |defs: &str, part: &Value, schema: Option<&str>| {
        let mut parameters = json!({ "type": "object", "required": ["p"], "additionalProperties": false,
            "properties": { "p": { "$ref": format!("#/{defs}/P") }, "next": { "$ref": "#" } } });
        parameters[defs] = json!({ "P": part });
        if let Some(schema) = schema {
            parameters["$schema"] = json!(schema);
        }
        parameters
    };
    let draft_7 = json!({ "$schema": DRAFT_7, "$ref": "#/definitions/P", "definitions": { "P": point } });
    let form = call(&[
        json!({ "name": "f", "parameters": of("$defs", &point, None) }),
        json!({ "name": "g", "parameters": of("definitions", &json!({ "type": "string" }), Some(DRAFT_7)) }),
        json!({ "name": "h", "parameters": draft_7 }),
    ]);
    let grammar = pair.compile(&form).unwrap();
    for (name, arguments, fits) in [
        ("f", "{\"p\": {\"x\": 1}}", true),
        ("f", "{\"p\": {\"x\": 1}, \"next\": {\"p\": {\"x\": 2}}}", true),
        ("f", "{\"p\": \"a\"}", false),
        ("f", "{\"p\": {\"x\": 1}, \"next\": {\"name\": \"f\", \"arguments\": {}}}", false),
        ("g", "{\"p\": \"a\", \"next\": {\"p\": \"b\"}}", true),
        ("g", "{\"p\": {\"x\": 1}}", false),
        ("h", "{\"x\": 1}", true),
        ("h", "{\"p\": {\"x\": 1}}", false),
    ] {
        assert_eq!(pair.accepts(&grammar, &called(name, arguments)), fits, "{name} {arguments}");
    }
}

/// A call whose arguments are no object is none.
#[test]
fn arguments_are_an_object() {
    let pair = Pair::load();
    let either = json!({ "type": ["object", "null"] });
    for parameters in [json!({}), json!({ "description": "a" }), json!({ "properties": { "a": {} } }), either] {
        let grammar = pair.compile(&call(&[json!({ "name": "f", "parameters": parameters })])).unwrap();
        assert!(pair.accepts(&grammar, &called("f", "{\"a\": 1}")), "{parameters}");
        for arguments in ["\"a\"", "1", "[]", "null"] {
            assert!(!pair.accepts(&grammar, &called("f", arguments)), "{parameters} {arguments}");
        }
    }
    assert!(pair.compile(&call(&[json!({ "name": "f", "parameters": { "type": "string" } })])).is_err());
}

/// The reasoning is free, and its end need not be a token of its own.
#[test]
fn a_form_may_begin_after_reasoning() {
    let pair = Pair::load();
    let compile = |form: &Form| pair.grammars.compile(form, true, &pair.tokenizer, ROWS, &[END]).unwrap();
    let json = compile(&Form::Json(json!({ "enum": [{ "a": 1 }] })));
    let tagged = compile(&call(&[json!({ "name": "f" })]));
    for reasoning in ["", "It may {\n</thin.\n", "é <think>", &"Once upon a time. ".repeat(200)] {
        for gap in ["", "\n\n"] {
            for (grammar, answer) in [(&json, "{\"a\": 1}"), (&tagged, called("f", "{}").as_str())] {
                assert!(pair.accepts(grammar, &format!("{reasoning}</think>{gap}{answer}")), "{reasoning}{gap}");
                assert!(!pair.accepts(grammar, &format!("{reasoning}</think>{gap}Yes")), "{reasoning}{gap}");
                assert!(!pair.accepts(grammar, &format!("{reasoning}{answer}")), "the reasoning has not ended");
            }
        }
    }
    // A draft that is rejected is taken back.
    let (mut grammar, mut logits) = (json.copy(), vec![0.0; ROWS as usize]);
    for text in ["so</think>\n\n{\"a\"", "so much", "so</think>{"] {
        assert!(grammar.exclude(&pair.tokenizer.encode(text).unwrap(), &mut logits).unwrap(), "{text}");
    }
}

/// References may have letters of any language, as names of types do; what cannot be is refused with a reason of ours.
#[test]
fn reasons_are_those_of_the_schema() {
    let pair = Pair::load();
    for name in ["é", "a b", "名"] {
        let one = json!({ "$ref": format!("#/$defs/{name}") });
        let schema = json!({ "$defs": { name: { "const": 1 } }, "properties": { "a": one }, "type": "object" });
        let grammar = pair.json(schema.clone()).unwrap();
        assert!(pair.accepts(&grammar, r#"{"a": 1}"#) && !pair.accepts(&grammar, r#"{"a": 2}"#), "{schema}");
        assert!(pair.compile(&call(&[json!({ "name": "f", "parameters": schema })])).is_ok());
    }
    assert!(pair.json(json!({ "type": "number", "minimum": SMALLEST, "maximum": 2.5e-30 })).is_ok());
    for (schema, part) in [
        (json!({ "type": "number", "minimum": 1e-300 }), "at least 1e-30"),
        (json!({ "$ref": "#" }), "back to themselves"),
    ] {
        let reason = pair.json(schema).unwrap_err();
        assert!(reason.contains(part), "{reason}");
    }
}

/// The library's own options could make an answer that is no JSON.
#[test]
fn options_of_the_library_are_no_part_of_a_schema() {
    let form = |schema: Value| serde_json::to_string(&Form::Json(schema).grammar(false).unwrap()).unwrap();
    for options in [json!({ "whitespace_pattern": "a*" }), json!({ "lenient": true }), json!(1)] {
        let given = form(json!({ "type": "object", "x-guidance": options }));
        assert_eq!(given, form(json!({ "type": "object" })));
    }
}
