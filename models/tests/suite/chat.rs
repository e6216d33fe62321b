//! Conversations as transformers renders them: `golden/chat.json`, which `golden/make_chat.py` makes.

use outrider_models::{ChatError, ChatSource, ChatTemplate, Message};
use serde::Deserialize;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

#[derive(Deserialize)]
struct Golden {
    now: i64,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    template: String,
    messages: Vec<Message>,
    expected: Option<String>,
    refused: Option<String>,
}

#[test]
fn templates_render_as_transformers_renders_them() {
    let golden: Golden = serde_json::from_str(include_str!("../golden/chat.json")).unwrap();
    assert!(golden.cases.len() >= 24);
    for Case { name, template, messages, expected, refused } in golden.cases {
        let (bos_token, eos_token) = ("<s>".to_owned(), "</s>".to_owned());
        let chat = ChatTemplate::new(ChatSource { template: Some(template), bos_token, eos_token }).unwrap();
        match (chat.render(&messages, golden.now), expected, refused) {
            (Ok(text), Some(expected), _) => assert_eq!(text, expected, "{name}"),
            (Err(ChatError::Refused(why)), None, Some(reason)) => assert_eq!(why, reason, "{name}"),
            (found, expected, refused) => panic!("{name}: {found:?} in place of {expected:?} or {refused:?}"),
        }
    }
}
