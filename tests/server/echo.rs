//! Texts that begin with their prompt, with the log-probabilities of its tokens, and messages that go on.

use outrider_tests::{
    http,
    server::{Edge, Options, Server},
};
use serde_json::{Value, json};

async fn post(server: &Server, path: &str, body: &Value) -> (u16, Value) {
    let answer = http::post(server.address(), path, &[], &body.to_string()).await;
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

async fn completion(server: &Server, body: &Value) -> Value {
    let (status, answer) = post(server, "/v1/completions", body).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

fn list<'v>(choice: &'v Value, name: &str) -> &'v [Value] {
    choice["logprobs"][name].as_array().unwrap()
}

/// A token has the same probability in a prompt as when the target wrote it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompts_tokens_have_the_probabilities_of_a_written_text() {
    let (edge, server) = (Edge::load(), Server::start_as(Options::default()).await);
    let prompt = edge.prompt("Once upon a time");
    let written = json!({ "prompt": prompt, "max_tokens": 90, "logprobs": 2, "seed": 4, "return_token_ids": true });
    let written = completion(&server, &written).await["choices"][0].take();
    let ids: Vec<u64> = written["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    // More tokens than rows of a pass.
    let text: Vec<u64> = prompt.iter().map(|&id| u64::from(id)).chain(ids.iter().copied()).collect();
    assert!(text.len() > 66, "{}", text.len());
    let whole = completion(&server, &json!({ "prompt": text, "max_tokens": 0, "logprobs": 2, "echo": true })).await;
    let (usage, echoed) = (&whole["usage"], &whole["choices"][0]);
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(text.len()), &json!(0)));
    assert_eq!(echoed["finish_reason"], "length");
    assert_eq!(echoed["text"], format!("<|endoftext|>Once upon a time{}", written["text"].as_str().unwrap()));
    let written_tokens = list(&written, "tokens").len();
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        let (all, last) = (list(echoed, name), list(&written, name));
        assert_eq!(all.len(), text.len(), "{name}");
        if name != "text_offset" {
            assert_eq!(&all[prompt.len()..prompt.len() + written_tokens], last, "{name}");
        }
    }
    assert_eq!([&list(echoed, "token_logprobs")[0], &list(echoed, "top_logprobs")[0]], [&Value::Null; 2]);
    assert_in_place(echoed);

    // As evaluation harnesses ask: one token more.
    let more = json!({ "prompt": text, "max_tokens": 1, "logprobs": 1, "echo": true, "temperature": 0, "n": 2 });
    let more = completion(&server, &more).await;
    assert_eq!(more["usage"]["completion_tokens"], 2);
    for choice in more["choices"].as_array().unwrap() {
        assert_eq!(list(choice, "tokens").len(), text.len() + 1);
        assert_eq!(list(choice, "token_logprobs")[1..text.len()], list(echoed, "token_logprobs")[1..]);
        let last = text.len();
        let offset = list(choice, "text_offset")[last].as_u64().unwrap() as usize;
        let length = echoed["text"].as_str().unwrap().chars().count();
        assert_eq!(offset, length, "the text goes on after the prompt");
    }
    let plain = completion(&server, &json!({ "prompt": "Once upon a time", "max_tokens": 4, "seed": 1 })).await;
    let echo = json!({ "prompt": "Once upon a time", "max_tokens": 4, "seed": 1, "echo": true, "stream": true });
    let streamed = http::post(server.address(), "/v1/completions", &[], &echo.to_string()).await.body;
    let data = streamed.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let pieces = data.map(|data| serde_json::from_str::<Value>(data).unwrap()["choices"][0]["text"].take());
    let pieces: String = pieces.map(|piece| piece.as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(pieces, format!("Once upon a time{}", plain["choices"][0]["text"].as_str().unwrap()));
    let (status, refused) = post(&server, "/v1/completions", &json!({ "prompt": "a", "max_tokens": 0 })).await;
    assert_eq!((status, &refused["error"]["param"]), (400, &json!("max_tokens")), "{refused}");
}

/// OpenAI and vLLM return the prompt unchanged: clients cut it off by its length.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_comes_back_as_it_was_sent() {
    let server = Server::start_as(Options::default()).await;
    let end = "<|endoftext|>";
    let prompt = format!("{end}Once é{end} upon");
    for logprobs in [Value::Null, json!(1)] {
        let body =
            json!({ "prompt": [prompt, "Once"], "max_tokens": 3, "echo": true, "logprobs": logprobs, "seed": 1 });
        let choices = completion(&server, &body).await["choices"].take();
        for (choice, prompt) in choices.as_array().unwrap().iter().zip([prompt.as_str(), "Once"]) {
            assert!(choice["text"].as_str().unwrap().starts_with(prompt), "{choice}");
        }
        if !logprobs.is_null() {
            assert_in_place(&choices[0]);
            assert!(list(&choices[0], "tokens").iter().filter(|token| **token == end).count() == 2, "{choices}");
        }
    }
    // Ids are decoded, with the special tokens among them.
    let ids = [vec![0], Edge::load().tokenizer.encode("Once upon").unwrap(), vec![0]].concat();
    let body = json!({ "prompt": ids, "max_tokens": 0, "echo": true, "logprobs": 0 });
    let choice = completion(&server, &body).await["choices"][0].take();
    assert_eq!(choice["text"], format!("{end}Once upon{end}"), "{choice}");
    assert_in_place(&choice);
}

/// Each token of an echo stands where its offset says.
fn assert_in_place(choice: &Value) {
    let characters: Vec<char> = choice["text"].as_str().unwrap().chars().collect();
    for (token, offset) in list(choice, "tokens").iter().zip(list(choice, "text_offset")) {
        let (token, offset) = (token.as_str().unwrap(), offset.as_u64().unwrap() as usize);
        if !token.starts_with("bytes:") {
            assert_eq!(characters[offset..][..token.chars().count()].iter().collect::<String>(), token, "{choice}");
        }
    }
}

/// Without a template a conversation has the plain form, which a completion can spell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_the_assistant_goes_on() {
    let server = Server::start_as(Options::default()).await;
    let chat = |role: &str, more: Value| {
        let messages = json!([{ "role": "user", "content": "Hi" }, { "role": role, "content": "Once upon a" }]);
        let mut body = json!({ "messages": messages, "max_tokens": 8, "temperature": 0 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let continues = json!({ "continue_final_message": true, "add_generation_prompt": false });
    let (status, answer) = post(&server, "/v1/chat/completions", &chat("assistant", continues.clone())).await;
    assert_eq!(status, 200, "{answer}");
    let prompt = "User: Hi\n\nAssistant: Once upon a";
    let same = completion(&server, &json!({ "prompt": prompt, "max_tokens": 8, "temperature": 0 })).await;
    assert_eq!(answer["choices"][0]["message"]["content"], same["choices"][0]["text"]);
    let (_, another) = post(&server, "/v1/chat/completions", &chat("assistant", json!({}))).await;
    assert_ne!(answer["choices"][0]["message"]["content"], another["choices"][0]["message"]["content"]);
    for (role, more, param) in [
        ("user", continues, "messages"),
        (
            "assistant",
            json!({ "continue_final_message": true, "add_generation_prompt": true }),
            "add_generation_prompt",
        ),
    ] {
        let (status, refused) = post(&server, "/v1/chat/completions", &chat(role, more)).await;
        assert_eq!((status, &refused["error"]["param"]), (400, &json!(param)), "{refused}");
    }
}
