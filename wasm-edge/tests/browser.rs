//! The surface that JavaScript sees, in a browser: what loads, and what is thrown with which code.
#![cfg(target_arch = "wasm32")]
#![expect(clippy::expect_used, reason = "a failed step is a failed test")]

use outrider_edge::Edge;
use outrider_models::{HeadsFile, HeadsMetadata, LinearHead, Model, Tokenizer};
use outrider_speculation::{
    options::{GateName, StopName},
    rules::Rule,
};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_dedicated_worker);

const DRAFT: &[u8] = include_bytes!("../../pair/draft/draft-q8_0.gguf");
const TOKENIZER: &[u8] = include_bytes!("../../pair/tokenizer.json");

fn edge() -> Edge {
    Edge::new(DRAFT.to_vec(), TOKENIZER, None).expect("the pair loads")
}

fn property(object: &JsValue, name: &str) -> JsValue {
    js_sys::Reflect::get(object, &name.into()).expect("it is an object")
}

/// The code of a thrown error; it must be an `Error` with a message as well.
fn code<T>(result: Result<T, JsValue>) -> String {
    let error = result.err().expect("it throws");
    assert!(!String::from(error.unchecked_ref::<js_sys::Error>().message()).is_empty());
    property(&error, "code").as_string().expect("the code is a string")
}

#[wasm_bindgen_test]
fn the_pair_loads_and_says_what_it_is() {
    let info = edge().info().expect("it is plain");
    assert_eq!(property(&info, "vocabSize"), 4096.0);
    assert_eq!(property(&info, "contextLength"), 512.0);
    assert_eq!(property(&info, "weightBytes"), DRAFT.len() as f64);
}

#[wasm_bindgen_test]
fn corrupt_files_are_told_apart() {
    assert_eq!(code(Edge::new(DRAFT[..DRAFT.len() / 2].to_vec(), TOKENIZER, None)), "corrupt-model");
    assert_eq!(code(Edge::new(b"<!doctype html>".to_vec(), TOKENIZER, None)), "corrupt-model");
    assert_eq!(code(Edge::new(Vec::new(), TOKENIZER, None)), "corrupt-model");
    assert_eq!(code(Edge::new(DRAFT.to_vec(), b"{}", None)), "corrupt-tokenizer");
}

/// A gate that passes every token of the pair's draft.
fn heads() -> HeadsFile {
    let model = Model::from_gguf(&mut std::io::Cursor::new(DRAFT)).expect("the draft loads");
    let config = model.config();
    HeadsFile {
        gate: Some(LinearHead { weights: vec![0.0; config.hidden_size], bias: 9.0 }),
        stop: None,
        metadata: HeadsMetadata {
            hidden_size: config.hidden_size,
            vocab_size: config.vocab_size,
            tokenizer: Tokenizer::from_bytes(TOKENIZER).expect("the tokenizer loads").fingerprint(),
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            lambda: 1.0,
            tau: 0.5,
            auc: 1.0,
            eta_tp: 1.0,
            eta_fp: 0.0,
            notes: Default::default(),
        },
    }
}

#[wasm_bindgen_test]
fn heads_are_told_and_those_of_another_draft_refused() {
    let has = |edge: &Edge, head: &str| {
        let info = edge.info().expect("it is plain");
        property(&property(&info, "heads"), head).as_bool().expect("it is a boolean")
    };
    let with = |bytes: Vec<u8>| Edge::new(DRAFT.to_vec(), TOKENIZER, Some(bytes));
    let without = edge();
    assert!(!has(&without, "gate") && !has(&without, "stop"));
    let mut file = heads();
    let gated = with(file.to_bytes()).expect("they belong to it");
    assert!(has(&gated, "gate") && !has(&gated, "stop"));

    file.metadata.tokenizer[0] ^= 1;
    assert_eq!(code(with(file.to_bytes())), "heads-mismatch");
    assert_eq!(code(with(b"<!doctype html>".to_vec())), "corrupt-heads");
}

#[wasm_bindgen_test]
fn every_policy_is_in_the_table() {
    let policies = Edge::policies().expect("it is plain");
    let names = |list: &str| -> Vec<String> {
        let list: js_sys::Array = property(&policies, list).unchecked_into();
        list.iter().map(|policy| property(&policy, "name").as_string().expect("it has a name")).collect()
    };
    assert_eq!(names("rules"), Rule::all().iter().map(|info| info.name).collect::<Vec<_>>());
    assert_eq!(names("gates"), GateName::NAMES);
    assert_eq!(names("stopRules"), StopName::NAMES);
    let exact: js_sys::Array = property(&policies, "exactSchemes").unchecked_into();
    assert_eq!(exact.iter().filter_map(|name| name.as_string()).collect::<Vec<_>>(), ["dssd", "coupled"]);

    let rules: js_sys::Array = property(&policies, "rules").unchecked_into();
    let rule = |name: &str| rules.iter().find(|rule| property(rule, "name") == name).expect("there is such a rule");
    assert!(property(&rule("exact"), "parameter").is_null());
    assert_eq!(property(&rule("exact"), "lossy"), false);
    assert_eq!(property(&rule("exact"), "hasBonus"), true);
    let lossy = property(&rule("lossy"), "parameter");
    assert_eq!(property(&lossy, "symbol"), "α");
    assert_eq!(property(&property(&lossy, "range"), "max"), 1.0);
    assert_eq!(property(&property(&lossy, "range"), "excluded"), "max");
    let opt = property(&property(&rule("opt"), "parameter"), "range");
    assert_eq!(property(&opt, "max"), f64::INFINITY);
    assert!(property(&opt, "excluded").is_undefined());
}

#[wasm_bindgen_test]
async fn a_server_that_is_not_there_is_an_error() {
    // The discard port: nothing listens there, and browsers refuse it.
    assert_eq!(code(edge().connect("ws://127.0.0.1:9/session").await), "connection-failed");
    assert_eq!(code(edge().connect("not a url").await), "connection-failed");
    let nothing = js_sys::Function::new_no_args("");
    assert_eq!(code(edge().generate(JsValue::NULL, nothing).await), "invalid-parameters");
}

#[wasm_bindgen_test]
async fn a_generation_needs_a_connection() {
    let request = js_sys::JSON::parse(
        r#"{"prompt": "Once", "mode": "speculative", "maxNewTokens": 8, "temperature": 0, "topK": 0, "topP": 1, "seed": 1,
            "supportSize": 8, "latticeResolution": 100, "draftLength": 4, "bitBudget": 0}"#,
    )
    .expect("it is JSON");
    assert_eq!(code(edge().generate(request, js_sys::Function::new_no_args("")).await), "not-connected");
}
