//! Log-probabilities in OpenAI's shape: where tokens stand in the text, what they are made of, and the chosen ones.

use outrider_tests::{
    http,
    server::{Edge, Options, Server},
};
use serde_json::{Value, json};

/// Characters of two to four bytes, most of them several tokens of the built-in tokenizer.
const WIDE: &str = "naïve 😀 日本語 — “quote”";

async fn choice(server: &Server, path: &str, body: Value) -> Value {
    let answer = http::post(server.address(), path, &[], &body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str::<Value>(&answer.body).unwrap()["choices"][0].take()
}

fn list(choice: &Value, name: &str) -> Vec<Value> {
    choice["logprobs"][name].as_array().unwrap().clone()
}

/// Evaluation harnesses cut the continuation from the prompt by these offsets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_are_those_of_the_text() {
    let (edge, server) = (Edge::load(), Server::start_as(Options::default()).await);
    let prompt = edge.prompt(WIDE);
    for (tokens, echo) in [(4, true), (0, true), (8, false)] {
        let body = json!({ "prompt": WIDE, "echo": echo, "logprobs": 2, "max_tokens": tokens, "seed": 1 });
        let choice = choice(&server, "/v1/completions", body).await;
        let text: Vec<char> = choice["text"].as_str().unwrap().chars().collect();
        let offsets: Vec<usize> =
            list(&choice, "text_offset").iter().map(|offset| offset.as_u64().unwrap() as usize).collect();
        assert!(offsets.is_sorted() && offsets[0] == 0, "{offsets:?}");
        let mut whole = 0;
        for (token, &offset) in list(&choice, "tokens").iter().zip(&offsets) {
            let token = token.as_str().unwrap();
            if !token.starts_with("bytes:") {
                let length = token.chars().count();
                assert_eq!(text[offset..offset + length].iter().collect::<String>(), token, "{offsets:?}");
                whole += usize::from(length > 0);
            }
        }
        assert!(whole > 3, "{choice}");
        if echo {
            let characters = WIDE.chars().count();
            let first = offsets[prompt.len() - 1 + usize::from(tokens > 0)];
            assert!(first >= characters - 1 && first <= characters, "{offsets:?}");
        }
    }
}

/// A prompt may end within a character.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_character_that_the_prompt_begins_is_written_once() {
    let (edge, server) = (Edge::load(), Server::start_as(Options::default()).await);
    let ids = edge.prompt("日");
    let (last, prompt) = ids.split_last().unwrap();
    let whole = edge.tokenizer.decode(&ids);
    assert!(prompt.len() > 1 && whole.ends_with('日'));
    let bias = json!({ last.to_string(): 100 });
    let body = json!({ "prompt": prompt, "echo": true, "max_tokens": 1, "temperature": 0, "logit_bias": bias });
    assert_eq!(choice(&server, "/v1/completions", body).await["text"], format!("<|endoftext|>{whole}"));
}

/// OpenAI: "bytes … useful where characters are represented by multiple tokens".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_have_their_bytes() {
    let (edge, server) = (Edge::load(), Server::start_as(Options::default()).await);
    let id = *edge.prompt("日").last().unwrap();
    let bytes = edge.tokenizer.bytes_of(id).unwrap();
    assert!(std::str::from_utf8(&bytes).is_err());
    let with = json!({ "max_tokens": 1, "temperature": 0, "logit_bias": { id.to_string(): 100 } });
    let body = |more: Value| {
        let mut body = with.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let chat = body(json!({ "messages": [{ "role": "user", "content": "a" }], "logprobs": true, "top_logprobs": 1 }));
    let chat = choice(&server, "/v1/chat/completions", chat).await;
    let token = &chat["logprobs"]["content"][0];
    assert_eq!(token["bytes"], json!(bytes));
    assert!(token["top_logprobs"][0]["bytes"].is_array());
    let completion = choice(&server, "/v1/completions", body(json!({ "prompt": "a", "logprobs": 1 }))).await;
    let name: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    assert_eq!(list(&completion, "tokens"), [json!(format!("bytes:{name}"))]);
}

/// OpenAI: "there may be up to logprobs+1 elements", so that clients look the chosen token up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chosen_token_is_listed() {
    let server = Server::start_as(Options::default()).await;
    for count in [0, 2] {
        let body = json!({ "prompt": "Once upon", "max_tokens": 30, "seed": 3, "logprobs": count, "temperature": 1.5 });
        let choice = choice(&server, "/v1/completions", body).await;
        let (tokens, own) = (list(&choice, "tokens"), list(&choice, "token_logprobs"));
        assert_eq!(tokens.len(), 30);
        for ((token, own), top) in tokens.iter().zip(own).zip(list(&choice, "top_logprobs")) {
            let (top, of) = (top.as_object().unwrap(), &top[token.as_str().unwrap()]);
            assert!(of.as_f64() >= own.as_f64() && top.len() <= count + 1, "{token} in {top:?}");
        }
    }
}

/// A token that ends the text by the request's wish is in the text, and so in its log-probabilities.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_token_with_a_text_has_its_probability() {
    let (edge, server) = (Edge::load(), Server::start_as(Options::default()).await);
    let id = *edge.prompt("Once upon a time").last().unwrap();
    let body = json!({
        "prompt": "Once", "max_tokens": 4, "stop_token_ids": [id], "logit_bias": { id.to_string(): 100 }, "logprobs": 0,
    });
    let choice = choice(&server, "/v1/completions", body).await;
    assert_eq!((&choice["finish_reason"], list(&choice, "tokens")), (&json!("stop"), vec![choice["text"].clone()]));
}

/// Ids that the model does not have are the client's mistake, named before anything is computed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_ids_of_a_prompt_are_refused() {
    let server = Server::start_as(Options::default()).await;
    for prompt in [json!([0, 4096]), json!([0, 5000, 7]), json!([[1], [u32::MAX]])] {
        for more in [json!({}), json!({ "echo": true, "max_tokens": 0, "logprobs": 1 }), json!({ "stream": true })] {
            let mut body = json!({ "prompt": prompt });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let answer = http::post(server.address(), "/v1/completions", &[], &body.to_string()).await;
            let error = serde_json::from_str::<Value>(&answer.body).unwrap()["error"].take();
            assert_eq!((answer.status, &error["param"]), (400, &json!("prompt")), "{error}");
        }
    }
}
