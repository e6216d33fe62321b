//! The admin port, and a file of keys that changes.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[expect(dead_code, reason = "what other tests ask of it, too")]
mod process;

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a request to an address; returns the status and the response.
fn exchange(address: &str, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.0\r\nContent-Length: {length}\r\n{headers}\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

/// An address that was free a moment ago.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn the_admin_port_has_what_the_public_one_then_lacks() {
    let admin = free_address();
    let server = process::start(&["--admin", &admin]);
    let get = |address: &str, path: &str| exchange(address, "GET", path, "", "").0;
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!((get(&admin, path), get(&server.address, path)), (200, 404), "{path}");
    }
    assert_eq!((get(&admin, "/v1/models"), get(&server.address, "/v1/models")), (404, 200));
    assert_eq!(get(&server.address, "/log-level"), 404);

    let level = |method: &str, body: &str| exchange(&admin, method, "/log-level", "", body);
    assert!(level("PUT", "info,outrider_cloud=debug\n").1.contains("outrider_cloud=debug"));
    let (status, answer) = level("GET", "");
    assert!(status == 200 && answer.contains("outrider_cloud=debug"), "{answer}");
    for wrong in ["", "loud=very"] {
        let (status, answer) = level("PUT", wrong);
        assert!(status == 400 && answer.contains("invalid_filter"), "{wrong}: {answer}");
    }
    assert!(level("GET", "").1.contains("outrider_cloud=debug"), "a wrong filter changes nothing");
}

#[test]
fn without_it_probes_stay_and_a_changed_file_of_keys_is_read_again() {
    let key = |name: &str, secret: &str| format!("[[key]]\nname = \"{name}\"\nsecret = \"{secret}\"\n");
    let path = process::scratch("keys.toml", key("first", "0123456789abcdef").as_bytes());
    let server = process::start(&["--keys", path.to_str().unwrap()]);
    assert_eq!(exchange(&server.address, "GET", "/healthz", "", "").0, 200);
    let status = |secret: &str| {
        exchange(&server.address, "GET", "/v1/models", &format!("Authorization: Bearer {secret}\r\n"), "").0
    };
    assert_eq!((status("0123456789abcdef"), status("fedcba98765432100")), (200, 401));
    fs::write(&path, key("second", "fedcba98765432100")).unwrap();
    let start = Instant::now();
    while status("fedcba98765432100") != 200 {
        assert!(start.elapsed() < PATIENCE, "the file is not read again");
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(status("0123456789abcdef"), 401);
    // A file that cannot be used changes nothing.
    fs::write(&path, "[[key]]\n").unwrap();
    thread::sleep(Duration::from_secs(3));
    assert_eq!(status("fedcba98765432100"), 200);
}

#[test]
fn a_file_of_keys_that_cannot_be_used_ends_the_command() {
    let path = process::scratch("wrong-keys.toml", b"[[key]]\nname = \"a\"\nsecret = \"short\"\n");
    let line = process::complaint(&["serve", "--keys", path.to_str().unwrap()]);
    assert!(line.contains("wrong-keys.toml cannot be used: the secret of the key \"a\" needs 16"), "{line}");
}
