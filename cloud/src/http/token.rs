//! Bearer tokens of clients.
//!
//! A request has one in `Authorization: Bearer …`. A page cannot set that header on a WebSocket, but it can offer
//! subprotocols: `outrider`, which the server selects, and `outrider.bearer.…`, where `/` is written `%2F`, and so on.

use std::{
    borrow::Cow,
    collections::HashSet,
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use axum::http::{HeaderMap, header};
use percent_encoding::percent_decode_str;
use subtle::ConstantTimeEq;

use crate::keys::{digest, is_bearer};

/// Subprotocol of a session.
pub(crate) const PROTOCOL: &str = "outrider";
/// Prefix of a token that is offered as a subprotocol.
const PROTOCOL_PREFIX: &str = "outrider.bearer.";
/// Least length of a token, in characters.
const SHORTEST: usize = 16;

/// Digests of the tokens, with the names of their owners. Clones share them.
#[derive(Clone)]
pub struct Tokens(Arc<RwLock<Digests>>);

/// Owner's name and digest of each token.
type Digests = Vec<(Arc<str>, [u8; 32])>;

/// Error of a file of tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokensError {
    /// The line is not a name and a token.
    #[error("line {0} must be a name, a space and a token")]
    Line(usize),
    /// The token is too short to be hard to guess.
    #[error("the token at line {0} has fewer than 16 characters; `openssl rand -hex 32` makes a good one")]
    Short(usize),
    /// The token is no bearer token of RFC 6750.
    #[error("the token at line {0} may have only letters, digits, and - . _ ~ + / =")]
    Characters(usize),
    /// The name or the token occurs twice.
    #[error("line {0} repeats a name or a token")]
    Repeated(usize),
    /// The file has no token, so no client could use the server.
    #[error("it has no token")]
    None,
}

impl Tokens {
    /// Reads a name and a token from every line that is neither empty nor begins with `#`.
    ///
    /// # Errors
    /// [`TokensError`] with the number of the line, if it has one.
    pub fn parse(text: &str) -> Result<Self, TokensError> {
        let (mut tokens, mut seen) = (Vec::new(), HashSet::new());
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let (Some(name), Some(token), None) = (words.next(), words.next(), words.next()) else {
                return Err(TokensError::Line(number));
            };
            if token.len() < SHORTEST {
                return Err(TokensError::Short(number));
            }
            if !is_bearer(token) {
                return Err(TokensError::Characters(number));
            }
            if !seen.insert(name) || !seen.insert(token) {
                return Err(TokensError::Repeated(number));
            }
            tokens.push((Arc::from(name), digest(token)));
        }
        if tokens.is_empty() { Err(TokensError::None) } else { Ok(Self(Arc::new(RwLock::new(tokens)))) }
    }

    /// Replaces the tokens, in all clones. Sessions that were begun with a removed token go on.
    pub fn replace(&self, new: Self) {
        let new = new.read().clone();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Locks the tokens, which are consistent after a panic, too.
    fn read(&self) -> RwLockReadGuard<'_, Digests> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Name of a token's owner. Compares digests of all tokens, in a time that does not depend on them.
    fn owner(&self, token: &str) -> Option<Arc<str>> {
        let shown = digest(token);
        let mut owner = None;
        for (name, known) in self.read().iter() {
            if bool::from(known.ct_eq(&shown)) {
                owner = Some(Arc::clone(name));
            }
        }
        owner
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.read().iter().map(|(name, _)| name)).finish()
    }
}

/// Reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("This server requires a token, and none was sent.")]
    Missing,
    #[error("This server does not know the token that was sent.")]
    Unknown,
}

/// Checks the token of a request. Returns its owner's name; `None` if the server requires no token.
pub(crate) fn check(tokens: Option<&Tokens>, shown: Option<&str>) -> Result<Option<Arc<str>>, Refusal> {
    match (tokens, shown) {
        (None, _) => Ok(None),
        (Some(_), None) => Err(Refusal::Missing),
        (Some(tokens), Some(shown)) => tokens.owner(shown).map(Some).ok_or(Refusal::Unknown),
    }
}

/// Token in the `Authorization` header.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Token among the offered subprotocols.
pub(crate) fn offered<'a>(mut protocols: impl Iterator<Item = &'a str>) -> Option<Cow<'a, str>> {
    let written = protocols.find_map(|protocol| protocol.strip_prefix(PROTOCOL_PREFIX))?;
    percent_decode_str(written).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# who may\nalice 0123456789abcdef\n\n  bob\tABCDEFGHIJKLMNOP-_  \n";

    #[test]
    fn every_line_is_somebody() {
        let tokens = Tokens::parse(FILE).unwrap();
        let owner = |token| check(Some(&tokens), token).map(|name| name.unwrap().to_string());
        assert_eq!(owner(Some("0123456789abcdef")).as_deref(), Ok("alice"));
        assert_eq!(owner(Some("ABCDEFGHIJKLMNOP-_")).as_deref(), Ok("bob"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "alice"] {
            assert_eq!(owner(Some(wrong)), Err(Refusal::Unknown), "{wrong}");
        }
        assert_eq!(owner(None), Err(Refusal::Missing));
        assert_eq!(check(None, None), Ok(None));
        assert!(!format!("{tokens:?}").contains("0123"));
        tokens.clone().replace(Tokens::parse("carol abcdefghijklmnop").unwrap());
        assert_eq!(owner(Some("abcdefghijklmnop")).as_deref(), Ok("carol"));
        assert_eq!(owner(Some("0123456789abcdef")), Err(Refusal::Unknown));
    }

    #[test]
    fn files_that_give_no_tokens_are_told_by_line() {
        for (text, error) in [
            ("", TokensError::None),
            ("# alice 0123456789abcdef\n", TokensError::None),
            ("0123456789abcdef\n", TokensError::Line(1)),
            ("\nalice 0123456789abcdef b\n", TokensError::Line(2)),
            ("alice 0123456789abcde\n", TokensError::Short(1)),
            ("alice 0123456789abcdef%\n", TokensError::Characters(1)),
            ("alice 0123456789abcdef\nalice 0123456789abcdeg\n", TokensError::Repeated(2)),
            ("alice 0123456789abcdef\nbob 0123456789abcdef\n", TokensError::Repeated(2)),
        ] {
            assert_eq!(Tokens::parse(text).err(), Some(error), "{text}");
        }
    }

    #[test]
    fn tokens_are_found_where_they_are_shown() {
        let mut headers = HeaderMap::new();
        assert_eq!(bearer(&headers), None);
        headers.insert(header::AUTHORIZATION, "bearer  abc ".parse().unwrap());
        assert_eq!(bearer(&headers), Some("abc"));
        headers.insert(header::AUTHORIZATION, "Basic abc".parse().unwrap());
        assert_eq!(bearer(&headers), None);
        assert_eq!(offered(["outrider", "outrider.bearer.abc"].into_iter()).as_deref(), Some("abc"));
        // A JSON Web Token, and all characters that a subprotocol cannot have.
        assert_eq!(offered(["outrider.bearer.eyJh.eyJz.c2-_"].into_iter()).as_deref(), Some("eyJh.eyJz.c2-_"));
        assert_eq!(offered(["outrider.bearer.a%2Fb%2B~%3D%3D"].into_iter()).as_deref(), Some("a/b+~=="));
        assert_eq!(offered(["outrider.bearer.%FF"].into_iter()), None);
        assert_eq!(offered(["outrider"].into_iter()), None);
    }
}
