//! Named keys of clients, with rights, limits and usage, read from a file that may change while the server runs.
//!
//! ```toml
//! [[key]]
//! name = "web"
//! secret = "0123456789abcdef"       # or sha256 = "…", its digest in hexadecimal
//! rights = ["api", "session"]       # these two if the line is missing; metrics is the third
//! requests-per-minute = 60          # of the API, and sessions that begin
//! tokens-per-minute = 20000         # prompts and texts of the API, and texts of sessions
//! sessions = 8                      # at a time
//! ```

use std::{
    collections::HashSet,
    fmt,
    num::NonZeroU32,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use self::budget::{Budget, Rates};
pub(crate) use self::budget::{Exceeded, KeyLimits, Rate, seconds};

mod budget;

/// Least length of a secret, in characters.
const SHORTEST: usize = 16;

/// A permission of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Use of the API below `/v1`.
    Api,
    /// Sessions of clients that draft.
    Session,
    /// Metrics, and the usage of all keys.
    Metrics,
}

impl Right {
    const ALL: [Self; 3] = [Self::Api, Self::Session, Self::Metrics];

    /// Name of the right in the file of keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Session => "session",
            Self::Metrics => "metrics",
        }
    }
}

/// A client of the server.
pub(crate) struct Key {
    name: Arc<str>,
    /// SHA-256 of the secret.
    digest: [u8; 32],
    rights: Vec<Right>,
    limits: KeyLimits,
    budget: Arc<Budget>,
    usage: Arc<Usage>,
}

/// Work of a key since the server began.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) requests: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) completion_tokens: AtomicU64,
    /// Sessions that are open.
    pub(crate) sessions: AtomicU64,
}

/// All keys of a server. Clones share them.
#[derive(Clone)]
pub struct Keys(Arc<RwLock<Vec<Arc<Key>>>>);

/// Error of a file of keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// The file is not TOML, or has other entries than those of keys.
    #[error("{0}")]
    Syntax(String),
    /// The file has no key, so no client could use the server.
    #[error("there is no [[key]] in it")]
    None,
    /// The key has no secret, or a secret and a digest.
    #[error("the key {0:?} needs either a secret or its sha256")]
    Secret(String),
    /// The secret is too short to be hard to guess, or is no bearer token.
    #[error(
        "the secret of the key {0:?} needs 16 or more letters, digits, and - . _ ~ + / =; `openssl rand -hex 32` makes a good one"
    )]
    Weak(String),
    /// The digest is not 64 hexadecimal digits.
    #[error("the sha256 of the key {0:?} needs 64 hexadecimal digits, as `printf %s SECRET | sha256sum` prints them")]
    Digest(String),
    /// The name is empty, or has characters that a label or a log line should not have.
    #[error("the name {0:?} needs 1 to 64 letters, digits, -, _ and .")]
    Name(String),
    /// A name or a secret occurs twice.
    #[error("the key {0:?} has the name or the secret of another")]
    Repeated(String),
}

/// A session of a key, until dropped.
#[derive(Debug)]
pub(crate) struct KeySession(Arc<Key>);

impl Drop for KeySession {
    fn drop(&mut self) {
        self.0.usage.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

impl KeySession {
    /// The key that the session counts towards.
    pub(crate) fn key(&self) -> Arc<Key> {
        Arc::clone(&self.0)
    }
}

impl Key {
    /// The client of a token without limits, which has all rights.
    pub(crate) fn unlimited(name: Arc<str>) -> Self {
        let limits = KeyLimits::default();
        let budget = Arc::new(Budget::new(limits, Instant::now()));
        Self { name, digest: [0; 32], rights: Right::ALL.to_vec(), limits, budget, usage: Arc::default() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn limits(&self) -> KeyLimits {
        self.limits
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    pub(crate) fn has(&self, right: Right) -> bool {
        self.rights.contains(&right)
    }

    /// Counts a request towards the limits. Its tokens are counted as they are used, so that the last request of a
    /// minute may use more than are left; the next one waits until they are made up for.
    ///
    /// # Errors
    /// If the key's requests or tokens of this minute are used up.
    pub(crate) fn admit_request(&self) -> Result<(), Exceeded> {
        let admitted = self.budget.take_request(Instant::now());
        let count = if admitted.is_ok() { &self.usage.requests } else { &self.usage.refused };
        count.fetch_add(1, Ordering::Relaxed);
        admitted
    }

    /// Counts a session until the value is dropped.
    ///
    /// # Errors
    /// If the key holds as many sessions as it may, or its requests or tokens of this minute are used up.
    pub(crate) fn open_session(self: &Arc<Self>) -> Result<KeySession, Exceeded> {
        let most = self.limits.sessions.map_or(u64::MAX, |most| most.get().into());
        let open = &self.usage.sessions;
        let taken = open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| (open < most).then_some(open + 1));
        if let (Err(_), Some(limit)) = (taken, self.limits.sessions) {
            self.usage.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Exceeded::Sessions(limit));
        }
        let session = KeySession(Arc::clone(self));
        self.admit_request().map(|()| session)
    }

    /// Counts tokens that were read and written.
    pub(crate) fn used(&self, prompt: u64, completion: u64) {
        self.usage.prompt_tokens.fetch_add(prompt, Ordering::Relaxed);
        self.usage.completion_tokens.fetch_add(completion, Ordering::Relaxed);
        self.budget.spend(prompt + completion, Instant::now());
    }

    /// Time until the key may use tokens; zero if it may now.
    pub(crate) fn token_wait(&self) -> Duration {
        self.budget.token_wait(Instant::now())
    }

    /// State of the limits per minute.
    pub(crate) fn rates(&self) -> Rates {
        self.budget.rates(Instant::now())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.name).finish()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

/// Contents of a file of keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    key: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    name: String,
    secret: Option<String>,
    sha256: Option<String>,
    rights: Option<Vec<Right>>,
    requests_per_minute: Option<NonZeroU32>,
    tokens_per_minute: Option<NonZeroU32>,
    sessions: Option<NonZeroU32>,
}

impl Keys {
    /// Reads a file of keys.
    ///
    /// # Errors
    /// [`KeysError`], which names the key.
    pub fn parse(text: &str) -> Result<Self, KeysError> {
        Ok(Self(Arc::new(RwLock::new(read(text, &[])?))))
    }

    /// Replaces the keys by those of another file. Keys that keep their name keep their usage, and with equal limits
    /// also what is left of them. Returns the number of keys.
    ///
    /// # Errors
    /// [`KeysError`]; the keys stay as they are.
    pub fn replace(&self, text: &str) -> Result<usize, KeysError> {
        let keys = read(text, &self.all())?;
        let count = keys.len();
        // A list is replaced as a whole, and so is consistent after a panic.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(count)
    }

    /// All keys, in the order of the file.
    pub(crate) fn all(&self) -> Vec<Arc<Key>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Key with this secret. Compares the digests of all keys, in a time that does not depend on them.
    pub(crate) fn find(&self, secret: &str) -> Option<Arc<Key>> {
        let shown = digest(secret);
        let mut found = None;
        for key in self.all() {
            if bool::from(key.digest.ct_eq(&shown)) {
                found = Some(key);
            }
        }
        found
    }
}

/// Reads a file of keys, some of which continue earlier ones.
fn read(text: &str, earlier: &[Arc<Key>]) -> Result<Vec<Arc<Key>>, KeysError> {
    // The parser's other messages quote the line, and so may quote a secret.
    let line = |error: &toml::de::Error| error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
    let file: File = toml::from_str(text)
        .map_err(|error| KeysError::Syntax(format!("line {}: {}", line(&error), error.message())))?;
    let (mut names, mut digests) = (HashSet::new(), HashSet::new());
    let mut keys = Vec::new();
    for entry in file.key {
        let digest = entry.digest()?;
        if !names.insert(entry.name.clone()) || !digests.insert(digest) {
            return Err(KeysError::Repeated(entry.name));
        }
        let Entry { name, rights, requests_per_minute, tokens_per_minute, sessions, .. } = entry;
        let limits = KeyLimits { requests_per_minute, tokens_per_minute, sessions };
        let same = earlier.iter().find(|key| *key.name == *name);
        let budget = same.filter(|key| key.limits == limits).map(|key| Arc::clone(&key.budget));
        keys.push(Arc::new(Key {
            name: name.into(),
            digest,
            rights: rights.unwrap_or_else(|| vec![Right::Api, Right::Session]),
            limits,
            budget: budget.unwrap_or_else(|| Arc::new(Budget::new(limits, Instant::now()))),
            usage: same.map(|key| Arc::clone(&key.usage)).unwrap_or_default(),
        }));
    }
    if keys.is_empty() { Err(KeysError::None) } else { Ok(keys) }
}

impl Entry {
    /// Digest of the secret.
    fn digest(&self) -> Result<[u8; 32], KeysError> {
        let name = || self.name.clone();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !(1..=64).contains(&self.name.len()) || !self.name.bytes().all(is_plain) {
            return Err(KeysError::Name(name()));
        }
        match (&self.secret, &self.sha256) {
            (Some(secret), None) if secret.len() >= SHORTEST && is_bearer(secret) => Ok(digest(secret)),
            (Some(_), None) => Err(KeysError::Weak(name())),
            (None, Some(hex)) => from_hex(hex).ok_or_else(|| KeysError::Digest(name())),
            _ => Err(KeysError::Secret(name())),
        }
    }
}

/// True if a bearer token may have these characters (RFC 6750, section 2.1).
pub(crate) fn is_bearer(token: &str) -> bool {
    token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte))
}

/// SHA-256 of a token, by which tokens are compared.
pub(crate) fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Bytes of 64 hexadecimal digits.
fn from_hex(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
