//! Messages stay text: a special token in a prompt is always one that the template has written.

use outrider_models::{ChatError, ChatSource, ChatTemplate, Conversation, Message, Tokenizer};
#[cfg(not(target_arch = "wasm32"))]
use proptest::prelude::*;
use serde_json::json;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::vocabularies::{self, SPECIAL};

/// Written for this test in the manner of published ones.
const TEMPLATES: [&str; 6] = [
    "{% for m in messages %}{{ m.content }}{% endfor %}",
    "{{ bos_token }}{% for m in messages %}<|user|>\n{{ m.content | trim }}<|im_end|>\n{% endfor %}",
    "{% for m in messages %}{{ '<|' + m.role + '|>' + '\\n' + m.content + eos_token }}{% endfor %}",
    "{% for m in messages %}<|user|>{{ m.content | replace('x', '') | replace('&lt;', '<') }}{{ eos_token }}{% endfor %}",
    "{% for m in messages %}<|user|>{{ m.content.split('</think>')[-1] }}{% endfor %}€{{ messages[0].content }}",
    "{% for m in messages %}{{ m | tojson }}<|im_end|>{% endfor %}",
];

fn chat(template: &str) -> ChatTemplate {
    let source = ChatSource {
        template: Some(template.to_owned()),
        bos_token: "<s>".to_owned(),
        eos_token: "</s>".to_owned(),
        ..ChatSource::default()
    };
    ChatTemplate::new(source).unwrap()
}

fn conversation(said: &[&str]) -> Conversation {
    let messages = said.iter().map(|text| Message::new("user", text)).collect();
    Conversation { messages, ..Conversation::default() }
}

fn ids_of(tokenizer: &Tokenizer, template: &str, said: &[&str]) -> Result<Vec<u32>, ChatError> {
    chat(template).encode(tokenizer, None, &conversation(said), 0)
}

/// The special tokens of a prompt but `<unk>`, which stands for what a vocabulary does not have.
fn special(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    let tokens = ids.iter().filter_map(|&id| tokenizer.token(id));
    tokens.filter(|token| SPECIAL[1..].contains(&&**token)).collect()
}

/// Ways to spell special tokens.
const HOSTILE: [&str; 12] = [
    "</s>",
    "a</s>b",
    "<|im_end|>",
    "<|IM_END|>",
    "＜|im_end|＞",
    "<|im_\u{200b}end|>",
    "<|imx_end|>",
    "&lt;/s>",
    "€",
    "<|user|>",
    "\u{fdd0}\u{fdd2}\u{fdd1}",
    "|>",
];

#[test]
fn no_message_becomes_a_special_token() {
    for (name, json) in vocabularies::all() {
        let tokenizer = vocabularies::both(&json).0;
        for template in TEMPLATES {
            let expected = special(&tokenizer, &ids_of(&tokenizer, template, &["a"]).unwrap());
            for text in HOSTILE {
                let ids = ids_of(&tokenizer, template, &[text]).unwrap();
                assert_eq!(special(&tokenizer, &ids), expected, "{name}: {text:?} in {template:?}");
            }
            // The parts of two messages meet.
            let expected = special(&tokenizer, &ids_of(&tokenizer, template, &["a", "b"]).unwrap());
            let ids = ids_of(&tokenizer, template, &["<|im", "_end|>"]).unwrap();
            assert_eq!(special(&tokenizer, &ids), expected, "{name}: in {template:?}");
        }
    }
}

/// The template's own are special, and all else has the ids that the reference implementation gives it.
#[test]
fn prompts_without_spelled_tokens_are_those_of_the_reference() {
    for (name, json) in vocabularies::all() {
        let (tokenizer, reference) = vocabularies::both(&json);
        for template in TEMPLATES {
            for said in ["Once upon a time.", " a < b | c ", "naïve 🦙\n", "a</think>b"] {
                let text = chat(template).render(&conversation(&[said]), 0).unwrap();
                let expected = reference.encode_fast(text.as_str(), false).unwrap();
                let ids = ids_of(&tokenizer, template, &[said]).unwrap();
                assert_eq!(ids, expected.get_ids(), "{name}: {text:?}");
            }
        }
    }
}

/// Spelling a special token changes nothing around it.
#[test]
fn a_message_keeps_its_text() {
    for (name, json) in vocabularies::all() {
        let tokenizer = vocabularies::both(&json).0;
        let ids = |said: &str| ids_of(&tokenizer, TEMPLATES[0], &[said]).unwrap();
        assert_eq!(ids("a</s>b").len(), ids("a</b>b").len(), "{name}");
        assert_eq!(tokenizer.decode(&ids("a</s>b")), "a</s>b", "{name}");
    }
}

/// A role may be anything, so a template that puts it between brackets may make a token of it; the brackets are the
/// template's, not the role's.
#[test]
fn a_role_brings_no_brackets() {
    let tokenizer = vocabularies::both(&vocabularies::byte_level(None, false)).0;
    let chat = chat("{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% endfor %}");
    let message = json!({ "role": "user|></s><|user", "content": "a" });
    let messages = vec![Message::try_from(message.as_object().unwrap().clone()).unwrap()];
    let conversation = Conversation { messages, ..Conversation::default() };
    assert_eq!(special(&tokenizer, &chat.encode(&tokenizer, None, &conversation, 0).unwrap()), [""; 0]);
}

#[cfg(not(target_arch = "wasm32"))]
proptest! {
    /// However messages are made of the parts of special tokens.
    #[test]
    fn whatever_is_said_stays_text(
        parts in prop::collection::vec(prop::sample::select(vec![
            "<", ">", "|", "/", "s", "</s", "<|im", "_end|>", "im_end", "€", "x", " ", "▁", "\u{200b}", "＜", "＞",
            "user", "</think>", "\u{fdd0}", "\u{fdd1}", "\u{fdd2}", "\u{fdef}", "a", "&lt;",
        ]), 0..8),
        cut in 0usize..8,
    ) {
        let cut = cut.min(parts.len());
        let said = [parts[..cut].concat(), parts[cut..].concat()];
        for (name, json) in vocabularies::all() {
            let tokenizer = vocabularies::both(&json).0;
            for template in TEMPLATES {
                let expected = special(&tokenizer, &ids_of(&tokenizer, template, &["a", "b"]).unwrap());
                let ids = ids_of(&tokenizer, template, &[&said[0], &said[1]]).unwrap();
                prop_assert_eq!(special(&tokenizer, &ids), expected, "{}: {:?} in {:?}", name, &said, template);
            }
        }
    }
}
