//! Texts whose logits a request changes: grammars, penalties, biases and min-p in OpenAI's API, over a real socket.

use std::sync::Arc;

use outrider_cloud::{
    http::Served,
    pair::{PairPaths, target_info},
    target::engine::{Engine, GuessPolicy},
};
use outrider_codec::{
    frame::SamplingParameters,
    scheme::{Code, Downlink, SchemeParameters},
};
use outrider_models::{ChatSource, Model, Tokenizer};
use outrider_speculation::session::edge::{Ahead, Mode, Settings, Speculation};
use outrider_testing::padded::padded;
use outrider_tests::{
    http,
    server::{Edge, MAX_DRAFT_TOKENS, Options, Server, generate, served},
};
use serde_json::{Value, json};

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";
const PROMPT: &str = "Once upon a time";

async fn choice(server: &Server, path: &str, body: &Value) -> Value {
    let answer = http::post(server.address(), path, &[], &body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str::<Value>(&answer.body).unwrap()["choices"][0].take()
}

fn with(mut body: Value, more: &Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A server of the built-in pair, which looks up drafts in the text and judges all of them, or drafts nothing.
fn server(edge: &Edge, looks_up: bool, options: Options) -> Server {
    let target = PairPaths::default().target().unwrap();
    let info = target_info(&target, &edge.tokenizer, 16).unwrap();
    let engine = Engine::start(target, 8).unwrap().judging(GuessPolicy::All);
    let engine = if looks_up { engine.with_lookups() } else { engine };
    Server::serve(engine.into(), info, options)
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 12 },
            "color": { "enum": ["red", "green", "blue"] },
            "ages": { "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": 99 }, "maxItems": 3 },
        },
        "required": ["name", "color", "ages"],
        "additionalProperties": false,
    })
}

/// The model writes fairy tales: only the grammar makes JSON of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_fits_its_schema_and_ends() {
    let (edge, options) = (Edge::load(), Options::default());
    let server = server(&edge, true, options);
    let form = json!({ "type": "json_schema", "json_schema": { "name": "cat", "schema": schema(), "strict": true } });
    for (temperature, seed) in [(0.0, 1), (0.7, 2), (1.0, 3), (2.0, 4), (2.0, 5)] {
        let body = json!({
            "messages": [{ "role": "user", "content": "Tell me of a cat." }], "response_format": form,
            "temperature": temperature, "seed": seed, "max_tokens": 300, "n": 2,
        });
        let choice = choice(&server, CHAT, &body).await;
        assert_eq!(choice["finish_reason"], "stop", "{choice}");
        let value: Value = serde_json::from_str(choice["message"]["content"].as_str().unwrap()).unwrap();
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["name", "color", "ages"], "{value}");
        assert!(value["name"].as_str().unwrap().chars().count() <= 12, "{value}");
        assert!(["red", "green", "blue"].contains(&value["color"].as_str().unwrap()), "{value}");
        let ages = value["ages"].as_array().unwrap();
        assert!(ages.len() <= 3 && ages.iter().all(|age| age.as_u64().unwrap() <= 99), "{value}");
    }
    let any = json!({ "prompt": PROMPT, "response_format": { "type": "json_object" }, "max_tokens": 40, "seed": 1 });
    let text = choice(&server, COMPLETIONS, &any).await["text"].as_str().unwrap().to_owned();
    assert!(text.trim_start().starts_with('{'), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_call_is_made_in_the_templates_form() {
    let template = "{% if tools %}<tool_call>{% endif %}{% for message in messages %}{{ message.content }}{% endfor %}";
    let parameters = json!({ "type": "object", "properties": { "city": { "enum": ["Bonn", "Rome"] } },
        "required": ["city"], "additionalProperties": false });
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name, "parameters": parameters } });
    for template in [template, "{{ tools | tojson }}{% for message in messages %}{{ message.content }}{% endfor %}"] {
        let chat = ChatSource { template: Some(template.to_owned()), ..ChatSource::default() };
        let server = server(&Edge::load(), false, Options { chat, ..Options::default() });
        let named = json!({ "type": "function", "function": { "name": "time" } });
        for (forced, names) in [(json!("required"), &["weather", "time"][..]), (named, &["time"])] {
            let body = json!({
                "messages": [{ "role": "user", "content": "Hi" }], "tools": [tool("weather"), tool("time")],
                "tool_choice": forced, "temperature": 1, "seed": 3, "max_tokens": 200,
            });
            let choice = choice(&server, CHAT, &body).await;
            assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
            let function = &choice["message"]["tool_calls"][0]["function"];
            assert!(names.contains(&function["name"].as_str().unwrap()), "{choice}");
            let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
            assert!(["Bonn", "Rome"].contains(&arguments["city"].as_str().unwrap()), "{choice}");
        }
    }
}

/// Drafts lie at other places of the text than its end: each row has to be changed by the text before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drafts_change_nothing_of_a_text_whose_logits_are_changed() {
    let edge = Edge::load();
    let [plain, looking] = [false, true].map(|looks_up| server(&edge, looks_up, Options::default()));
    let prompt = "The king said to the cat: come here. ".repeat(6);
    for more in [
        json!({ "frequency_penalty": 0.4, "presence_penalty": 0.2 }),
        json!({ "repetition_penalty": 1.2 }),
        json!({ "min_p": 0.2, "logit_bias": { "100": 2.5 } }),
        json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "a", "schema": schema() } } }),
    ] {
        for (temperature, seed) in [(0.0, 1), (0.5, 2), (1.0, 3)] {
            let body = json!({ "prompt": prompt, "max_tokens": 64, "temperature": temperature, "seed": seed });
            let body = with(body, &more);
            let texts = [choice(&plain, COMPLETIONS, &body).await, choice(&looking, COMPLETIONS, &body).await];
            assert_eq!(texts[0]["text"], texts[1]["text"], "{more} at {temperature}");
        }
    }
    let metrics = looking.engine.metrics().text();
    let lines = metrics.lines().filter(|line| line.starts_with("outrider_own_drafts_right_total"));
    let right: f64 = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
    assert!(right > 20.0, "{right} drafts were right");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn penalties_biases_and_stop_tokens_do_what_they_say() {
    let edge = Edge::load();
    let server = server(&edge, false, Options::default());
    let body = json!({ "prompt": PROMPT, "max_tokens": 48, "temperature": 0, "return_token_ids": true });
    let ids = async |more: Value| -> Vec<u64> {
        let choice = choice(&server, COMPLETIONS, &with(body.clone(), &more)).await;
        choice["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
    };
    let greedy = ids(json!({})).await;
    assert_eq!(ids(json!({ "temperature": 1, "seed": 9, "min_p": 1 })).await, greedy, "only the likeliest is left");
    let distinct = |ids: &[u64]| ids.iter().collect::<std::collections::HashSet<_>>().len();
    let apart = ids(json!({ "frequency_penalty": 2, "presence_penalty": 2 })).await;
    assert!(distinct(&apart) > distinct(&greedy), "{apart:?} {greedy:?}");
    let banned = ids(json!({ "logit_bias": { greedy[0].to_string(): -100 } })).await;
    assert_ne!(banned[0], greedy[0]);
    assert!(ids(json!({ "logit_bias": { "77": 100 } })).await.iter().all(|id| *id == 77));
    let stopped = ids(json!({ "stop_token_ids": [greedy[4]] })).await;
    let end = greedy.iter().position(|id| *id == greedy[4]).unwrap();
    assert_eq!(stopped, greedy[..=end]);
}

/// An edge drafts without knowing of the change, under any scheme; ahead of the server a seed has the API's text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sessions_text_is_changed_as_the_apis_is() {
    let edge = Edge::load();
    let server = server(&edge, false, Options::default());
    let form = json!({ "type": "json_schema", "json_schema": { "schema": schema() } });
    let options = json!({ "response_format": form, "frequency_penalty": 0.3, "min_p": 0.02 });
    let sampling = SamplingParameters { temperature: 0.9, top_k: 0, top_p: 1.0 };
    let body = json!({ "prompt": PROMPT, "max_tokens": 200, "temperature": 0.9, "seed": 11 });
    let api = choice(&server, COMPLETIONS, &with(body, &options)).await;
    let k_sqs = SchemeParameters::KSqs { support_size: 32, lattice_resolution: 100, code: Code::Enumerative };
    for (mode, is_the_apis) in [
        (Mode::CloudOnly, true),
        (Mode::Ahead(Ahead::default()), true),
        (Mode::Speculative(Speculation::new(k_sqs, 4)), false),
        (Mode::Speculative(Speculation::new(SchemeParameters::Dssd { downlink: Downlink::Sampled(2) }, 4)), false),
    ] {
        let mut session = edge.connect(&server.url).await;
        session.set_shaping(Some(options.to_string()), 0);
        let settings = Settings { mode, sampling, seed: 11, max_new_tokens: 200 };
        let (ids, generated) = generate(&mut session, edge.prompt(PROMPT), &settings).await;
        let text = edge.tokenizer.decode(&ids);
        assert_eq!(generated.end.name(), "eos", "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(["red", "green", "blue"].contains(&value["color"].as_str().unwrap()), "{value}");
        if is_the_apis {
            assert_eq!(json!(text), api["text"]);
        }
        // An answer that is continued: the grammar has read its beginning.
        let half = ids.len() / 2;
        session.set_shaping(Some(options.to_string()), half);
        let prompt = [edge.prompt(PROMPT), ids[..half].to_vec()].concat();
        let (rest, _) = generate(&mut session, prompt, &Settings { seed: 12, ..settings }).await;
        let whole = edge.tokenizer.decode(&[&ids[..half], &rest].concat());
        assert!(serde_json::from_str::<Value>(&whole).is_ok(), "{whole}");
        // The next text is not changed.
        session.set_shaping(None, 0);
        let settings = Settings { mode: Mode::CloudOnly, sampling, seed: 11, max_new_tokens: 8 };
        let (plain, _) = generate(&mut session, edge.prompt(PROMPT), &settings).await;
        assert!(!edge.tokenizer.decode(&plain).starts_with('{'));
        session.close().await;
    }
    let mut session = edge.connect(&server.url).await;
    session.set_shaping(Some(json!({ "min_p": 7 }).to_string()), 0);
    let settings = Settings { mode: Mode::CloudOnly, sampling, seed: 11, max_new_tokens: 8 };
    let refused = session.generate(edge.prompt(PROMPT), &settings, |_| {}).await.unwrap_err().to_string();
    assert!(refused.contains("min_p must be a number from 0 up to 1"), "{refused}");
    // The prompt's last word is no beginning of such an answer.
    session.set_shaping(Some(options.to_string()), 1);
    let refused = session.generate(edge.prompt(PROMPT), &settings, |_| {}).await.unwrap_err().to_string();
    assert!(refused.contains("does not fit its form"), "{refused}");
    session.set_shaping(None, 0);
    let (ids, _) = generate(&mut session, edge.prompt(PROMPT), &settings).await;
    assert_eq!(ids.len(), 8, "the session goes on");
}

/// Each prompt of a request gets what it gets alone, at the places of a list by prompt and then by seed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_prompts_are_answered_in_one_request() {
    let server = server(&Edge::load(), true, Options::default());
    let prompts = ["Once upon a time", "The king", "A small boat"];
    let ask = async |prompt: Value, n: u32, seed: u32| -> Value {
        let body = json!({ "prompt": prompt, "max_tokens": 20, "temperature": 1, "seed": seed, "n": n });
        let answer = http::post(server.address(), COMPLETIONS, &[], &body.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    };
    let all = ask(json!(prompts), 2, 5).await;
    let (mut tokens, mut index) = (0, 0);
    for prompt in prompts {
        for seed in [5, 6] {
            let alone = ask(json!(prompt), 1, seed).await;
            assert_eq!(all["choices"][index]["text"], alone["choices"][0]["text"], "{prompt} {seed}");
            assert_eq!(all["choices"][index]["index"], index);
            index += 1;
            tokens += if seed == 5 { alone["usage"]["prompt_tokens"].as_u64().unwrap() } else { 0 };
        }
    }
    assert_eq!((all["choices"].as_array().unwrap().len(), &all["usage"]["prompt_tokens"]), (6, &json!(tokens)));
}

/// A server whose template opens the reasoning, as DeepSeek-R1's does. Its target has one more token, the tag that ends
/// the reasoning, and writes it wherever it may.
fn thinking_server() -> (Server, Edge) {
    let pair = PairPaths::default();
    let (_, json) = pair.tokenizer_with_json().unwrap();
    let mut json: Value = serde_json::from_slice(&json).unwrap();
    let mut tag = json["added_tokens"][0].clone();
    tag.as_object_mut()
        .unwrap()
        .extend(json!({ "id": 4096, "content": "</think>", "special": false }).as_object().unwrap().clone());
    json["added_tokens"].as_array_mut().unwrap().push(tag);
    let tokenizer = Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap();
    let longer = |file: &[u8], rows| {
        let mut model = Model::from_gguf(&mut &*padded(file, rows)).unwrap();
        model.cut_vocabulary(tokenizer.vocab_size()).unwrap();
        model
    };
    let target = longer(&pair.target_gguf().unwrap(), 64);
    let edge = Edge { model: longer(&pair.draft_file().unwrap(), 24), tokenizer };
    let info = target_info(&target, &edge.tokenizer, MAX_DRAFT_TOKENS).unwrap();
    let template = "{% if tools %}<tool_call>{% endif %}{{ messages[0].content }}<think>\n{# </think> #}";
    let chat = ChatSource { template: Some(template.to_owned()), ..ChatSource::default() };
    let options = Options { chat, ..Options::default() };
    let engine = Engine::start(target, 8).unwrap();
    let tokenizer = Arc::new(Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap());
    let served = Served { tokenizer, ..served("pair", engine.into(), info, &options) };
    (Server::serve_models(served.into(), options), edge)
}

/// The form is that of the content, as in vLLM: before the tag the model is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_begins_after_the_reasoning() {
    let (server, edge) = thinking_server();
    let colors = json!({ "type": "object", "properties": { "color": { "enum": ["red", "blue"] } },
        "required": ["color"], "additionalProperties": false });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": colors } });
    let tools = json!([{ "type": "function", "function": { "name": "paint", "parameters": colors } }]);
    let is_color = |text: &Value| {
        let value: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        ["red", "blue"].contains(&value["color"].as_str().unwrap())
    };
    // With the bias the tag follows a sentence.
    for (bias, reasons) in [(0, false), (-60, true)] {
        let body = json!({ "messages": [{ "role": "user", "content": PROMPT }], "temperature": 1, "seed": 3,
            "max_tokens": 200, "logit_bias": { "4096": bias } });
        let json = choice(&server, CHAT, &with(body.clone(), &json!({ "response_format": format }))).await;
        assert_eq!(json["finish_reason"], "stop", "{json}");
        assert!(is_color(&json["message"]["content"]), "{json}");
        assert_eq!(json["message"]["reasoning_content"].is_string(), reasons, "{json}");
        let forced = json!({ "tools": tools, "tool_choice": "required" });
        let call = choice(&server, CHAT, &with(body.clone(), &forced)).await;
        assert_eq!(call["finish_reason"], "tool_calls", "{call}");
        assert!(is_color(&call["message"]["tool_calls"][0]["function"]["arguments"]), "{call}");
        // Reasoning that is not separated is content, which has the form.
        let whole = json!({ "response_format": format, "reasoning_format": "none" });
        let whole = choice(&server, CHAT, &with(body, &whole)).await;
        assert!(is_color(&whole["message"]["content"]), "{whole}");
    }
    let text = json!({ "format": { "type": "json_schema", "name": "a", "schema": colors } });
    let body = json!({ "input": PROMPT, "text": text, "max_output_tokens": 200 }).to_string();
    let answer = http::post(server.address(), "/v1/responses", &[], &body).await;
    let response: Value = serde_json::from_str(&answer.body).unwrap();
    let message = response["output"].as_array().unwrap().last().unwrap();
    assert!(message["type"] == "message" && is_color(&message["content"][0]["text"]), "{response}");
    let options = json!({ "response_format": format, "logit_bias": { "4096": -60 } });
    let sampling = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
    let settings = Settings { mode: Mode::CloudOnly, sampling, seed: 3, max_new_tokens: 200 };
    let mut session = edge.connect(&server.url).await;
    for (prompt, reasons) in [("<think>\n", true), ("", false)] {
        session.set_shaping(Some(options.to_string()), 0);
        let (ids, _) = generate(&mut session, edge.prompt(&format!("{PROMPT}{prompt}")), &settings).await;
        let text = edge.tokenizer.decode(&ids);
        let (reasoning, answer) = text.split_once("</think>").unwrap_or(("", &text));
        assert!(is_color(&json!(answer)) && reasoning.is_empty() != reasons, "{text}");
    }
}

/// Only a seed makes the texts of equal prompts the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_prompts_differ_without_a_seed() {
    let server = server(&Edge::load(), false, Options::default());
    let mut body = json!({ "prompt": [PROMPT, PROMPT], "max_tokens": 24, "temperature": 1 });
    for has_seed in [false, true] {
        if has_seed {
            body["seed"] = json!(5);
        }
        let answer = http::post(server.address(), COMPLETIONS, &[], &body.to_string()).await;
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        let [first, second] = [0, 1].map(|index| answer["choices"][index]["text"].as_str().unwrap());
        assert_eq!(first == second, has_seed, "{first} {second}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forms_that_cannot_be_are_refused() {
    let server = server(&Edge::load(), false, Options::default());
    let schema = |schema: Value| json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": schema } });
    let mut nested = json!({ "type": "string" });
    for _ in 0..40 {
        nested = json!({ "anyOf": [nested.clone(), { "type": "object", "properties": { "a": nested } }] });
        if nested.to_string().len() > 100_000 {
            break;
        }
    }
    for form in [
        json!("json"),
        json!({ "type": "xml" }),
        json!({ "type": "json_schema" }),
        schema(json!([])),
        schema(json!({ "$ref": "#/nowhere" })),
        schema(json!({ "type": "string", "pattern": "(" })),
        schema(json!({ "type": "integer", "minimum": 5, "maximum": 1 })),
    ] {
        let body = json!({ "prompt": PROMPT, "response_format": form, "max_tokens": 4 }).to_string();
        let answer = http::post(server.address(), COMPLETIONS, &[], &body).await;
        let error = serde_json::from_str::<Value>(&answer.body).unwrap()["error"].clone();
        assert_eq!((answer.status, &error["param"]), (400, &json!("response_format")), "{body}");
    }
    // Schemas that are much work are refused or used, in any case soon.
    let pattern = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    for schema in
        [pattern("((a{1,900}){1,900}){1,900}"), pattern("^(a|b)*a(a|b){30}$"), pattern("^(.*a.{60})*$"), nested]
    {
        let form = json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": schema } });
        let body = json!({ "prompt": PROMPT, "response_format": form, "max_tokens": 64 }).to_string();
        let began = std::time::Instant::now();
        let answer = http::post(server.address(), COMPLETIONS, &[], &body).await;
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{} after {:?}", answer.status, began.elapsed());
        println!("{} after {:?}", answer.status, began.elapsed());
    }
    let body = json!({ "prompt": PROMPT, "max_tokens": 4 });
    assert!(choice(&server, COMPLETIONS, &body).await["text"].is_string(), "it still answers");
}

/// The fields of a chat, as which a request is read, are not those that its client has sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_responses_name_their_own_fields() {
    let server = server(&Edge::load(), false, Options::default());
    let post = async |more: Value| {
        let body = with(json!({ "input": PROMPT, "max_output_tokens": 4 }), &more).to_string();
        let answer = http::post(server.address(), "/v1/responses", &[], &body).await;
        (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap()["error"].clone())
    };
    for (more, param, part) in [
        (json!({ "tools": [{ "type": "web_search" }] }), "tools", r#"{"type": "function", "name", …}"#),
        (json!({ "text": { "format": { "type": "json_schema", "name": "a" } } }), "text.format", r#""schema": …}"#),
        (json!({ "input": [{ "role": "critic", "content": "a" }] }), "input", "critic"),
        (json!({ "reasoning": { "effort": "high" } }), "effort", "reasoning.effort"),
    ] {
        let (status, error) = post(more).await;
        let says = error["message"].as_str().unwrap().contains(part);
        assert_eq!((status, &error["param"], says), (400, &json!(param), true), "{error}");
    }
    assert_eq!(post(json!({ "reasoning": { "effort": null, "summary": null } })).await.0, 200);
}
