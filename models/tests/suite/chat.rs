//! Conversations as transformers renders them: `golden/chat.json`, which `golden/make_chat.py` makes.

use outrider_models::{ChatError, ChatSource, ChatTemplate, Conversation, Message};
use serde::Deserialize;
use serde_json::{Map, Value, json};
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
    #[serde(flatten)]
    conversation: Conversation,
    expected: Option<String>,
    refused: Option<String>,
}

impl Case {
    fn render(&self, conversation: &Conversation, now: i64) -> Result<String, ChatError> {
        let (bos_token, eos_token) = ("<s>".to_owned(), "</s>".to_owned());
        let source = ChatSource {
            template: Some(self.template.clone()),
            tool_use: None,
            bos_token,
            eos_token,
            first_token: None,
        };
        ChatTemplate::new(source).unwrap().render(conversation, now)
    }
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/chat.json")).unwrap()
}

#[test]
fn templates_render_as_transformers_renders_them() {
    let golden = golden();
    assert!(golden.cases.len() >= 65);
    assert!(golden.cases.iter().filter(|case| !case.conversation.tools.is_empty()).count() >= 16);
    for case in &golden.cases {
        let Case { name, expected, refused, .. } = case;
        match (case.render(&case.conversation, golden.now), expected, refused) {
            (Ok(text), Some(expected), _) => assert_eq!(&text, expected, "{name}"),
            (Err(ChatError::Refused(why)), None, Some(reason)) => assert_eq!(&why, reason, "{name}"),
            (found, expected, refused) => panic!("{name}: {found:?} in place of {expected:?} or {refused:?}"),
        }
    }
}

/// Clients of OpenAI's API send content as parts and arguments as text: templates see no difference.
#[test]
fn conversations_of_openais_clients_render_the_same() {
    let golden = golden();
    let mut changed = 0;
    for case in &golden.cases {
        let Conversation { messages, tools, variables, .. } = case.conversation.clone();
        let as_sent = |message: Message| {
            let mut fields = Map::from(message);
            if let Some(Value::String(text)) = fields.get("content") {
                let (begin, end) = text.split_at(text.floor_char_boundary(text.len() / 2));
                fields["content"] = json!([{ "type": "text", "text": begin }, { "type": "text", "text": end }]);
            }
            for call in fields.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
                call["function"]["arguments"] = json!(call["function"]["arguments"].to_string());
                changed += 1;
            }
            Message::try_from(fields).unwrap()
        };
        let sent =
            Conversation { messages: messages.into_iter().map(as_sent).collect(), tools, variables, continues: false };
        assert_eq!(sent, case.conversation);
        assert_eq!(case.render(&sent, golden.now).ok(), case.expected, "{}", case.name);
    }
    assert!(changed > 0);
}

/// The values are transformers' with `continue_final_message=True`.
#[test]
fn the_last_message_goes_on_without_its_end() {
    let source = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim if m.role == 'assistant' else m.content }}\
                  </s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
    let of = |source: &str| {
        ChatTemplate::new(ChatSource { template: Some(source.to_owned()), ..ChatSource::default() }).unwrap()
    };
    let prompt = |template: &ChatTemplate, role: &str, last: &str| {
        let messages = vec![Message::new("user", "Say The. The what?"), Message::new(role, last)];
        template.render(&Conversation { messages, continues: true, ..Conversation::default() }, 0)
    };
    let trims = of(source);
    assert_eq!(prompt(&trims, "assistant", "The ").unwrap(), "<user>Say The. The what?</s><assistant>The");
    let keeps = of(&source.replace(" | trim", ""));
    assert_eq!(prompt(&keeps, "assistant", " The ").unwrap(), "<user>Say The. The what?</s><assistant> The ");
    let plain = ChatTemplate::new(ChatSource::default()).unwrap();
    assert_eq!(prompt(&plain, "assistant", "The").unwrap(), "User: Say The. The what?\n\nAssistant: The");
    for (role, last) in [("user", "The"), ("assistant", " ")] {
        assert!(matches!(prompt(&keeps, role, last), Err(ChatError::NotContinued)), "{role}: {last}");
    }
    let changes = of(&source.replace("trim", "upper"));
    assert!(matches!(prompt(&changes, "assistant", "It is"), Err(ChatError::NotContinued)));
}
