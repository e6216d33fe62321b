//! The surface that JavaScript sees, in a browser: what loads, and what is thrown with which code.
#![cfg(target_arch = "wasm32")]
#![expect(clippy::expect_used, reason = "a failed step is a failed test")]

use outrider_edge::Edge;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_dedicated_worker);

const DRAFT: &[u8] = include_bytes!("../../pair/draft/draft-q8_0.gguf");
const TOKENIZER: &[u8] = include_bytes!("../../pair/tokenizer.json");

fn edge() -> Edge {
    Edge::new(DRAFT.to_vec(), TOKENIZER).expect("the pair loads")
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
    assert_eq!(code(Edge::new(DRAFT[..DRAFT.len() / 2].to_vec(), TOKENIZER)), "corrupt-model");
    assert_eq!(code(Edge::new(b"<!doctype html>".to_vec(), TOKENIZER)), "corrupt-model");
    assert_eq!(code(Edge::new(Vec::new(), TOKENIZER)), "corrupt-model");
    assert_eq!(code(Edge::new(DRAFT.to_vec(), b"{}")), "corrupt-tokenizer");
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
