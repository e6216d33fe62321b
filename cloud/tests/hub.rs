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
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

const DRAFT: &[u8] = include_bytes!("../../pair/draft/draft-q8_0.gguf");
const TARGET: &[u8] = include_bytes!("../../pair/target/target-f16.gguf");
const PROMPT: &str = "Once upon a time";
/// Whoever has it may read `me/gated`.
const TOKEN: &str = "secret";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// A download that is cut off is resumed at a multiple of this.
const CHUNK: u64 = 8 << 20;

/// Names of files, and their bytes.
type Files = Vec<(&'static str, Vec<u8>)>;

/// A hub, until the process ends.
struct Hub {
    url: String,
    shared: Arc<Shared>,
}

struct Shared {
    repositories: HashMap<&'static str, Files>,
    /// What was asked for: paths, with the range if there was one.
    requests: Mutex<Vec<String>>,
    /// Whether the server fails behind the second [`CHUNK`].
    fails: AtomicBool,
    /// The cache of who asks.
    home: PathBuf,
}

impl Shared {
    /// Bytes that a download that goes on has kept: they stand behind the file that is to be, as hf-hub writes them.
    fn kept(&self, owner: &str, name: &str) -> u64 {
        let blobs = fs::read_dir(self.home.join(format!("hub/models--{owner}--{name}/blobs")));
        let mut paths = blobs.into_iter().flatten().map(|entry| entry.unwrap().path());
        let Some(path) = paths.find(|path| path.to_string_lossy().ends_with(".sync.part")) else { return 0 };
        let bytes = fs::read(path).unwrap();
        bytes.last_chunk().map_or(0, |kept| u64::from_le_bytes(*kept))
    }
}

impl Hub {
    /// `name` is that of its visitors' cache, which is empty.
    fn start(name: &str, repositories: Vec<(&'static str, Files)>) -> Self {
        let repositories = repositories.into_iter().collect();
        let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&home);
        let (requests, fails) = (Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { repositories, requests, fails, home });
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

    /// Runs the command for a visitor.
    fn outrider(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrider"));
        for variable in ["HF_TOKEN", "HF_HUB_OFFLINE"] {
            command.env_remove(variable);
        }
        let command = command.args(arguments).env("HF_ENDPOINT", &self.url).env("HF_HOME", &self.shared.home);
        command.envs(environment.iter().copied()).output().unwrap()
    }

    /// Ids of a text.
    fn ids(&self, pair: &[&str], environment: &[(&str, &str)]) -> Value {
        let arguments = [&["generate", "--local", "--json", "--max-tokens", "16"], pair, &[PROMPT]].concat();
        let output = self.outrider(&arguments, environment);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["tokenIds"].clone()
    }

    /// The last line that a failing run says.
    fn complaint(&self, pair: &[&str], environment: &[(&str, &str)]) -> String {
        let output = self.outrider(&[&["generate", "--local"], pair, &[PROMPT]].concat(), environment);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap().trim_end().lines().last().unwrap().to_owned()
    }

    /// What was asked for since the last time.
    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.requests.lock().unwrap())
    }
}

/// Answers as the hub does: a repository's files, or one of them, whole or in part.
async fn answer(State(hub): State<Arc<Shared>>, uri: Uri, headers: HeaderMap) -> Response {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let range = text(header::RANGE);
    hub.requests.lock().unwrap().push(format!("{} {range}", uri.path()));
    let parts: Vec<&str> = uri.path().trim_start_matches('/').split('/').collect();
    let unknown = || (StatusCode::UNAUTHORIZED, "Invalid username or password.").into_response();
    match parts[..] {
        ["api", "models", owner, name, "revision", "main"] => {
            let Some(files) = hub.repositories.get(&*format!("{owner}/{name}")) else { return unknown() };
            let siblings: Vec<Value> = files.iter().map(|(file, _)| json!({ "rfilename": file })).collect();
            axum::Json(json!({ "id": name, "sha": COMMIT, "siblings": siblings })).into_response()
        }
        [owner, name, "resolve", "main", file] => {
            if name == "gated" && text(header::AUTHORIZATION) != format!("Bearer {TOKEN}") {
                return (StatusCode::UNAUTHORIZED, [("x-error-code", "GatedRepo")]).into_response();
            }
            let files = hub.repositories.get(&*format!("{owner}/{name}")).map(Vec::as_slice).unwrap_or_default();
            let Some((_, bytes)) = files.iter().find(|(found, _)| *found == file) else {
                return StatusCode::NOT_FOUND.into_response();
            };
            let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
            let first: usize = first.parse().unwrap();
            let last = last.parse().map_or(bytes.len() - 1, |last: usize| last.min(bytes.len() - 1));
            if hub.fails.load(Ordering::Relaxed) && first as u64 >= 2 * CHUNK {
                // A chunk a core comes side by side, in any order: two are kept before the third fails.
                for _ in 0..200 {
                    if hub.kept(owner, name) >= 2 * CHUNK {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            }
            let headers = [
                ("etag", format!("\"{owner}-{name}-{file}\"")),
                ("x-repo-commit", COMMIT.to_owned()),
                ("content-range", format!("bytes {first}-{last}/{}", bytes.len())),
            ];
            (StatusCode::PARTIAL_CONTENT, headers, bytes[first..=last].to_vec()).into_response()
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
    let of = |file: &str| asked.iter().filter(|request| request.contains(&format!("/{file} "))).count();
    assert!(of("draft.gguf") >= 2 && of("target.gguf") >= 2 && of("README.md") + of("other.gguf") == 0, "{asked:?}");
    // Once is enough, for everybody who shares the cache.
    let snapshot = hub.shared.home.join("hub/models--me--draft/snapshots").join(COMMIT);
    assert_eq!(fs::read(snapshot.join("draft.gguf")).unwrap(), DRAFT);
    assert_eq!(hub.ids(&pair, &[]), expected);
    assert_eq!(hub.requests(), ["/api/models/me/draft/revision/main "]);
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
    assert!(line.contains("\"hf:gpt2\" names no model") && line.contains("hf:OWNER/NAME"), "{line}");
    let line = hub.complaint(&["--draft", "hf:me/other"], &[("HF_ENDPOINT", "http://127.0.0.1:9")]);
    assert!(line.contains("me/other cannot be downloaded from http://127.0.0.1:9"), "{line}");
}

/// A checkpoint comes with what stands beside its weights, and is then a folder like any other.
#[test]
fn a_checkpoint_comes_whole() {
    let config = include_bytes!("../../models/tests/golden/grouped.config.json").to_vec();
    let weights = include_bytes!("../../models/tests/golden/grouped.safetensors").to_vec();
    let files =
        vec![("config.json", config), ("model.safetensors", weights), ("flax_model.msgpack", b"not wanted".to_vec())];
    let hub = Hub::start("hub-folder", vec![("me/folder", files)]);
    let line = hub.complaint(&["--target", "hf:me/folder"], &[]);
    let snapshot = hub.shared.home.join("hub/models--me--folder/snapshots").join(COMMIT);
    let said = format!("nothing says which tokenizer the target model {} has", snapshot.display());
    assert!(line.contains(&said), "{line}");
    let mut found: Vec<_> = fs::read_dir(snapshot).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    found.sort();
    assert_eq!(found, ["config.json", "model.safetensors"]);
}

#[test]
fn a_download_that_is_cut_off_is_resumed() {
    let bytes = vec![7; 5 * CHUNK as usize / 2];
    let hub = Hub::start("hub-resume", vec![("me/large", vec![("large.gguf", bytes)])]);
    hub.shared.fails.store(true, Ordering::Relaxed);
    // Where one core asks for the third chunk first, none is kept.
    let kept = (0..5).any(|_| {
        let line = hub.complaint(&["--target", "hf:me/large"], &[]);
        assert!(line.contains("me/large cannot be downloaded"), "{line}");
        hub.shared.kept("me", "large") == 2 * CHUNK
    });
    assert!(kept, "never are two chunks kept");
    hub.requests();
    hub.shared.fails.store(false, Ordering::Relaxed);
    let line = hub.complaint(&["--target", "hf:me/large"], &[]);
    assert!(line.contains("large.gguf cannot be loaded"), "it is there, and no model: {line}");
    let asked = hub.requests();
    let starts: Vec<u64> =
        asked.iter().filter_map(|request| request.split_once("bytes=")?.1.split_once('-')?.0.parse().ok()).collect();
    // The first asks for the size alone.
    assert_eq!(starts, [0, 2 * CHUNK], "{asked:?}");
}
