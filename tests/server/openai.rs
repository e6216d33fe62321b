//! The target as OpenAI's API, over a real socket: the text is the target's own, in one piece or in many, and what
//! cannot be done is refused in the API's shape. `tests/server/openai_client.py` does the same with the official
//! client.

use std::time::Duration;

use outrider_cloud::{
    app::Caps,
    pair::{PairPaths, target_info},
    sampling::SamplingDefaults,
    target::engine::{Engine, GuessPolicy, OwnDraftPolicy},
};
use outrider_codec::frame::SamplingParameters;
use outrider_speculation::session::{
    cloud::TargetInfo,
    edge::{Mode, Settings},
};
use outrider_testing::logits::on_cpu;
use outrider_tests::{
    http::{self, Answer},
    server::{Edge, Options, Server, generate},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time,
};

const PROMPT: &str = "Once upon a time";
const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

async fn ask(server: &Server, path: &str, body: Value) -> Answer {
    http::post(server.address(), path, &[], &body.to_string()).await
}

async fn answer(server: &Server, path: &str, body: Value) -> Value {
    let answer = ask(server, path, body).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// The chunks of a stream, which has to end as it should.
async fn chunks(server: &Server, path: &str, body: Value) -> Vec<Value> {
    let answer = ask(server, path, body).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")), "{}", answer.body);
    let mut events: Vec<&str> = answer.body.split("\n\n").filter(|event| !event.is_empty()).collect();
    assert_eq!(events.pop(), Some("data: [DONE]"));
    events.iter().map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap()).collect()
}

/// The text that the target writes alone, as a native edge gets it.
async fn alone(
    server: &Server,
    edge: &Edge,
    tokens: u32,
    temperature: f32,
    seed: u64,
) -> (String, usize, &'static str) {
    let mut session = edge.connect(&server.url).await;
    let sampling = SamplingParameters { temperature, top_k: 0, top_p: 1.0 };
    let settings = Settings { mode: Mode::CloudOnly, sampling, seed, max_new_tokens: tokens };
    let (ids, generated) = generate(&mut session, edge.prompt(PROMPT), &settings).await;
    let finish = if generated.end.name() == "eos" { "stop" } else { "length" };
    session.close().await;
    (edge.tokenizer.decode(&ids), ids.len(), finish)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_is_what_the_target_writes_alone() {
    let edge = Edge::load();
    let server = Server::start_as(Options::default()).await;
    let prompt_tokens = edge.prompt(PROMPT).len();
    for (temperature, seed) in [(0.0, 1), (1.0, 7), (1.0, 8)] {
        let (text, tokens, finish) = alone(&server, &edge, 48, temperature as f32, seed).await;
        let body = json!({
            "model": "pair", "prompt": PROMPT, "max_tokens": 48, "temperature": temperature, "seed": seed,
        });
        let whole = answer(&server, COMPLETIONS, body.clone()).await;
        let choice = &whole["choices"][0];
        assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!(text), &json!(finish)));
        let usage = json!({ "prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens });
        assert_eq!((&whole["usage"], &whole["object"]), (&usage, &json!("text_completion")));

        let mut streamed = body.clone();
        streamed["stream"] = json!(true);
        streamed["stream_options"] = json!({ "include_usage": true });
        let mut parts = chunks(&server, COMPLETIONS, streamed).await;
        assert_eq!(parts.pop().unwrap()["usage"], usage);
        let last = parts.pop().unwrap();
        assert_eq!((&last["choices"][0]["text"], &last["choices"][0]["finish_reason"]), (&json!(""), &json!(finish)));
        assert!(parts.len() > 8 && parts.iter().all(|part| part["id"] == last["id"] && part["usage"].is_null()));
        let joined: String = parts.iter().map(|part| part["choices"][0]["text"].as_str().unwrap()).collect();
        assert_eq!(joined, text);
    }
    // Ids are taken as they are.
    let ids = json!({ "prompt": edge.prompt(PROMPT), "max_tokens": 16, "temperature": 0 });
    let text = json!({ "prompt": PROMPT, "temperature": 0 });
    let [ids, text] = [answer(&server, COMPLETIONS, ids).await, answer(&server, COMPLETIONS, text).await];
    assert_eq!(ids["choices"][0]["text"], text["choices"][0]["text"], "sixteen tokens if nobody says how many");
    let any = json!({ "prompt": PROMPT, "max_tokens": 24 });
    let [first, second] = [answer(&server, COMPLETIONS, any.clone()).await, answer(&server, COMPLETIONS, any).await];
    assert_ne!(first["choices"][0]["text"], second["choices"][0]["text"], "no seed is any seed");
}

/// Requests that give no sampling get the model's, and `/v1/info` says which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_models_sampling_is_the_default() {
    let sampling = SamplingDefaults { temperature: Some(0.0), top_k: Some(5), top_p: None };
    let server = Server::start_as(Options { sampling, ..Options::default() }).await;
    let body = |more: Value| {
        let mut body = json!({ "prompt": PROMPT, "max_tokens": 24 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let greedy = answer(&server, COMPLETIONS, body(json!({ "temperature": 0 }))).await;
    let default = answer(&server, COMPLETIONS, body(json!({ "seed": 5 }))).await;
    assert_eq!(default["choices"], greedy["choices"]);
    let other = answer(&server, COMPLETIONS, body(json!({ "temperature": 1, "top_k": 0, "seed": 5 }))).await;
    assert_ne!(other["choices"], greedy["choices"]);
    let info: Value = serde_json::from_str(&http::get(server.address(), "/v1/info", &[]).await.body).unwrap();
    assert_eq!(info["sampling"], json!({ "temperature": 0.0, "topK": 5 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_sequence_is_the_end_and_not_part_of_the_text() {
    let edge = Edge::load();
    let server = Server::start_as(Options::default()).await;
    let (text, tokens, _) = alone(&server, &edge, 48, 0.0, 1).await;
    let stop: String = text.chars().skip(40).take(5).collect();
    let expected = text.split(&stop).next().unwrap();
    let body = json!({ "prompt": PROMPT, "max_tokens": 48, "temperature": 0, "stop": [stop, "never to be seen"] });
    let whole = answer(&server, COMPLETIONS, body.clone()).await;
    let choice = &whole["choices"][0];
    assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!(expected), &json!("stop")));
    assert!(whole["usage"]["completion_tokens"].as_u64().unwrap() < tokens as u64);
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let parts = chunks(&server, COMPLETIONS, streamed).await;
    let joined: String = parts.iter().map(|part| part["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(joined, expected);
}

/// A special token has no text, and ends a text all the same where a stop string spells it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_sequence_may_spell_a_special_token() {
    const ENDING: &str = "They lived happily ever after.";
    let (edge, pair) = (Edge::load(), PairPaths::default());
    let target = pair.target().unwrap();
    let info = target_info(&target, &edge.tokenizer, 16).unwrap();
    let end = edge.tokenizer.token(info.eos_ids[0]).unwrap();
    let endless = TargetInfo { eos_ids: Vec::new(), ..info };
    let server = Server::start_as(Options::default()).await;
    let other = Server::serve(Engine::start(target, 8).unwrap().into(), endless, Options::default());
    let (mut seed, mut whole) = (0, Value::Null);
    while whole["choices"][0]["finish_reason"] != "stop" {
        seed += 1;
        assert!(seed < 60, "no text of the pair ends by itself");
        whole = answer(&server, COMPLETIONS, json!({ "prompt": ENDING, "max_tokens": 400, "seed": seed })).await;
    }
    let body = json!({ "prompt": ENDING, "max_tokens": 400, "seed": seed, "stop": ["###", end] });
    let stopped = answer(&other, COMPLETIONS, body).await;
    assert_eq!((&stopped["choices"], &stopped["usage"]), (&whole["choices"], &whole["usage"]));
}

/// The first text is the one that is written where only one is asked for; each is the target's own for its seed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_texts_have_the_seeds_that_follow() {
    let edge = Edge::load();
    let server = Server::start_as(Options::default()).await;
    let mut expected = Vec::new();
    for seed in 7..10 {
        expected.push(alone(&server, &edge, 32, 1.0, seed).await);
    }
    let total: usize = expected.iter().map(|(_, tokens, _)| tokens).sum();
    let body = json!({ "prompt": PROMPT, "max_tokens": 32, "temperature": 1, "seed": 7, "n": 3 });
    let whole = answer(&server, COMPLETIONS, body.clone()).await;
    let choices = whole["choices"].as_array().unwrap();
    assert_eq!((choices.len(), &whole["usage"]["completion_tokens"]), (3, &json!(total)));
    for ((choice, (text, _, finish)), index) in choices.iter().zip(&expected).zip(0..) {
        let seen = (&choice["index"], &choice["text"], &choice["finish_reason"]);
        assert_eq!(seen, (&json!(index), &json!(text), &json!(finish)));
    }

    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let parts = chunks(&server, COMPLETIONS, streamed).await;
    for (index, (text, _, finish)) in expected.iter().enumerate() {
        let of = || parts.iter().map(|part| &part["choices"][0]).filter(|choice| choice["index"] == index);
        let joined: String = of().map(|choice| choice["text"].as_str().unwrap()).collect();
        let ends: Vec<_> = of().filter_map(|choice| choice["finish_reason"].as_str()).collect();
        assert_eq!((&joined, &ends[..]), (text, &[*finish][..]));
    }

    // One that a stop sequence ends takes nothing from the next.
    let mut stopped = body;
    stopped["stop"] = json!(expected[0].0.chars().skip(20).take(6).collect::<String>());
    let whole = answer(&server, COMPLETIONS, stopped.clone()).await;
    for ((choice, (text, ..)), index) in whole["choices"].as_array().unwrap().iter().zip(&expected).zip(0..) {
        let before = text.split(stopped["stop"].as_str().unwrap()).next().unwrap();
        assert_eq!((&choice["index"], &choice["text"]), (&json!(index), &json!(before)));
    }

    let messages = json!([{ "role": "user", "name": "Ada", "content": "Go on." }]);
    let chat = json!({ "messages": messages, "max_tokens": 8, "n": 2, "stream": true });
    let parts = chunks(&server, CHAT, chat).await;
    let openings: Vec<_> = parts.iter().filter(|part| part["choices"][0]["delta"]["role"] == "assistant").collect();
    assert_eq!(openings.len(), 2);
}

/// Choices share the engine's runs as far as slots are free, and their texts are those of single requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_texts_are_written_side_by_side() {
    let server = Server::start_as(Options::default()).await;
    let body = |seed, n| json!({ "prompt": PROMPT, "max_tokens": 32, "temperature": 1, "seed": seed, "n": n });
    let mut runs = Vec::new();
    let mut texts = Vec::new();
    for (seed, n) in [(7, 1), (8, 1), (9, 1), (10, 1), (7, 4)] {
        let before = server.engine.load().runs;
        let whole = answer(&server, COMPLETIONS, body(seed, n)).await;
        server.is_empty().await;
        runs.push(server.engine.load().runs - before);
        texts
            .push(whole["choices"].as_array().unwrap().iter().map(|choice| choice["text"].clone()).collect::<Vec<_>>());
    }
    println!("runs: {runs:?}");
    let four = texts.pop().unwrap();
    assert_eq!(four, texts.concat());
    assert!(runs[4] < 2 * runs[..4].iter().max().unwrap(), "{runs:?}");
    // With a single slot they follow one another.
    let only = Server::start_as(Options { sessions: 1, ..Options::default() }).await;
    let whole = answer(&only, COMPLETIONS, body(7, 3)).await;
    let found: Vec<&Value> = whole["choices"].as_array().unwrap().iter().map(|choice| &choice["text"]).collect();
    assert_eq!(found, four[..3].iter().collect::<Vec<_>>());
}

/// The ids of a text's beginning, read as a prompt, are continued as the text was: this is how an edge takes over a
/// text that the server has begun alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_of_a_text_are_those_that_its_continuation_needs() {
    let (edge, server) = (Edge::load(), Server::start_as(Options::default()).await);
    let prompt = edge.prompt(PROMPT);
    let ids_of = |choice: &Value| -> Vec<u32> {
        choice["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
    };
    let body = json!({ "prompt": prompt, "max_tokens": 32, "temperature": 0.8, "seed": 11, "return_token_ids": true });
    let whole = answer(&server, COMPLETIONS, body.clone()).await["choices"][0].clone();
    let ids = ids_of(&whole);
    assert_eq!(ids.len(), 32);
    let mut streaming = body;
    streaming["stream"] = json!(true);
    let (mut text, mut streamed) = (String::new(), Vec::new());
    for chunk in chunks(&server, COMPLETIONS, streaming.clone()).await {
        text += chunk["choices"][0]["text"].as_str().unwrap();
        streamed.extend(ids_of(&chunk["choices"][0]));
    }
    assert_eq!((&json!(text), &streamed), (&whole["text"], &ids));
    // What may begin a stop string comes later, and its id with it.
    streaming["stop"] = json!("e§");
    let (mut text, mut streamed) = (String::new(), Vec::new());
    for chunk in chunks(&server, COMPLETIONS, streaming).await {
        text += chunk["choices"][0]["text"].as_str().unwrap();
        streamed.extend(ids_of(&chunk["choices"][0]));
        let begun = [&prompt[..], &streamed].concat();
        let mut body = json!({ "prompt": begun, "temperature": 0.8, "seed": 11 });
        body["max_tokens"] = json!(32 - streamed.len());
        let rest = if streamed.len() < 32 {
            answer(&server, COMPLETIONS, body).await["choices"][0]["text"].take()
        } else {
            json!("")
        };
        assert_eq!(json!(format!("{text}{}", rest.as_str().unwrap())), whole["text"], "after {}", streamed.len());
    }
    for taken in [1, 7, 31] {
        let prompt = [&prompt[..], &ids[..taken]].concat();
        let body = json!({
            "prompt": prompt, "max_tokens": 32 - taken, "temperature": 0.8, "seed": 11, "return_token_ids": true,
        });
        let rest = answer(&server, COMPLETIONS, body).await["choices"][0].clone();
        assert_eq!(ids_of(&rest), ids[taken..], "after {taken}");
    }
    // Without the parameter there are none.
    let plain = answer(&server, COMPLETIONS, json!({ "prompt": PROMPT, "max_tokens": 1 })).await;
    assert!(plain["choices"][0].get("token_ids").is_none());
}

/// Drafts looked up in the text save passes where it repeats itself, and change no token of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lookups_in_the_text_change_nothing_but_the_number_of_passes() {
    let (edge, pair) = (Edge::load(), PairPaths::default());
    let serve = |looks_up: bool| {
        let target = pair.target().unwrap();
        let info = target_info(&target, &edge.tokenizer, 16).unwrap();
        let engine = Engine::start(target, 8).unwrap().judging(GuessPolicy::All);
        let engine = if looks_up { engine.with_lookups() } else { engine };
        Server::serve(engine.into(), info, Options::default())
    };
    let (plain, looking) = (serve(false), serve(true));
    let prompt = "The king said to the cat: come here. ".repeat(6);
    for temperature in [0.0, 0.3] {
        let body = json!({ "prompt": prompt, "max_tokens": 64, "temperature": temperature, "seed": 5 });
        let texts = [answer(&plain, COMPLETIONS, body.clone()).await, answer(&looking, COMPLETIONS, body).await];
        assert_eq!(texts[0]["choices"][0]["text"], texts[1]["choices"][0]["text"], "{temperature}");
    }
    let metrics = looking.engine.metrics().text();
    let count = |name: &str| {
        let lines = metrics.lines().filter(|line| line.starts_with(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    let (judged, right) = (count("outrider_own_drafts_judged_total"), count("outrider_own_drafts_right_total"));
    assert!(right >= 16.0 && right <= judged, "{right} of {judged}");
}

/// The model in this process is the oracle: its softmax at each place of the text that was written. The server drafts
/// itself, so that some of the tokens are guesses that were right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_of_tokens_is_the_targets_softmax() {
    let (edge, pair) = (Edge::load(), PairPaths::default());
    let target = pair.target().unwrap();
    let info = target_info(&target, &edge.tokenizer, 16).unwrap();
    let [serving, drafting] = [pair.target(), pair.draft()].map(|model| Engine::start(model.unwrap(), 8).unwrap());
    let engine = serving.judging(GuessPolicy::All).with_own_draft(drafting, OwnDraftPolicy::On);
    let server = Server::serve(engine.into(), info, Options::default());
    let prompt = edge.prompt(PROMPT);
    let body = json!({
        "prompt": PROMPT, "max_tokens": 24, "temperature": 0.7, "top_p": 0.9, "seed": 3, "n": 2, "logprobs": 3,
    });
    let whole = answer(&server, COMPLETIONS, body.clone()).await;
    for choice in whole["choices"].as_array().unwrap() {
        let told = &choice["logprobs"];
        let tokens: Vec<&str> = told["tokens"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
        assert_eq!(tokens.concat(), choice["text"].as_str().unwrap());
        assert_eq!((&told["text_offset"][0], &told["text_offset"][1]), (&json!(0), &json!(tokens[0].chars().count())));
        let text = edge.prompt(&(PROMPT.to_owned() + &tokens.concat()));
        assert_eq!(text.len(), prompt.len() + tokens.len(), "the text's own tokens");
        let rows = on_cpu(&target, &text, text.len());
        for (index, own) in told["token_logprobs"].as_array().unwrap().iter().enumerate() {
            let row = &rows[prompt.len() - 1 + index];
            let total: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            let mut of: Vec<f64> = row.iter().map(|&logit| f64::from(logit) - total.ln()).collect();
            let expected = of[text[prompt.len() + index] as usize];
            assert!((own.as_f64().unwrap() - expected).abs() < 1e-4, "{index}: {own} {expected}");
            of.sort_by(|a, b| b.total_cmp(a));
            let mut told: Vec<f64> =
                told["top_logprobs"][index].as_object().unwrap().values().map(|p| p.as_f64().unwrap()).collect();
            told.sort_by(|a, b| b.total_cmp(a));
            let likeliest = told.iter().take(3).zip(&of).all(|(told, p)| (told - p).abs() < 1e-4);
            assert!(likeliest && told.len() <= 4 && told.iter().any(|told| (told - expected).abs() < 1e-4), "{told:?}");
        }
    }
    let metrics = server.engine.metrics().text();
    let mut right = metrics.lines().filter(|line| line.starts_with("outrider_own_drafts_right_total"));
    assert!(right.any(|line| !line.ends_with(" 0")), "{metrics}");

    let mut streamed = body;
    streamed["stream"] = json!(true);
    let parts = chunks(&server, COMPLETIONS, streamed).await;
    for index in 0..2 {
        let of = parts.iter().map(|part| &part["choices"][0]).filter(|choice| choice["index"] == index);
        let tokens: Vec<&Value> = of.filter_map(|choice| choice["logprobs"]["tokens"].as_array()).flatten().collect();
        assert_eq!(json!(tokens), whole["choices"][index]["logprobs"]["tokens"]);
    }

    let messages = json!([{ "role": "user", "content": "Go on." }]);
    let mut chat = json!({ "messages": messages, "max_tokens": 8, "temperature": 0, "logprobs": true });
    let plain = answer(&server, CHAT, chat.clone()).await;
    assert_eq!(plain["choices"][0]["logprobs"]["content"][7]["top_logprobs"], json!([]));
    chat["top_logprobs"] = json!(2);
    let told = answer(&server, CHAT, chat).await["choices"][0]["logprobs"]["content"].clone();
    for token in told.as_array().unwrap() {
        // Greedily, what is chosen is what is likeliest.
        let [first, second] = [&token["top_logprobs"][0], &token["top_logprobs"][1]];
        assert_eq!((&token["token"], &token["logprob"]), (&first["token"], &first["logprob"]));
        assert!(first["logprob"].as_f64() >= second["logprob"].as_f64() && token["bytes"].is_array());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_answered_by_its_template() {
    let server = Server::start_as(Options::default()).await;
    let messages = json!([{ "role": "system", "content": "Tell a tale." }, { "role": "user", "content": "Go on." }]);
    let body = json!({ "model": "pair", "messages": messages, "temperature": 0, "max_completion_tokens": 24 });
    let whole = answer(&server, CHAT, body.clone()).await;
    let message = &whole["choices"][0]["message"];
    assert_eq!((&whole["object"], &message["role"]), (&json!("chat.completion"), &json!("assistant")));
    let plain = json!({
        "prompt": "System: Tell a tale.\n\nUser: Go on.\n\nAssistant:", "temperature": 0, "max_tokens": 24,
    });
    let completion = answer(&server, COMPLETIONS, plain).await;
    assert_eq!(message["content"], completion["choices"][0]["text"]);
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let parts = chunks(&server, CHAT, streamed).await;
    assert_eq!(parts[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
    assert!(parts.iter().all(|part| part["object"] == "chat.completion.chunk" && part.get("usage").is_none()));
    let joined: String = parts.iter().filter_map(|part| part["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(message["content"], joined);
    let last = &parts.last().unwrap()["choices"][0];
    assert_eq!((&last["delta"], &last["finish_reason"]), (&json!({}), &whole["choices"][0]["finish_reason"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_done_is_refused_in_the_apis_shape() {
    let caps = Caps { body_bytes: 4096, sessions_per_address: 0, ..Caps::default() };
    let server = Server::start_as(Options { sessions: 1, caps, ..Options::default() }).await;
    for (path, body, status, code, part) in [
        (COMPLETIONS, json!({ "prompt": "a", "model": "gpt" }), 404, json!("model_not_found"), "\"pair\""),
        (COMPLETIONS, json!({ "prompt": "a", "best_of": 2 }), 400, json!("unsupported_parameter"), "best_of"),
        (COMPLETIONS, json!({ "prompt": "a", "min_p": 1.5 }), 400, Value::Null, "from 0 up to 1"),
        (COMPLETIONS, json!({ "prompt": "a", "temperature": 3 }), 400, Value::Null, "from 0 up to 2"),
        (COMPLETIONS, json!({ "prompt": vec![0; 512] }), 400, json!("context_length_exceeded"), "512"),
        (COMPLETIONS, json!({ "prompt": [4096] }), 400, Value::Null, "outside the vocabulary of 4096"),
        (COMPLETIONS, json!({ "prompt": "a".repeat(5000) }), 413, json!("body_too_long"), "--max-body"),
        (CHAT, json!({ "messages": [{ "role": "tool", "content": "a" }] }), 400, Value::Null, "tool_call_id"),
        (CHAT, json!([1]), 400, Value::Null, "JSON object"),
    ] {
        let answer = ask(&server, path, body.clone()).await;
        let error = serde_json::from_str::<Value>(&answer.body).unwrap()["error"].clone();
        assert_eq!((answer.status, &error["code"]), (status, &code), "{body} {error}");
        assert!(error["message"].as_str().unwrap().contains(part) && error["type"].is_string(), "{error}");
        println!("{status} {error}");
    }
    assert_eq!(http::post(server.address(), COMPLETIONS, &[], "{").await.status, 400);
    // The session of a request ends a little after its answer.
    server.is_empty().await;
    let only = server.engine.slot().unwrap();
    let answer = ask(&server, COMPLETIONS, json!({ "prompt": "a" })).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("5")), "{}", answer.body);
    drop(only);
    assert_eq!(ask(&server, COMPLETIONS, json!({ "prompt": "a" })).await.status, 200);
    for (method, path, status) in [
        ("POST", "/v1/embeddings", 404),
        ("GET", "/v1/nothing/at/all", 404),
        ("GET", "/v1/models/%ff", 400),
        ("POST", "/v1/completions/", 404),
        ("GET", COMPLETIONS, 405),
        ("POST", "/v1/models", 405),
    ] {
        let answer = match method {
            "GET" => http::get(server.address(), path, &[]).await,
            _ => http::post(server.address(), path, &[], "{}").await,
        };
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        assert_eq!((answer.status, body["error"]["message"].is_string()), (status, true), "{method} {path}");
    }
    let models: Value = serde_json::from_str(&http::get(server.address(), "/v1/models", &[]).await.body).unwrap();
    assert_eq!(models["data"][0]["id"], "pair");
    assert_eq!(http::get(server.address(), "/v1/models/pair", &[]).await.status, 200);
    assert_eq!(http::get(server.address(), "/v1/models/gpt", &[]).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_stops_its_generation() {
    let server = Server::start_as(Options::default()).await;
    for stream in [true, false] {
        let before = server.engine.load().passes;
        let body = json!({ "prompt": PROMPT, "max_tokens": 500, "temperature": 0, "stream": stream }).to_string();
        let mut client = TcpStream::connect(server.address()).await.unwrap();
        let head = [("Content-Type", "application/json")];
        client.write_all(&http::request("POST", COMPLETIONS, &head, &body)).await.unwrap();
        if stream {
            let mut some = [0; 400];
            client.read_exact(&mut some).await.unwrap();
        } else {
            while server.engine.load().passes == before {
                time::sleep(Duration::from_millis(1)).await;
            }
        }
        drop(client);
        server.is_empty().await;
        let passes = server.engine.load().passes - before;
        println!("stream {stream}: {passes} passes of 500");
        assert!(passes < 400, "{passes}");
    }
}
