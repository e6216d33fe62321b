//! Models by their names on the hub, against a server in this process that answers as the hub does.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::{
    collections::HashMap,
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Command, Output},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

const DRAFT: &[u8] = include_bytes!("../../pair/draft/draft-q8_0.gguf");
const TARGET: &[u8] = include_bytes!("../../pair/target/target-f16.gguf");
const PROMPT: &str = "Once upon a time";
/// Token that may read `me/gated`.
const TOKEN: &str = "secret";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// Commit after the first one.
const NEXT_COMMIT: &str = "89abcdef0123456789abcdef0123456789abcdef";
/// Number of bytes after which a large file may be cut off.
const PIECE: usize = 1 << 20;

/// Files of a repository: names and bytes.
type Files = Vec<(&'static str, Vec<u8>)>;

/// A mock of the hub, which runs until the process ends.
struct Hub {
    url: String,
    shared: Arc<Shared>,
}

struct Shared {
    repositories: Mutex<HashMap<&'static str, Files>>,
    commit: Mutex<&'static str>,
    /// Requests as method and path, with the range if there was one.
    requests: Mutex<Vec<String>>,
    /// Token of each request.
    tokens: Mutex<Vec<Option<String>>>,
    /// True while files are cut off after a [`PIECE`], and the rest is refused.
    fails: AtomicBool,
    /// Refusals: requests whose path contains this text get this status, this number of times.
    refusals: Mutex<Option<(&'static str, StatusCode, usize)>>,
    /// Name of a file that is stored elsewhere, its address there, and true if the redirect has its version.
    elsewhere: Mutex<Option<(&'static str, String, bool)>>,
    /// Folder of the clients' cache.
    home: PathBuf,
}

impl Shared {
    /// Number of bytes that an interrupted download has kept.
    fn kept(&self, owner: &str, name: &str) -> usize {
        let blobs = fs::read_dir(self.home.join(format!("hub/models--{owner}--{name}/blobs")));
        let mut paths = blobs.into_iter().flatten().map(|entry| entry.unwrap().path());
        let part = paths.find(|path| path.extension().is_some_and(|extension| extension == "incomplete"));
        part.map_or(0, |path| fs::metadata(path).unwrap().len() as usize)
    }
}

impl Hub {
    /// Starts a hub; `name` is that of its clients' cache, which is empty.
    fn start(name: &str, repositories: Vec<(&'static str, Files)>) -> Self {
        let repositories = Mutex::new(repositories.into_iter().collect());
        let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&home);
        let shared = Arc::new(Shared {
            repositories,
            commit: Mutex::new(COMMIT),
            requests: Mutex::default(),
            tokens: Mutex::default(),
            fails: AtomicBool::new(false),
            refusals: Mutex::default(),
            elsewhere: Mutex::default(),
            home,
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(answer).with_state(shared.clone());
        thread::spawn(|| {
            tokio::runtime::Runtime::new().unwrap().block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, app).await.unwrap();
            });
        });
        Self { url, shared }
    }

    /// Runs the command with this hub and its cache.
    fn outrider(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrider"));
        for variable in ["HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HF_HUB_OFFLINE"] {
            command.env_remove(variable);
        }
        let command = command.args(arguments).env("HF_ENDPOINT", &self.url).env("HF_HOME", &self.shared.home);
        command.envs(environment.iter().copied()).output().unwrap()
    }

    /// Ids of a generated text.
    fn ids(&self, pair: &[&str], environment: &[(&str, &str)]) -> Value {
        let arguments = [&["generate", "--local", "--json", "--max-tokens", "16"], pair, &[PROMPT]].concat();
        let output = self.outrider(&arguments, environment);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["tokenIds"].clone()
    }

    /// Last line that a failing run writes.
    fn complaint(&self, pair: &[&str], environment: &[(&str, &str)]) -> String {
        let output = self.outrider(&[&["generate", "--local"], pair, &[PROMPT]].concat(), environment);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap().trim_end().lines().last().unwrap().to_owned()
    }

    /// Requests since the last call.
    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.requests.lock().unwrap())
    }

    /// Tokens of the requests since the last call, each once.
    fn tokens(&self) -> Vec<Option<String>> {
        let mut tokens = std::mem::take(&mut *self.shared.tokens.lock().unwrap());
        tokens.sort();
        tokens.dedup();
        tokens
    }

    /// Redirects requests for files of this name to another address from now on.
    fn move_file(&self, name: &'static str, address: &str, says_version: bool) {
        *self.shared.elsewhere.lock().unwrap() = Some((name, address.to_owned(), says_version));
    }
}

/// Answers as the hub does: a repository's files, or one of them, whole or in part.
async fn answer(State(hub): State<Arc<Shared>>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (range, token) = (text(header::RANGE), headers.get(header::AUTHORIZATION));
    hub.requests.lock().unwrap().push(format!("{method} {} {range}", uri.path()).trim_end().to_owned());
    hub.tokens.lock().unwrap().push(token.map(|token| token.to_str().unwrap().to_owned()));
    if let Some((path, status, left)) = &mut *hub.refusals.lock().unwrap()
        && uri.path().contains(*path)
        && *left > 0
    {
        *left -= 1;
        return (*status, [("retry-after", "0")]).into_response();
    }
    let parts: Vec<&str> = uri.path().trim_start_matches('/').split('/').collect();
    let unknown = || (StatusCode::UNAUTHORIZED, "Invalid username or password.").into_response();
    let (repositories, commit) = (hub.repositories.lock().unwrap(), *hub.commit.lock().unwrap());
    match parts[..] {
        ["api", "models", owner, name, "revision", revision] => {
            let commit = match revision {
                "main" => commit,
                "v1" | "refs%2Fpr%2F1" | COMMIT => COMMIT,
                _ => return (StatusCode::NOT_FOUND, [("x-error-code", "RevisionNotFound")]).into_response(),
            };
            let Some(files) = repositories.get(&*format!("{owner}/{name}")) else { return unknown() };
            let siblings: Vec<Value> = files.iter().map(|(file, _)| json!({ "rfilename": file })).collect();
            axum::Json(json!({ "id": name, "sha": commit, "siblings": siblings })).into_response()
        }
        // Redirects to the same host again, where a client that compares only the last two addresses would send its
        // token.
        ["cdn", ref rest @ ..] => (StatusCode::FOUND, [("location", format!("/{}", rest.join("/")))]).into_response(),
        [owner, name, "resolve", revision, ref file @ ..] if revision == COMMIT || revision == NEXT_COMMIT => {
            let file = file.join("/");
            if name == "gated" && text(header::AUTHORIZATION) != format!("Bearer {TOKEN}") {
                return (StatusCode::UNAUTHORIZED, [("x-error-code", "GatedRepo")]).into_response();
            }
            let files = repositories.get(&*format!("{owner}/{name}")).map(Vec::as_slice).unwrap_or_default();
            let Some((_, bytes)) = files.iter().find(|(found, _)| *found == file) else {
                return StatusCode::NOT_FOUND.into_response();
            };
            let etag = format!("\"{owner}-{name}-{}-{}\"", file.replace('/', "-"), bytes.len());
            if let Some((_, address, says_version)) =
                hub.elsewhere.lock().unwrap().as_ref().filter(|(moved, ..)| *moved == file)
            {
                let location = format!("{address}{}", uri.path());
                let mut response = (StatusCode::FOUND, [("location", &*location), ("etag", "\"0\"")]).into_response();
                if *says_version {
                    response.headers_mut().insert("x-linked-etag", etag.parse().unwrap());
                }
                return response;
            }
            let first =
                range.strip_prefix("bytes=").map_or(0, |range| range.strip_suffix('-').unwrap().parse().unwrap());
            let rest = Bytes::copy_from_slice(&bytes[first..]);
            let status = if first > 0 { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
            let range = format!("bytes {first}-{}/{}", bytes.len() - 1, bytes.len());
            let headers = [("etag", etag), ("content-range", range), ("content-length", rest.len().to_string())];
            if !hub.fails.load(Ordering::Relaxed) || method == Method::HEAD {
                return (status, headers, rest).into_response();
            }
            if first > 0 {
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            }
            // The first piece is sent before the connection ends.
            let cut = async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                Err(std::io::Error::other("cut off"))
            };
            let pieces = stream::once(async move { Ok(rest.slice(..PIECE)) }).chain(stream::once(cut));
            (status, headers, Body::from_stream(pieces)).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

#[test]
fn a_pair_of_the_hub_is_the_pair_of_its_files() {
    let hub = Hub::start(
        "hub-pair",
        vec![
            ("me/draft", vec![("README.md", b"A draft.".to_vec()), ("draft.gguf", DRAFT.to_vec())]),
            ("me/target", vec![("target.gguf", TARGET.to_vec()), ("other.gguf", b"GGUF".to_vec())]),
        ],
    );
    let pair = ["--draft", "hf:me/draft", "--target", "hf:me/target:target.gguf"];
    let expected = hub.ids(&[], &[]);
    assert_eq!(hub.ids(&pair, &[]), expected);
    let asked = hub.requests();
    let of = |file: &str| asked.iter().filter(|request| request.ends_with(&format!("/{file}"))).count();
    assert_eq!([of("draft.gguf"), of("target.gguf"), of("README.md"), of("other.gguf")], [2, 2, 0, 0], "{asked:?}");
    // One download is enough for all that share the cache.
    let snapshot = hub.shared.home.join("hub/models--me--draft/snapshots").join(COMMIT);
    assert_eq!(fs::read(snapshot.join("draft.gguf")).unwrap(), DRAFT);
    assert_eq!(hub.ids(&pair, &[]), expected);
    assert_eq!(hub.requests(), ["GET /api/models/me/draft/revision/main"]);
    assert_eq!(hub.ids(&pair, &[("HF_HUB_OFFLINE", "1")]), expected);
    assert_eq!(hub.requests(), [""; 0]);
    // The discard port, where nothing listens.
    assert_eq!(hub.ids(&pair, &[("HF_ENDPOINT", "http://127.0.0.1:9")]), expected);
    let line = hub.complaint(&["--target", "hf:me/target"], &[]);
    assert!(line.contains("hf:me/target:other.gguf, or :target.gguf"), "{line}");
}

#[test]
fn what_cannot_be_had_gets_a_sentence() {
    let hub = Hub::start("hub-refusals", vec![("me/gated", vec![("model.gguf", DRAFT.to_vec())])]);
    let line = hub.complaint(&["--draft", "hf:me/nothing"], &[]);
    assert!(line.contains("there is no model me/nothing at http://127.0.0.1") && line.contains("HF_TOKEN"), "{line}");
    let gated = ["--draft", "hf:me/gated"];
    let line = hub.complaint(&gated, &[]);
    assert!(line.contains("me/gated is gated") && line.contains("set HF_TOKEN"), "{line}");
    let line = hub.complaint(&gated, &[("HF_TOKEN", "another")]);
    assert!(line.contains("me/gated is gated"), "{line}");
    let offline = [("HF_HUB_OFFLINE", "1")];
    let line = hub.complaint(&gated, &offline);
    assert!(line.contains("not in the cache") && line.contains("HF_HUB_OFFLINE"), "{line}");
    assert_eq!(hub.ids(&gated, &[("HF_TOKEN", TOKEN)]), hub.ids(&[], &[]));
    assert_eq!(hub.ids(&gated, &offline), hub.ids(&[], &[]));
    let line = hub.complaint(&["--draft", "hf:gpt2"], &[]);
    assert!(line.contains("\"hf:gpt2\" is not the name of a model") && line.contains("hf:OWNER/NAME"), "{line}");
    let line = hub.complaint(&["--draft", "hf:me/other"], &[("HF_ENDPOINT", "http://127.0.0.1:9")]);
    assert!(line.contains("me/other cannot be downloaded from http://127.0.0.1:9"), "{line}");
}

/// A checkpoint comes with the files beside its weights, and is then a folder like any other.
#[test]
fn a_checkpoint_comes_whole() {
    let config = include_bytes!("../../models/tests/golden/grouped.config.json").to_vec();
    let weights = include_bytes!("../../models/tests/golden/grouped.safetensors").to_vec();
    let files =
        vec![("config.json", config), ("model.safetensors", weights), ("flax_model.msgpack", b"not wanted".to_vec())];
    let hub = Hub::start("hub-folder", vec![("me/folder", files)]);
    let line = hub.complaint(&["--target", "hf:me/folder"], &[]);
    let snapshot = hub.shared.home.join("hub/models--me--folder/snapshots").join(COMMIT);
    let said = format!("the target model {} comes without a tokenizer", snapshot.display());
    assert!(line.contains(&said), "{line}");
    let mut found: Vec<_> = fs::read_dir(snapshot).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    found.sort();
    assert_eq!(found, ["config.json", "model.safetensors"]);
}

#[test]
fn a_download_that_is_cut_off_is_resumed() {
    let bytes = vec![7; 5 * PIECE / 2];
    let hub = Hub::start("hub-resume", vec![("me/large", vec![("large.gguf", bytes)])]);
    hub.shared.fails.store(true, Ordering::Relaxed);
    let line = hub.complaint(&["--target", "hf:me/large"], &[]);
    assert!(line.contains("me/large cannot be downloaded") && line.contains("500"), "{line}");
    let kept = hub.shared.kept("me", "large");
    assert!((1..=PIECE).contains(&kept), "{kept} bytes are kept");
    hub.requests();
    hub.shared.fails.store(false, Ordering::Relaxed);
    let line = hub.complaint(&["--target", "hf:me/large"], &[]);
    assert!(line.contains("large.gguf cannot be loaded"), "it is there, and no model: {line}");
    let asked = hub.requests();
    let ranges: Vec<&String> = asked.iter().filter(|request| request.contains("bytes=")).collect();
    assert!(ranges.len() == 1 && ranges[0].ends_with(&format!("bytes={kept}-")), "{asked:?}");
    let blob = hub.shared.home.join("hub/models--me--large/snapshots").join(COMMIT).join("large.gguf");
    assert_eq!(fs::read(blob).unwrap(), vec![7; 5 * PIECE / 2]);
}

/// The hub redirects downloads to other hosts, here another port, and these redirect to themselves.
#[test]
fn the_token_is_shown_to_the_hub_alone() {
    let files = || vec![("me/target", vec![("target.gguf", TARGET.to_vec())])];
    let target = ["--target", "hf:me/target:target.gguf"];
    for says_version in [true, false] {
        let hub = Hub::start("hub-token", files());
        let elsewhere = Hub::start("hub-token-elsewhere", files());
        hub.move_file("target.gguf", &format!("{}/cdn", elsewhere.url), says_version);
        assert_eq!(hub.ids(&target, &[("HF_TOKEN", TOKEN)]), hub.ids(&[], &[]));
        assert_eq!(elsewhere.tokens(), [None]);
        assert_eq!(hub.tokens(), [Some(format!("Bearer {TOKEN}"))]);
        let asked = elsewhere.requests();
        assert!(asked[asked.len() - 1].starts_with("GET /me/target/resolve/"), "{asked:?}");
    }
    let hub = Hub::start("hub-token-within", files());
    let gated = vec![("me/gated", vec![("target.gguf", TARGET.to_vec())])];
    let within = Hub::start("hub-token-gated", gated);
    assert_eq!(within.ids(&["--target", "hf:me/gated"], &[("HF_TOKEN", &format!(" {TOKEN}\n"))]), hub.ids(&[], &[]));
    assert_eq!(within.tokens(), [Some(format!("Bearer {TOKEN}"))], "white space is no part of it");
    let line = within.complaint(&["--target", "hf:me/gated:other.gguf"], &[("HF_TOKEN", "two\nlines")]);
    assert!(line.contains("HF_TOKEN") && !line.contains("two"), "{line}");
}

#[test]
fn a_hub_that_redirects_without_end_is_left() {
    let hub = Hub::start("hub-circle", vec![("me/target", vec![("target.gguf", TARGET.to_vec())])]);
    hub.move_file("target.gguf", &hub.url, false);
    let line = hub.complaint(&["--target", "hf:me/target"], &[]);
    assert!(line.contains("redirected more than 10 times"), "{line}");
}

/// A temporary refusal is repeated after the pause that it names; a permanent one is not.
#[test]
fn a_busy_hub_is_asked_again() {
    for (status, path) in [
        (StatusCode::SERVICE_UNAVAILABLE, "/api/models/"),
        (StatusCode::TOO_MANY_REQUESTS, "/resolve/"),
        (StatusCode::BAD_GATEWAY, "/resolve/"),
    ] {
        let hub = Hub::start("hub-busy", vec![("me/draft", vec![("draft.gguf", DRAFT.to_vec())])]);
        *hub.shared.refusals.lock().unwrap() = Some((path, status, 2));
        assert_eq!(hub.ids(&["--draft", "hf:me/draft"], &[]), hub.ids(&[], &[]), "{status}");
    }
    let hub = Hub::start("hub-broken", vec![("me/draft", vec![("draft.gguf", DRAFT.to_vec())])]);
    *hub.shared.refusals.lock().unwrap() = Some(("/api/models/", StatusCode::INTERNAL_SERVER_ERROR, 1));
    let line = hub.complaint(&["--draft", "hf:me/draft"], &[]);
    assert!(line.contains("500 Internal Server Error") && hub.requests().len() == 1, "{line}");
}

/// A commit is downloaded as a whole or not at all.
#[test]
fn a_new_commit_is_taken_whole() {
    let hub = Hub::start("hub-commit", vec![("me/draft", vec![("a.gguf", DRAFT.to_vec())])]);
    let expected = hub.ids(&[], &[]);
    assert_eq!(hub.ids(&["--draft", "hf:me/draft"], &[]), expected);
    *hub.shared.commit.lock().unwrap() = NEXT_COMMIT;
    *hub.shared.refusals.lock().unwrap() = Some(("/resolve/", StatusCode::NOT_FOUND, 1));
    let line = hub.complaint(&["--draft", "hf:me/draft"], &[]);
    assert!(line.contains("404"), "{line}");
    let reference = hub.shared.home.join("hub/models--me--draft/refs/main");
    assert_eq!(fs::read_to_string(&reference).unwrap(), COMMIT);
    hub.requests();
    assert_eq!(hub.ids(&["--draft", "hf:me/draft"], &[]), expected);
    assert_eq!(fs::read_to_string(&reference).unwrap(), NEXT_COMMIT);
    let asked = hub.requests();
    assert!(asked.len() == 2 && asked[1].starts_with("HEAD "), "its bytes were in the cache: {asked:?}");
}

#[test]
fn a_revision_is_a_branch_a_tag_or_a_commit() {
    let hub = Hub::start("hub-revision", vec![("me/draft", vec![("draft.gguf", DRAFT.to_vec())])]);
    *hub.shared.commit.lock().unwrap() = NEXT_COMMIT;
    let expected = hub.ids(&[], &[]);
    let folder = hub.shared.home.join("hub/models--me--draft");
    for (revision, requested) in [("v1", "v1"), ("refs/pr/1", "refs%2Fpr%2F1")] {
        let name = format!("hf:me/draft@{revision}");
        assert_eq!(hub.ids(&["--draft", &name], &[]), expected);
        assert_eq!(hub.requests()[0], format!("GET /api/models/me/draft/revision/{requested}"));
        assert_eq!(fs::read_to_string(folder.join("refs").join(revision)).unwrap(), COMMIT);
        assert_eq!(hub.ids(&["--draft", &name], &[("HF_HUB_OFFLINE", "1")]), expected);
    }
    assert_eq!(fs::read(folder.join("snapshots").join(COMMIT).join("draft.gguf")).unwrap(), DRAFT);
    assert!(!folder.join("refs/main").exists() && !folder.join("snapshots").join(NEXT_COMMIT).exists());
    // A commit never changes, so its file in the cache needs no request.
    assert_eq!(hub.ids(&["--draft", &format!("hf:me/draft@{COMMIT}:draft.gguf")], &[]), expected);
    assert_eq!(hub.requests(), [""; 0]);
    let line = hub.complaint(&["--draft", "hf:me/draft@v2"], &[]);
    assert!(line.contains("me/draft has no revision v2"), "{line}");
    let line = hub.complaint(&["--draft", "hf:me/draft@"], &[]);
    assert!(line.contains("@REVISION"), "{line}");
}

/// The variables of `huggingface_hub`: another folder for the cache, and a file with the token.
#[test]
fn the_cache_and_the_token_are_where_the_environment_has_them() {
    let hub = Hub::start("hub-environment", vec![("me/gated", vec![("draft.gguf", DRAFT.to_vec())])]);
    let (cache, token) = (hub.shared.home.join("elsewhere"), hub.shared.home.join("secret"));
    fs::create_dir_all(&hub.shared.home).unwrap();
    fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let environment = [("HF_HUB_CACHE", cache.to_str().unwrap()), ("HF_TOKEN_PATH", token.to_str().unwrap())];
    assert_eq!(hub.ids(&["--draft", "hf:me/gated"], &environment), hub.ids(&[], &[]));
    assert!(cache.join("models--me--gated/refs/main").is_file() && !hub.shared.home.join("hub").exists());
}

#[test]
fn a_file_in_a_folder_is_found_without_the_hub() {
    let hub = Hub::start("hub-nested", vec![("me/draft", vec![("q8/draft.gguf", DRAFT.to_vec())])]);
    let expected = hub.ids(&[], &[]);
    let away = [[].as_slice(), &[("HF_HUB_OFFLINE", "1")], &[("HF_ENDPOINT", "http://127.0.0.1:9")]];
    for environment in away {
        assert_eq!(hub.ids(&["--draft", "hf:me/draft"], environment), expected, "{environment:?}");
    }
    let link = hub.shared.home.join("hub/models--me--draft/snapshots").join(COMMIT).join("q8/draft.gguf");
    assert_eq!(fs::read(link).unwrap(), DRAFT);
}

/// Names from a hub become paths in the cache.
#[test]
fn a_hub_writes_nowhere_else() {
    let hub = Hub::start("hub-outside", vec![("me/draft", vec![("../../../../outside.gguf", DRAFT.to_vec())])]);
    let line = hub.complaint(&["--draft", "hf:me/draft"], &[]);
    assert!(line.contains("no file that can be read"), "{line}");
    let hub = Hub::start("hub-outside", vec![("me/draft", vec![("draft.gguf", DRAFT.to_vec())])]);
    *hub.shared.commit.lock().unwrap() = "../../../outside";
    let line = hub.complaint(&["--draft", "hf:me/draft"], &[]);
    assert!(line.contains("which is not a commit"), "{line}");
}
