//! Tools in OpenAI's API, over a real socket: the template shows them, and calls in the target's text come back as
//! calls. The target is an engine after a gateway, which writes a given script.

use std::sync::{Arc, Mutex};

use outrider_cloud::{
    pair::{PairPaths, target_info},
    target::{
        Target,
        gateway::{EngineArgs, Way},
    },
};
use outrider_models::{ChatSource, Tokenizer};
use outrider_tests::{
    http::{self, Answer},
    server::{MAX_DRAFT_TOKENS, Options, Server},
};
use serde_json::{Value, json};

use crate::gateway::mock::MockEngine;

const CHAT: &str = "/v1/chat/completions";
/// Tokens of prompt and answer.
const CONTEXT: u32 = 2048;

/// A template in the manner of Hermes and Qwen.
const TAGGED: &str = "\
{% if tools %}
<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools> Write <tool_call>…</tool_call> to call one.
{% endif %}
{% for message in messages %}
{{ message.role }}: {{ message.content or '' }}
{%- for call in message.tool_calls or [] -%}
<tool_call>{\"name\": \"{{ call.function.name }}\", \"arguments\": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor %}

{% endfor %}
assistant:";
/// A template in the manner of Llama 3.1.
const BARE: &str =
    "{{ tools | tojson(indent=4) if tools }}{% for message in messages %}{{ message.content }}|{% endfor %}";

/// A server whose target writes a given script.
struct Scripted {
    server: Server,
    tokenizer: Tokenizer,
    script: Arc<Mutex<Vec<u32>>>,
    /// The last prompt that the target received.
    prompt: Arc<Mutex<Vec<u32>>>,
}

impl Scripted {
    async fn start(template: Option<&str>) -> Self {
        let pair = PairPaths::default();
        let (target, tokenizer) = (pair.target().unwrap(), pair.tokenizer().unwrap());
        let info = target_info(&target, &tokenizer, MAX_DRAFT_TOKENS).unwrap();
        let (vocab_size, end) = (info.vocab_size as usize, info.eos_ids[0]);
        let (script, prompt) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (told, seen) = (Arc::clone(&script), Arc::clone(&prompt));
        let weights = move |text: &[u32]| {
            let script: Vec<u32> = told.lock().unwrap().clone();
            let written = |text: &[u32]| (0..=script.len()).rev().find(|&n| text.ends_with(&script[..n])).unwrap();
            // The engine writes on after the end, which may also be what a prompt begins with.
            if written(text) == 0 && !text[1..].contains(&end) {
                *seen.lock().unwrap() = text.to_vec();
            }
            // The log-probabilities of a prompt are never requested.
            let mut rows = vec![Vec::new(); text.len() - 1];
            let mut last = vec![0.0; vocab_size];
            last[*script.get(written(text)).unwrap_or(&end) as usize] = 50.0;
            rows.push(last);
            rows
        };
        let engine = MockEngine::start(Box::new(weights), pair.tokenizer().unwrap(), CONTEXT).await;
        let arguments = EngineArgs { target_logprobs: 0, ..EngineArgs::default() };
        let (gateway, info) = arguments.connect((Way::Asked, &engine.address), &tokenizer, info, 4).await.unwrap();
        let chat = ChatSource { template: template.map(ToOwned::to_owned), ..ChatSource::default() };
        let options = Options { chat, ..Options::default() };
        Self { server: Server::serve(Target::Gateway(gateway), info, options), tokenizer, script, prompt }
    }

    async fn post(&self, body: &Value) -> Answer {
        http::post(self.server.address(), CHAT, &[], &body.to_string()).await
    }

    /// The answer when the target writes `text`, in one piece; in many it is the same.
    async fn answers(&self, text: &str, mut body: Value) -> Value {
        *self.script.lock().unwrap() = self.tokenizer.encode(text).unwrap();
        body["temperature"] = json!(0);
        let answer = self.post(&body).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let whole: Value = serde_json::from_str(&answer.body).unwrap();
        let choice = &whole["choices"][0];

        body["stream"] = json!(true);
        let answer = self.post(&body).await;
        let mut events: Vec<&str> = answer.body.split("\n\n").filter(|event| !event.is_empty()).collect();
        assert_eq!(events.pop(), Some("data: [DONE]"), "{}", answer.body);
        let (mut content, mut calls, mut finish) = (String::new(), Vec::new(), Value::Null);
        let mut reasoning = String::new();
        for event in events {
            let chunk: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
            let streamed = &chunk["choices"][0];
            assert!(finish.is_null(), "nothing follows the end: {event}");
            content.push_str(streamed["delta"]["content"].as_str().unwrap_or_default());
            reasoning.push_str(streamed["delta"]["reasoning_content"].as_str().unwrap_or_default());
            for call in streamed["delta"]["tool_calls"].as_array().into_iter().flatten() {
                assert_eq!((&call["index"], &call["type"]), (&json!(calls.len()), &json!("function")));
                calls.push(call["function"].clone());
            }
            finish = streamed["finish_reason"].clone();
        }
        assert_eq!(finish, choice["finish_reason"]);
        assert_eq!(content, choice["message"]["content"].as_str().unwrap_or_default());
        assert_eq!(reasoning, choice["message"]["reasoning_content"].as_str().unwrap_or_default());
        assert_eq!(calls, functions(&choice["message"]));
        choice.clone()
    }

    /// Text of the prompt that the target received.
    fn prompt(&self) -> String {
        self.tokenizer.decode(&self.prompt.lock().unwrap())
    }
}

/// Functions that a message calls.
fn functions(message: &Value) -> Vec<Value> {
    message["tool_calls"].as_array().into_iter().flatten().map(|call| call["function"].clone()).collect()
}

fn question(tools: Value) -> Value {
    json!({ "messages": [{ "role": "user", "content": "Will it rain?" }], "tools": tools })
}

fn weather() -> Value {
    json!([{ "type": "function", "function": { "parameters": { "type": "object" }, "name": "weather" } }])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_target_calls_comes_back_as_calls() {
    let scripted = Scripted::start(Some(TAGGED)).await;
    let calls = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": \"é\", \"days\": 2}}\n</tool_call>\n\
        <tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>";
    let called = [
        json!({ "name": "weather", "arguments": "{\"place\": \"é\", \"days\": 2}" }),
        json!({ "name": "weather", "arguments": "{}" }),
    ];
    for (before, content) in [("", Value::Null), ("Let me look. \n", json!("Let me look."))] {
        let choice = scripted.answers(&format!("{before}{calls}"), question(weather())).await;
        assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&json!("tool_calls"), &content));
        assert_eq!(functions(&choice["message"]), called);
        let ids: Vec<&str> =
            (0..2).map(|index| choice["message"]["tool_calls"][index]["id"].as_str().unwrap()).collect();
        assert!(ids[0] != ids[1] && ids.iter().all(|id| id.len() == 9), "{ids:?}");
        let tool =
            r#"<tools>{"type": "function", "function": {"parameters": {"type": "object"}, "name": "weather"}}</tools>"#;
        assert!(scripted.prompt().starts_with(tool), "{}", scripted.prompt());

        // What was called goes back with what came of it.
        let mut conversation = question(weather());
        let messages = conversation["messages"].as_array_mut().unwrap();
        messages.push(choice["message"].clone());
        for id in ids {
            messages
                .push(json!({ "role": "tool", "tool_call_id": id, "content": [{ "type": "text", "text": "No." }] }));
        }
        let choice = scripted.answers("It will not.", conversation).await;
        let message = json!({ "role": "assistant", "content": "It will not.", "refusal": null });
        assert_eq!((&choice["message"], &choice["finish_reason"]), (&message, &json!("stop")));
        let seen = format!(
            "user: Will it rain?\nassistant: {}\
             <tool_call>{{\"name\": \"weather\", \"arguments\": {{\"place\": \"é\", \"days\": 2}}}}</tool_call>\
             <tool_call>{{\"name\": \"weather\", \"arguments\": {{}}}}</tool_call>\ntool: No.\ntool: No.\nassistant:",
            content.as_str().unwrap_or_default()
        );
        assert!(scripted.prompt().ends_with(&seen), "{}", scripted.prompt());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_call_stays_content() {
    let scripted = Scripted::start(Some(TAGGED)).await;
    let call = "<tool_call>{\"name\": \"weather\", \"arguments\": {}}</tool_call>";
    let with = |name: &str, value: Value| {
        let mut body = question(weather());
        body[name] = value;
        body
    };
    for (text, body, content, finish) in [
        ("No <tool_call>weather()</tool_call> ", question(weather()), None, "stop"),
        ("<tool_call>{\"name\": \"weather\"}</tool_call>", question(weather()), None, "stop"),
        (call, with("tool_choice", json!("none")), None, "stop"),
        (call, with("tools", json!([])), None, "stop"),
        (call, with("stop", json!("\"arg")), Some("<tool_call>{\"name\": \"weather\", "), "stop"),
        (call, with("max_tokens", json!(1)), None, "length"),
    ] {
        let choice = scripted.answers(text, body.clone()).await;
        assert_eq!(choice["finish_reason"], finish, "{body}");
        let written = choice["message"]["content"].as_str().unwrap();
        match content {
            Some(content) => assert_eq!(written, content),
            None if finish == "length" => assert!(!written.is_empty() && text.starts_with(written), "{written}"),
            None => assert_eq!(written, text),
        }
        assert!(choice["message"].get("tool_calls").is_none(), "{choice}");
        let shown = body["tools"] != json!([]) && body["tool_choice"] != "none";
        assert_eq!(scripted.prompt().contains("<tools>"), shown, "{}", scripted.prompt());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_that_teaches_another_form_is_answered_in_it() {
    let scripted = Scripted::start(Some(BARE)).await;
    let call = r#"{"name": "weather", "parameters": {"days": 1}}"#;
    let choice = scripted.answers(call, question(weather())).await;
    assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&json!("tool_calls"), &Value::Null));
    assert_eq!(functions(&choice["message"]), [json!({ "name": "weather", "arguments": "{\"days\": 1}" })]);
    assert!(scripted.prompt().starts_with("[\n    {\n        \"type\": \"function\""), "{}", scripted.prompt());
    // Any JSON is no call.
    let other = r#"{"name": "rain", "parameters": {}}"#;
    let choice = scripted.answers(other, question(weather())).await;
    assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&json!("stop"), &json!(other)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_that_cannot_be_shown_or_forced_are_refused() {
    let (plain, scripted) = (Scripted::start(None).await, Scripted::start(Some(TAGGED)).await);
    let result = json!({ "role": "tool", "tool_call_id": "1", "content": "No." });
    let with = |name: &str, value: Value| {
        let mut body = question(weather());
        body[name] = value;
        body
    };
    for (server, body, param, part) in [
        (&plain, question(weather()), "tools", "no place for tools"),
        (&plain, json!({ "messages": [result] }), "tools", "no place for tools"),
        (&scripted, with("tool_choice", json!("sometimes")), "tool_choice", "required"),
        (&scripted, with("parallel_tool_calls", json!(false)), "parallel_tool_calls", "true"),
        (&scripted, question(json!({})), "tools", "list"),
        (&scripted, question(json!([{ "type": "function", "function": { "name": "" } }])), "tools", "name"),
        (&scripted, with("messages", json!([{ "role": "assistant", "tool_calls": [{}] }])), "messages", "tool_calls"),
    ] {
        let answer = server.post(&body).await;
        let error = serde_json::from_str::<Value>(&answer.body).unwrap()["error"].clone();
        assert_eq!((answer.status, &error["param"]), (400, &json!(param)), "{body} {error}");
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
        println!("{error}");
    }
    let hidden = plain.answers("Yes.", with("tool_choice", json!("none"))).await;
    assert_eq!(hidden["message"]["content"], "Yes.", "tools that are not to be shown need no place");
}

/// Templates that know the tag of reasoning, with and without opening it in the prompt, in the manner of Qwen3 and
/// DeepSeek-R1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reasoning_before_an_answer_is_separated() {
    let template = "{% for message in messages %}{{ message.role }}: {% if message.reasoning_content %}<think>\
        {{ message.reasoning_content }}</think>{% endif %}{{ message.content }}\n{% endfor %}assistant:";
    let body = json!({ "messages": [{ "role": "user", "content": "Will it rain?" }] });
    for (template, written) in [
        (template.to_owned(), "<think>\nIt may.\n</think>\n\nYes."),
        (format!("{template}\n<think>\n"), "It may.\n</think>\n\nYes."),
    ] {
        let scripted = Scripted::start(Some(&template)).await;
        let message = scripted.answers(written, body.clone()).await["message"].take();
        let separated =
            json!({ "role": "assistant", "content": "Yes.", "refusal": null, "reasoning_content": "It may." });
        assert_eq!(message, separated);
        let mut raw = body.clone();
        raw["reasoning_format"] = json!("none");
        assert_eq!(scripted.answers(written, raw).await["message"]["content"], written);
        // By OpenAI's reference of the Responses API: a client builds the item from these events.
        *scripted.script.lock().unwrap() = scripted.tokenizer.encode(written).unwrap();
        let asked = json!({ "input": "Will it rain?", "temperature": 0 });
        let (events, response) = response_events(&scripted, asked).await;
        let of_reasoning = |event: &&Value| event["output_index"] == 0 && event["content_index"] == 0;
        let mut names: Vec<&str> =
            events.iter().filter(of_reasoning).map(|event| event["type"].as_str().unwrap()).collect();
        names.dedup();
        let expected = ["content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done"];
        assert_eq!(names, expected.map(|name| format!("response.{name}")));
        assert_eq!(response["output"][0]["content"], json!([{ "type": "reasoning_text", "text": "It may." }]));
        // Clients send messages back as they came.
        let mut next = body.clone();
        next["messages"].as_array_mut().unwrap().extend([message, json!({ "role": "user", "content": "When?" })]);
        scripted.answers("Soon.", next).await;
        assert!(scripted.prompt().contains("assistant: <think>It may.</think>Yes.\n"), "{}", scripted.prompt());
    }
    let scripted = Scripted::start(Some(TAGGED)).await;
    let choice = scripted.answers("<think>It may.</think>Yes.", body).await;
    assert_eq!(choice["message"]["content"], "<think>It may.</think>Yes.", "a template that knows no such tag");
}

const RESPONSES: &str = "/v1/responses";

/// Events of a response, whose last one has the whole.
async fn response_events(scripted: &Scripted, mut body: Value) -> (Vec<Value>, Value) {
    body["stream"] = json!(true);
    let answer = http::post(scripted.server.address(), RESPONSES, &[], &body.to_string()).await;
    let events: Vec<Value> = answer
        .body
        .split("\n\n")
        .filter(|event| !event.is_empty())
        .map(|event| {
            let (name, data) = event.split_once('\n').unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
            data
        })
        .collect();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let whole = events.last().unwrap()["response"].clone();
    (events, whole)
}

/// Output of a response without ids.
fn output(mut response: Value) -> Value {
    for item in response["output"].as_array_mut().unwrap() {
        item.as_object_mut().unwrap().remove("id");
    }
    response["output"].take()
}

/// By OpenAI's reference of the Responses API: items, events, and a conversation that is sent back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_has_items_and_its_conversation_goes_on() {
    let scripted = Scripted::start(Some(TAGGED)).await;
    let write = |text: &str| *scripted.script.lock().unwrap() = scripted.tokenizer.encode(text).unwrap();
    let ask = async |body: &Value| -> Value {
        let answer = http::post(scripted.server.address(), RESPONSES, &[], &body.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    };
    write("It will not.");
    let body = json!({ "input": "Will it rain?", "instructions": "Be brief.", "temperature": 0, "store": false });
    let whole = ask(&body).await;
    let text = json!({ "type": "output_text", "text": "It will not.", "annotations": [], "logprobs": [] });
    let message = json!({ "type": "message", "role": "assistant", "status": "completed", "content": [text] });
    assert_eq!((&whole["status"], &whole["object"]), (&json!("completed"), &json!("response")));
    assert_eq!(output(whole), json!([message]));
    assert!(scripted.prompt().ends_with("system: Be brief.\nuser: Will it rain?\nassistant:"), "{}", scripted.prompt());
    let (events, whole) = response_events(&scripted, body.clone()).await;
    let of = |name: &str| events.iter().filter(|event| event["type"] == name).collect::<Vec<_>>();
    let deltas: String =
        of("response.output_text.delta").iter().map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!((deltas.as_str(), &events[0]["type"]), ("It will not.", &json!("response.created")));
    assert_eq!(output(whole), json!([message]));
    for name in ["output_item.added", "content_part.added", "output_text.done", "content_part.done", "output_item.done"]
    {
        assert_eq!(of(&format!("response.{name}")).len(), 1, "{name}");
    }
    let mut cut = body.clone();
    cut["max_output_tokens"] = json!(1);
    let whole = ask(&cut).await;
    assert_eq!(
        (&whole["status"], &whole["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );

    write("Let me look. <tool_call>{\"name\": \"weather\", \"arguments\": {\"days\": 2}}</tool_call>");
    let tool = json!({ "type": "function", "name": "weather", "parameters": { "type": "object" }, "strict": false });
    let body = json!({ "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "Will it rain?" }] }],
        "tools": [tool], "temperature": 0 });
    let whole = ask(&body).await;
    assert_eq!((&whole["tools"], &whole["tool_choice"]), (&body["tools"], &json!("auto")));
    assert_eq!(
        (&whole["usage"]["input_tokens_details"], &whole["parallel_tool_calls"]),
        (&json!({ "cached_tokens": 0 }), &json!(true))
    );
    let items = whole["output"].as_array().unwrap().clone();
    assert_eq!((&items[0]["content"][0]["text"], &items[1]["name"]), (&json!("Let me look."), &json!("weather")));
    assert_eq!((&items[1]["type"], &items[1]["arguments"]), (&json!("function_call"), &json!("{\"days\": 2}")));
    let (events, streamed) = response_events(&scripted, body.clone()).await;
    assert_eq!(streamed["output"][1]["arguments"], items[1]["arguments"]);
    assert!(events.iter().any(|event| event["type"] == "response.function_call_arguments.done"));
    write("No.");
    let mut next = body.clone();
    let dry = json!([{ "type": "input_text", "text": "dry" }]);
    let result = json!({ "type": "function_call_output", "call_id": items[1]["call_id"], "output": dry });
    next["input"].as_array_mut().unwrap().extend(items.into_iter().chain([result]));
    ask(&next).await;
    let seen = "assistant: Let me look.<tool_call>{\"name\": \"weather\", \"arguments\": {\"days\": 2}}</tool_call>\n\
                tool: dry\nassistant:";
    assert!(scripted.prompt().ends_with(seen), "{}", scripted.prompt());

    let refused = json!({ "role": "assistant", "content": [{ "type": "refusal", "refusal": "Not I." }] });
    ask(&json!({ "input": [refused, { "role": "user", "content": "Why?" }], "temperature": 0 })).await;
    assert!(scripted.prompt().ends_with("assistant: Not I.\nuser: Why?\nassistant:"), "{}", scripted.prompt());

    for (body, param) in [
        (json!({}), "input"),
        (json!({ "input": [{ "type": "image" }] }), "input"),
        (json!({ "input": [] }), "input"),
        (json!({ "input": "a", "text": "json" }), "text"),
        (json!({ "input": "a", "text": { "format": "json" } }), "text.format"),
        (json!({ "input": "a", "tools": {} }), "tools"),
        (json!({ "input": "a", "logprobs": true }), "logprobs"),
        (json!({ "input": "a", "top_logprobs": 2 }), "top_logprobs"),
        (json!({ "input": "a", "max_output_tokens": 0 }), "max_output_tokens"),
        (json!({ "input": "a", "previous_response_id": "resp_1" }), "previous_response_id"),
        (json!({ "input": "a", "messages": [] }), "messages"),
        (json!({ "input": "a", "background": true }), "background"),
        (json!({ "input": "a", "tools": [{ "type": "function", "name": "f", "strict": true }] }), "tools"),
        (json!({ "input": "a", "text": { "verbosity": "low" } }), "verbosity"),
    ] {
        let answer = http::post(scripted.server.address(), RESPONSES, &[], &body.to_string()).await;
        let error = serde_json::from_str::<Value>(&answer.body).unwrap()["error"].clone();
        assert_eq!((answer.status, &error["param"]), (400, &json!(param)), "{error}");
    }
}
