//! Schemas that stop a compiler of grammars: each is refused or kept to, and the server goes on.

use std::fmt::Write;

use outrider_tests::{
    http::{self, Answer},
    server::{Options, Server},
};
use serde_json::{Value, json};

async fn ask(server: &Server, schema: &str) -> Answer {
    let body = format!(
        r#"{{"prompt":"a","max_tokens":3,"response_format":{{"type":"json_schema","json_schema":{{"name":"x","schema":{schema}}}}}}}"#
    );
    http::post(server.address(), "/v1/completions", &[], &body).await
}

/// A chain of references, each of this form around the next.
fn chain(length: usize, form: impl Fn(&str) -> String) -> String {
    let mut defs = String::new();
    for index in 0..length {
        let next = format!("{{\"$ref\":\"#/$defs/a{}\"}}", index + 1);
        write!(defs, "\"a{index}\":{},", form(&next)).unwrap();
    }
    format!("{{\"$defs\":{{{defs}\"a{length}\":{{\"type\":\"integer\"}}}},\"$ref\":\"#/$defs/a0\"}}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemas_do_not_end_the_process() {
    let server = Server::start_as(Options::default()).await;
    let list = |next: &str| format!("{{\"type\":\"array\",\"items\":{next}}}");
    let all = |next: &str| format!("{{\"allOf\":[{next}]}}");
    let any = |next: &str| format!("{{\"anyOf\":[{next},{{\"type\":\"null\"}}]}}");
    let mut schemas = vec![
        r#"{"const":-9223372036854775808}"#.to_owned(),
        r#"{"const":-9223372036854775296}"#.to_owned(),
        r#"{"type":"integer","minimum":-9223372036854775808}"#.to_owned(),
        r#"{"properties":{"default":{"type":"integer","minimum":-9223372036854775808,"maximum":-9223372036854775808}}}"#
            .to_owned(),
        r##"{"$ref":"#"}"##.to_owned(),
        r##"{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}"##.to_owned(),
        r##"{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##.to_owned(),
        format!(r#"{{"type":"string","pattern":"{}a{}"}}"#, "(".repeat(5000), ")".repeat(5000)),
        format!(r#"{{"type":"string","pattern":"{}"}}"#, "a?".repeat(5000)),
        format!(r#"{{"type":"string","pattern":"{}"}}"#, "ab|".repeat(20_000)),
        format!(r#"{{"enum":["{}"]}}"#, "x".repeat(100_000)),
    ];
    for length in [800, 3000, 9000, 60_000] {
        schemas.extend([chain(length, str::to_owned), chain(length, list), chain(length, all), chain(length, any)]);
    }
    for schema in schemas {
        let answer = ask(&server, &schema).await;
        let begin: String = schema.chars().take(60).collect();
        assert!(matches!(answer.status, 200 | 400 | 413), "{}: {} for {begin}", answer.status, answer.body);
    }
    let plain = json!({ "prompt": "a", "max_tokens": 1 }).to_string();
    assert_eq!(http::post(server.address(), "/v1/completions", &[], &plain).await.status, 200);
}

/// Numbers that the grammar cannot keep to are refused, not replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_kept_to_or_refused() {
    let server = Server::start_as(Options::default()).await;
    for schema in [
        r#"{"const":9007199254740993}"#,
        r#"{"enum":[18446744073709551615]}"#,
        r#"{"type":"integer","minimum":1000000000000000001,"maximum":1000000000000000003}"#,
        r#"{"type":"object","properties":{"a":{"type":"number","maximum":1e19}}}"#,
        r#"{"type":"string","minLength":18446744073709551615}"#,
    ] {
        let answer = ask(&server, schema).await;
        let error = serde_json::from_str::<Value>(&answer.body).unwrap()["error"].take();
        assert_eq!((answer.status, &error["param"]), (400, &json!("response_format")), "{schema}: {error}");
        assert!(error["message"].as_str().unwrap().contains("2⁵³"), "{error}");
    }
    let small = ask(&server, r#"{"const":-12,"default":9007199254740993}"#).await;
    assert_eq!(serde_json::from_str::<Value>(&small.body).unwrap()["choices"][0]["text"], "-12", "{}", small.body);
    let broken = ask(&server, r#"{"type":"string","pattern":"["}"#).await;
    assert!(broken.status == 400 && broken.body.contains("unclosed character class"), "{}", broken.body);
}
