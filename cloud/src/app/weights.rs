//! Files of weights for browsers: as they are, with what a download needs to go on where it broke, and a browser to see
//! that it has the file already.

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};

/// Not compressed: weights hardly get smaller, and a part of what is compressed anew each time is of no use.
pub(super) const CONTENT_TYPE: &str = "application/octet-stream";

/// A file in memory.
#[derive(Debug, Clone)]
pub struct Weights {
    bytes: Bytes,
    /// Its SHA-256 in quotes.
    etag: HeaderValue,
}

impl From<Vec<u8>> for Weights {
    fn from(bytes: Vec<u8>) -> Self {
        let hex: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        // Hexadecimal digits are a header's value.
        let etag = HeaderValue::from_str(&format!("\"{hex}\"")).unwrap_or(HeaderValue::from_static("\"\""));
        Self { bytes: bytes.into(), etag }
    }
}

impl Weights {
    /// All of it, the one range that is asked for, or that the client has it (RFC 9110, sections 13 and 14).
    pub(super) fn answer(&self, asked: &HeaderMap) -> Response {
        let is_this = |name: HeaderName| asked.get(name).map(|tag| tag == self.etag);
        let always = [(header::ETAG, self.etag.clone()), (header::ACCEPT_RANGES, HeaderValue::from_static("bytes"))];
        if is_this(header::IF_NONE_MATCH) == Some(true) {
            return (StatusCode::NOT_MODIFIED, always).into_response();
        }
        let kind = [(header::CONTENT_TYPE, CONTENT_TYPE)];
        let length = self.bytes.len() as u64;
        let range = asked.get(header::RANGE).filter(|_| is_this(header::IF_RANGE) != Some(false));
        let Some(ranges) = range.and_then(|range| http_range_header::parse_range_header(range.to_str().ok()?).ok())
        else {
            return (always, kind, self.bytes.clone()).into_response();
        };
        match ranges.validate(length).as_deref() {
            Ok([range]) => {
                let place = format!("bytes {}-{}/{length}", range.start(), range.end());
                let part = self.bytes.slice(*range.start() as usize..=*range.end() as usize);
                (StatusCode::PARTIAL_CONTENT, always, kind, [(header::CONTENT_RANGE, place)], part).into_response()
            }
            // Several parts nobody asks for: all of it is an answer, too.
            Ok(_) => (always, kind, self.bytes.clone()).into_response(),
            Err(_) => {
                let place = [(header::CONTENT_RANGE, format!("bytes */{length}"))];
                (StatusCode::RANGE_NOT_SATISFIABLE, always, place).into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    async fn answer(asked: &[(HeaderName, &str)]) -> (u16, Option<String>, Vec<u8>) {
        let headers = asked.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect();
        let answer = Weights::from(b"the whole file".to_vec()).answer(&headers);
        let place = answer.headers().get(header::CONTENT_RANGE).map(|place| place.to_str().unwrap().to_owned());
        (answer.status().as_u16(), place, to_bytes(answer.into_body(), 100).await.unwrap().to_vec())
    }

    #[tokio::test]
    async fn a_download_goes_on_and_a_file_that_is_there_is_not_sent() {
        // By sha256sum.
        let etag = "\"820480309f460664c2771eedec77663260b7da322f7d11f8b2fff2691e778242\"";
        assert_eq!(Weights::from(b"the whole file".to_vec()).etag, etag);
        let tag = "\"another\"";
        assert_eq!(answer(&[]).await, (200, None, b"the whole file".to_vec()));
        assert_eq!(answer(&[(header::IF_NONE_MATCH, etag)]).await, (304, None, vec![]));
        assert_eq!(answer(&[(header::IF_NONE_MATCH, tag)]).await.0, 200);
        let rest = (206, Some("bytes 4-13/14".to_owned()), b"whole file".to_vec());
        assert_eq!(answer(&[(header::RANGE, "bytes=4-")]).await, rest);
        assert_eq!(answer(&[(header::RANGE, "bytes=4-"), (header::IF_RANGE, etag)]).await, rest);
        assert_eq!(answer(&[(header::RANGE, "bytes=4-8")]).await.2, b"whole");
        assert_eq!(answer(&[(header::RANGE, "bytes=-4")]).await.2, b"file");
        // Of another version nothing fits.
        assert_eq!(answer(&[(header::RANGE, "bytes=4-"), (header::IF_RANGE, tag)]).await.0, 200);
        assert_eq!(answer(&[(header::RANGE, "bytes=14-")]).await, (416, Some("bytes */14".to_owned()), vec![]));
        assert_eq!(answer(&[(header::RANGE, "lines=1-2")]).await.0, 200);
        assert_eq!(answer(&[(header::RANGE, "bytes=0-1,3-4")]).await, (200, None, b"the whole file".to_vec()));
    }
}
