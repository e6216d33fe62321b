use super::*;

const FILE: &str = r#"
[[key]]
name = "web"
secret = "0123456789abcdef"
requests-per-minute = 1
sessions = 1

[[key]]
name = "prometheus"
sha256 = "8DEF0A09B7917C61B2B2638A8932927FC8CAE48B5CC5C58700C7CF6931480AA3"
rights = ["metrics"]
"#;

#[test]
fn a_secret_or_its_digest_makes_a_key() {
    let keys = Keys::parse(FILE).unwrap();
    let web = keys.find("0123456789abcdef").unwrap();
    assert_eq!((web.name(), web.has(Right::Api), web.has(Right::Metrics)), ("web", true, false));
    let other = FILE.replace("8DEF0A09B7917C61B2B2638A8932927FC8CAE48B5CC5C58700C7CF6931480AA3", &"ab".repeat(32));
    assert_eq!(Keys::parse(&other).unwrap().all()[1].digest, [0xab; 32]);
    assert!(keys.find("0123456789abcdeg").is_none() && keys.find("").is_none());
    assert!(!format!("{keys:?}").contains("0123"));
}

#[test]
fn a_reload_keeps_usage_and_what_is_left() {
    let keys = Keys::parse(FILE).unwrap();
    let web = keys.find("0123456789abcdef").unwrap();
    let session = web.open_session().unwrap();
    assert!(matches!(web.open_session(), Err(Exceeded::Sessions(_))));
    assert_eq!(keys.replace(&FILE.replace("0123456789abcdef", "fedcba9876543210")), Ok(2));
    assert!(keys.find("0123456789abcdef").is_none());
    let web = keys.find("fedcba9876543210").unwrap();
    assert!(matches!(web.open_session(), Err(Exceeded::Sessions(_))), "the session is still open");
    assert!(matches!(web.admit_request(), Err(Exceeded::Requests { .. })));
    drop(session);
    assert_eq!(web.usage().sessions.load(Ordering::Relaxed), 0);
    assert!(keys.replace("").is_err() && keys.find("fedcba9876543210").is_some());
}

#[test]
fn wrong_files_are_refused_without_a_secret_in_the_message() {
    let key = |more: &str| format!("[[key]]\nname = \"a\"\n{more}\n");
    let secret = "secret = \"0123456789abcdef\"";
    for (text, part) in [
        (String::new(), "no [[key]]"),
        (key(""), "either a secret or its sha256"),
        (key("secret = \"short\""), "16 or more"),
        (key("secret = \"0123456789abcde%\""), "16 or more"),
        (key("sha256 = \"ab\""), "64 hexadecimal"),
        (key(&format!("{secret}\nsha256 = \"{}\"", "ab".repeat(32))), "either a secret or its sha256"),
        (key(secret) + &key(secret), "another"),
        (key(&format!("{secret}\nsessions = 0")), "line 4"),
        (key(&format!("{secret}\nrights = [\"all\"]")), "line 4"),
        (key(&format!("{secret}x")), "line 3"),
        (key(&format!("{secret}\nsession = 3")), "line 4"),
        (key(secret).replace("\"a\"", "\"a b\""), "letters, digits"),
    ] {
        let error = Keys::parse(&text).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains("0123456789"), "{error}");
    }
}
