//! gpt-oss's answers, whose parts OpenAI's `openai_harmony` 0.0.11 reads as they are read here.

use outrider_models::{Call, ChatSource, ChatTemplate, Conversation, Message, Piece, TextStream, Tokenizer, Tool};
use serde_json::json;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::vocabularies;

const MARKS: [&str; 7] =
    ["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"];

/// A tokenizer of bytes with these special tokens besides its own.
fn tokenizer(marks: &[&str]) -> Tokenizer {
    let mut json = vocabularies::byte_level(None, false);
    for (id, mark) in (1000..).zip(marks) {
        json["added_tokens"].as_array_mut().unwrap().push(json!({
            "id": id, "content": mark, "special": true, "normalized": false, "single_word": false, "lstrip": false,
            "rstrip": false,
        }));
    }
    Tokenizer::from_bytes(&json.to_string().into_bytes()).unwrap()
}

fn template() -> ChatTemplate {
    let template = "{% for m in messages %}<|start|>{{ m.role }}{% if m.thinking %}<|channel|>analysis<|message|>\
                    {{ m.thinking }}<|end|>{% endif %}<|message|>{{ m.content }}<|end|>{% endfor %}\
                    {% if tools %}{{ tools | tojson }}{% endif %}<|start|>assistant";
    ChatTemplate::new(ChatSource { template: Some(template.to_owned()), ..ChatSource::default() }).unwrap()
}

/// Text of an answer token by token.
fn text_of(tokenizer: &Tokenizer, prompt: &str, answer: &str) -> Vec<String> {
    let ids = |text| tokenizer.encode(text).unwrap();
    let mut stream = TextStream::after(tokenizer, &ids(prompt));
    let mut texts: Vec<String> = ids(answer).into_iter().map(|id| stream.push(tokenizer, id)).collect();
    texts.push(stream.finish());
    texts
}

/// Reasoning, text and calls of an answer.
fn read(answer: &str) -> (String, String, Vec<Call>) {
    let (tokenizer, template) = (tokenizer(&MARKS), template());
    let tool: Tool = json!({ "type": "function", "function": { "name": "f" } }).as_object().unwrap().clone();
    let mut calls = template.call_reader(&[tool]);
    let mut reasoning =
        template.reasoning_reader(&tokenizer, &tokenizer.encode("<|start|>assistant").unwrap()).unwrap();
    let (mut thought, mut pieces) = (String::new(), Vec::new());
    for text in text_of(&tokenizer, "<|start|>user<|message|>?<|end|><|start|>assistant", answer) {
        let (more, text) = reasoning.push(&text);
        thought += &more;
        pieces.extend(calls.push(&text));
    }
    let (more, text) = reasoning.finish();
    pieces.extend(calls.push(&text));
    pieces.extend(calls.finish());
    let (mut said, mut called) = (String::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Text(text) => said += &text,
            Piece::Call(call) => called.push(call),
        }
    }
    (thought + &more, said, called)
}

#[test]
fn channels_are_reasoning_calls_and_text() {
    let call = |name: &str, arguments: &str| Call { name: name.to_owned(), arguments: arguments.to_owned() };
    let get = || vec![call("get_weather", r#"{"city": "Zürich"}"#)];
    let thought = "<|channel|>analysis<|message|>So so.<|end|><|start|>assistant";
    for (answer, reasoning, text, calls) in [
        ("<|channel|>final<|message|>Yes, ü.<|return|>", "", "Yes, ü.", vec![]),
        (&format!("{thought}<|channel|>final<|message|>Paris.<|return|>"), "So so.", "Paris.", vec![]),
        (
            &format!(
                "{thought}<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{}<|call|>",
                r#"{"city": "Zürich"}"#
            ),
            "So so.",
            "",
            get(),
        ),
        (" to=functions.f<|channel|>commentary json<|message|>{}<|call|>", "", "", vec![call("f", "{}")]),
        (
            "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.f<|channel|>commentary \
             <|constrain|>json<|message|>{\"x\": 1}<|call|>",
            "",
            "I look.",
            vec![call("f", "{\"x\": 1}")],
        ),
        (
            "<|channel|>commentary<|message|>First.<|end|><|start|>assistant<|channel|>final<|message|>Then.",
            "",
            "First.\n\nThen.",
            vec![],
        ),
        // Cut short, and as a grammar forces it.
        ("<|channel|>analysis<|message|>So", "So", "", vec![]),
        ("{\"a\": 1}<|return|>", "", "{\"a\": 1}", vec![]),
        ("to the point<|return|>", "", "to the point", vec![]),
    ] {
        assert_eq!(read(answer), (reasoning.to_owned(), text.to_owned(), calls), "{answer}");
    }
}

#[test]
fn a_text_goes_on_within_its_channel() {
    let tokenizer = tokenizer(&MARKS);
    let prompt = "<|start|>assistant<|channel|>final<|message|>It is <|user|>so";
    assert_eq!(text_of(&tokenizer, prompt, " and so<|return|>").concat(), " and so");
    let prompt = "<|start|>assistant<|channel|>analysis<|message|>So";
    assert_eq!(text_of(&tokenizer, prompt, " so<|end|>").concat(), " so\n</think>\n\n");
}

#[test]
fn tokenizers_without_all_marks_have_no_channels() {
    let without = tokenizer(&MARKS[..6]);
    assert!(tokenizer(&MARKS).has_channels() && !without.has_channels());
    assert_eq!(text_of(&without, "", "<|channel|>final<|message|>Yes<|end|>").concat(), "finalYes");
}

#[test]
fn reasoning_in_an_earlier_answer_is_the_templates_thinking() {
    let answer = Message::new("assistant", "<think>\nSo so.\n</think>\n\nParis.");
    let messages = vec![Message::new("user", "<think>a</think>b"), answer];
    let text = template().render(&Conversation { messages, ..Conversation::default() }, 0).unwrap();
    let expected = "<|start|>user<|message|><think>a</think>b<|end|><|start|>assistant<|channel|>analysis<|message|>\
                    So so.<|end|><|message|>Paris.<|end|><|start|>assistant";
    assert_eq!(text, expected);
}
