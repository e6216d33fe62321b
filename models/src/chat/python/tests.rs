//! Expressions as Jinja in transformers' sandbox evaluates them: `golden/expressions.json`, by `make_expressions.py`.

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use minijinja::Environment;
use serde::Deserialize;

use super::{add_to, rewritten};

#[derive(Deserialize)]
struct Golden {
    context: serde_json::Value,
    cases: Vec<(String, Option<String>)>,
}

/// Expressions that minijinja evaluates otherwise: tuples are lists to it, and views of dictionaries and ranges too;
/// the rest it refuses.
const DIFFERENT: [&str; 18] = [
    "(1, 2) | string",
    "(1,) | string",
    "() | string",
    "(1, 2) + (3,)",
    "[(1, 2), (3,)]",
    "{1: 'a', 'b': (1,)}",
    "m.keys()",
    "m.items()",
    "m | items | list",
    "m | dictsort",
    "range(3)",
    "'ab'.encode()",
    "2 ** -1",
    "'abcdefghij' | truncate(6, true)",
    "'a/b' | urlencode",
    "lipsum is defined",
    "+i",
    "i.real",
];

#[test]
fn expressions_mean_what_they_mean_in_python() {
    let Golden { context, cases } =
        serde_json::from_str(include_str!("../../../tests/golden/expressions.json")).unwrap();
    let mut environment = Environment::new();
    add_to(&mut environment);
    let mut wrong = Vec::new();
    for (expression, expected) in &cases {
        let found = environment.render_str(&rewritten(&format!("{{{{ {expression} }}}}")), &context);
        if (found.as_ref().ok() == expected.as_ref()) == DIFFERENT.contains(&expression.as_str()) {
            let found = found.map_err(|error| error.to_string());
            wrong.push(format!("{expression}: {found:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Expected output is that of CPython 3.12 and Jinja 3.1 with transformers' `tojson`.
#[test]
fn values_are_printed_as_python_prints_them() {
    let mut environment = Environment::new();
    add_to(&mut environment);
    let context = minijinja::context! { now => 1_795_392_000 };
    for (source, expected) in [
        ("{{ ['a', \"it's\", 1, 2.5, true, none] }}", "['a', \"it's\", 1, 2.5, True, None]"),
        ("{{ {'k': ['v'], 'n': {}} }}", "{'k': ['v'], 'n': {}}"),
        ("{{ ['a\\nb', '\\\\'] }}{{ missing }}|{{ 'plain' }}", "['a\\nb', '\\\\']|plain"),
        ("{{ {'b': 1, 'a': '<é>\\n'} | tojson }}", "{\"b\": 1, \"a\": \"<é>\\n\"}"),
        ("{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}", "{\"a\": 2, \"b\": 1}"),
        ("{{ {'a': [1, 2]} | tojson(separators=(',', ':')) }}", "{\"a\":[1,2]}"),
        ("{{ {'a': [1], 'b': []} | tojson(indent=2) }}", "{\n  \"a\": [\n    1\n  ],\n  \"b\": []\n}"),
        ("{{ [1.0, 1e16, 1.5e-5, 0.0001, 1e15] }}", "[1.0, 1e+16, 1.5e-05, 0.0001, 1000000000000000.0]"),
        ("{{ [1.0, 1e16, -2.5, 7] | tojson }}", "[1.0, 1e+16, -2.5, 7]"),
        ("{{ strftime_now('%d %b %Y') }}", "23 Nov 2026"),
    ] {
        assert_eq!(environment.render_str(source, &context).unwrap(), expected, "{source}");
    }
    for refused in ["{{ strftime_now('%!') }}", "{{ missing | tojson }}", "{{ [] | tojson(separators=',') }}"] {
        assert!(environment.render_str(refused, &context).is_err(), "{refused}");
    }
}
