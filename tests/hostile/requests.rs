//! Strangers who ask the API for more than the server has.

use std::time::{Duration, Instant};

use outrider_cloud::app::{Access, Caps, Proxies};
use outrider_tests::{
    http::{self, Answer},
    server::{Options, Server},
};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream, time};

async fn server(caps: Caps) -> Server {
    let access = Access { proxies: Proxies::new(vec!["127.0.0.0/8".parse().unwrap()]), ..Access::default() };
    Server::start_as(Options { caps, access, ..Options::default() }).await
}

fn error(answer: &Answer) -> Value {
    serde_json::from_str::<Value>(&answer.body).unwrap()["error"].clone()
}

async fn post(server: &Server, from: &str, path: &str, body: &Value) -> Answer {
    http::post(server.address(), path, &[("X-Forwarded-For", from)], &body.to_string()).await
}

/// Time for what happens at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request that announces a long body, and has begun with it.
async fn begin(server: &Server, from: &str) -> TcpStream {
    let head = format!(
        "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nX-Forwarded-For: {from}\r\n\
         Content-Length: 1000000\r\n\r\n{{"
    );
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whose_address_has_enough_is_not_read() {
    let server = server(Caps { sessions_per_address: 2, ..Caps::default() }).await;
    let slow = [begin(&server, "192.0.2.1").await, begin(&server, "192.0.2.1").await];
    let refused = async {
        loop {
            let mut third = begin(&server, "192.0.2.1").await;
            // Where it is heard before the other two it is one of the two that are waited for: another, then.
            let answer = time::timeout(Duration::from_millis(500), http::rest(&mut third)).await;
            if let Ok(answer) = answer
                && answer.status != 0
            {
                break answer;
            }
        }
    };
    let refused = time::timeout(PATIENCE, refused).await.expect("no body is waited for");
    assert_eq!((refused.status, &error(&refused)["code"]), (429, &"too_many_sessions".into()));
    let once = json!({ "prompt": "Once", "max_tokens": 2 });
    assert_eq!(post(&server, "192.0.2.2", "/v1/completions", &once).await.status, 200);
    drop(slow);
    let there_is_room = async {
        while post(&server, "192.0.2.1", "/v1/completions", &once).await.status != 200 {
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(PATIENCE, there_is_room).await.expect("places are given up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_fit_is_refused_before_it_is_encoded() {
    let server = server(Caps { sessions_per_address: 0, ..Caps::default() }).await;
    let long = "Once upon a time ".repeat(60_000);
    let start = Instant::now();
    for (path, body, part) in [
        ("/v1/completions", json!({ "prompt": long }), "bytes"),
        ("/v1/chat/completions", json!({ "messages": [{ "role": "user", "content": long }] }), "bytes"),
        (
            "/v1/chat/completions",
            json!({ "messages": vec![json!({ "role": "user", "content": "a" }); 600] }),
            "600 messages",
        ),
    ] {
        let answer = post(&server, "192.0.2.1", path, &body).await;
        let error = error(&answer);
        assert_eq!((answer.status, &error["code"]), (400, &"context_length_exceeded".into()), "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(part) && message.contains("512"), "{message}");
    }
    println!("refused in {:?}", start.elapsed());
    // Nor is it read what is made of nothing but braces; what only has them in its text is.
    for (prompt, message) in [
        (json!(vec![json!({ "a": 1 }); 60_000]), "The body has 180002 values; the limit is 67584."),
        (json!("{\\\"[,:".repeat(20_000)), "A text of 120000 bytes does not fit into a context of 512 tokens."),
    ] {
        let answer = post(&server, "192.0.2.1", "/v1/completions", &json!({ "prompt": prompt })).await;
        assert_eq!((answer.status, &error(&answer)["message"]), (400, &message.into()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_trickles_is_not_waited_for() {
    let pause = Duration::from_millis(200);
    let server = server(Caps { sessions_per_address: 0, body_read: pause, ..Caps::default() }).await;
    let mut stream = begin(&server, "192.0.2.1").await;
    let (mut read, mut write) = stream.split();
    let trickle = async {
        // Ends with the connection.
        while write.write_all(b" ").await.is_ok() {
            time::sleep(pause / 4).await;
        }
    };
    let answer = async {
        let mut bytes = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut read, &mut bytes).await;
        Answer::of(&bytes)
    };
    let answer = time::timeout(Duration::from_secs(5), async {
        tokio::select! {
            answer = answer => answer,
            () = trickle => panic!("the connection ended before its answer"),
        }
    });
    let answer = answer.await.expect("the body is not waited for");
    assert_eq!((answer.status, &error(&answer)["code"]), (408, &"body_timeout".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_end_before_the_server_does_and_are_told_when_they_cannot() {
    for is_cut in [false, true] {
        let server = server(Caps { sessions_per_address: 0, ..Caps::default() }).await;
        let body = json!({ "prompt": "Once", "max_tokens": 480, "stream": true }).to_string();
        let address = server.address().to_owned();
        let asked = tokio::spawn(async move { http::post(&address, "/v1/completions", &[], &body).await });
        while server.engine.load().sessions == 0 {
            time::sleep(Duration::from_millis(1)).await;
        }
        server.stop();
        if is_cut {
            server.close();
        }
        let body = asked.await.unwrap().body;
        let events: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        let [.., last, done] = events[..] else { panic!("{body}") };
        let last: Value = serde_json::from_str(last).unwrap();
        assert_eq!(done, "[DONE]");
        if is_cut {
            assert_eq!(last["error"]["code"], "shutting_down", "{last}");
        } else {
            assert!(last["choices"][0]["finish_reason"].is_string(), "{last}");
        }
    }
}
