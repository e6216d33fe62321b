//! Files of the pair for browsers: with what a download needs to continue where it broke, and a browser to see that it
//! has the file already.
//!
//! Nothing is compressed while it is sent: weights hardly get smaller, and a part of what is compressed anew each time
//! is of no use. A text is compressed once, and each of its forms is a representation with a tag of its own (RFC 9110,
//! section 8.8.3.3): `"…"` as it is, `"…-br"` and `"…-gzip"`.

use std::{
    io::Write,
    sync::{Arc, OnceLock},
    thread,
};

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};

/// Of brotli's 11. The last two make a tokenizer smaller by a seventh and take ten times as long.
const BROTLI_QUALITY: i32 = 9;
/// The base-2 logarithm of brotli's window, in bytes.
const BROTLI_WINDOW: i32 = 22;

/// What a shared cache may do: keep it and ask each time whether it is still so; but not make another file of it, of
/// which no part would fit.
const CACHING: HeaderValue = HeaderValue::from_static("no-cache, no-transform");

/// A file in memory.
#[derive(Debug, Clone)]
pub struct PairFile {
    content_type: &'static str,
    plain: Representation,
    /// The best first, once they are made; `None` for what is not a text.
    compressed: Option<Arc<OnceLock<[Representation; 2]>>>,
}

#[derive(Debug, Clone)]
struct Representation {
    /// The value of Content-Encoding.
    coding: Option<&'static str>,
    bytes: Bytes,
    etag: HeaderValue,
}

impl PairFile {
    /// Weights, which are sent as they are.
    pub fn weights(bytes: Vec<u8>) -> Self {
        Self { content_type: "application/octet-stream", plain: Representation::plain(bytes), compressed: None }
    }

    /// A text in JSON. Until it is compressed, which is begun here, it is sent as it is.
    pub fn json(bytes: Vec<u8>) -> Self {
        let plain = Representation::plain(bytes);
        let compressed = Arc::new(OnceLock::new());
        let (text, made) = (plain.clone(), Arc::clone(&compressed));
        thread::spawn(move || {
            // Into memory nothing fails to be written; else the text goes on being sent as it is.
            if let (Ok(brotli), Ok(gzip)) = (text.brotli(), text.gzip()) {
                let _ = made.set([brotli, gzip]);
            }
        });
        Self { content_type: "application/json", plain, compressed: Some(compressed) }
    }

    /// All of it, the one range that is asked for, or that the client has it (RFC 9110, sections 13 and 14).
    pub(super) fn answer(&self, asked: &HeaderMap) -> Response {
        let mut answer = self.negotiated(asked).answer(self.content_type, asked);
        let headers = answer.headers_mut();
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(header::CACHE_CONTROL, CACHING);
        if self.compressed.is_some() {
            headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        }
        answer
    }

    fn negotiated(&self, asked: &HeaderMap) -> &Representation {
        let compressed = self.compressed.iter().filter_map(|made| made.get()).flatten();
        let accepted = compressed.filter(|form| form.coding.is_some_and(|coding| accepts(asked, coding)));
        accepted.into_iter().next().unwrap_or(&self.plain)
    }
}

impl Representation {
    fn plain(bytes: Vec<u8>) -> Self {
        let hex: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { coding: None, bytes: bytes.into(), etag: tag(&hex) }
    }

    fn compressed(&self, coding: &'static str, bytes: Vec<u8>) -> Self {
        let plain = self.etag.to_str().unwrap_or_default().trim_matches('"');
        Self { coding: Some(coding), bytes: bytes.into(), etag: tag(&format!("{plain}-{coding}")) }
    }

    fn brotli(&self) -> std::io::Result<Self> {
        let parameters = brotli::enc::BrotliEncoderParams {
            quality: BROTLI_QUALITY,
            lgwin: BROTLI_WINDOW,
            size_hint: self.bytes.len(),
            ..Default::default()
        };
        let mut bytes = Vec::new();
        brotli::BrotliCompress(&mut &*self.bytes, &mut bytes, &parameters)?;
        Ok(self.compressed("br", bytes))
    }

    fn gzip(&self) -> std::io::Result<Self> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&self.bytes)?;
        Ok(self.compressed("gzip", encoder.finish()?))
    }

    fn answer(&self, content_type: &'static str, asked: &HeaderMap) -> Response {
        let tag = [(header::ETAG, self.etag.clone())];
        if asked.get_all(header::IF_NONE_MATCH).iter().any(|tags| names(tags, &self.etag)) {
            return (StatusCode::NOT_MODIFIED, tag).into_response();
        }
        let length = self.bytes.len() as u64;
        let is_this_version = asked.get(header::IF_RANGE).is_none_or(|tag| tag == self.etag);
        let range = asked.get(header::RANGE).filter(|_| is_this_version);
        let range = range.and_then(|range| http_range_header::parse_range_header(range.to_str().ok()?).ok());
        let parts = match range.map(|ranges| ranges.validate(length)) {
            Some(Err(_)) => {
                let place = [(header::CONTENT_RANGE, format!("bytes */{length}"))];
                return (StatusCode::RANGE_NOT_SATISFIABLE, tag, place).into_response();
            }
            Some(Ok(ranges)) => ranges,
            None => Vec::new(),
        };
        let mut answer = match &*parts {
            [range] => {
                let place = [(header::CONTENT_RANGE, format!("bytes {}-{}/{length}", range.start(), range.end()))];
                let part = self.bytes.slice(*range.start() as usize..=*range.end() as usize);
                (StatusCode::PARTIAL_CONTENT, tag, place, part).into_response()
            }
            // Several parts nobody asks for: all of it is an answer, too.
            _ => (tag, self.bytes.clone()).into_response(),
        };
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(coding) = self.coding {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        answer
    }
}

/// An entity tag of what is visible ASCII.
fn tag(name: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{name}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Whether a list of tags has this one, by weak comparison: a proxy may have weakened it.
fn names(tags: &HeaderValue, wanted: &HeaderValue) -> bool {
    let tags = tags.to_str().unwrap_or_default().split(',').map(str::trim);
    tags.map(|tag| tag.strip_prefix("W/").unwrap_or(tag)).any(|tag| tag == "*" || tag.as_bytes() == wanted.as_bytes())
}

/// Whether a client has said that it reads this coding (RFC 9110, section 12.5.3).
fn accepts(asked: &HeaderMap, coding: &str) -> bool {
    let values = asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|entry| {
        let (name, weight) = entry.split_once(';').unwrap_or((entry, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case(coding) && weight.is_some_and(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use axum::{body::to_bytes, http::HeaderName};

    use super::*;

    /// By sha256sum of "the whole file".
    const SHA256: &str = "820480309f460664c2771eedec77663260b7da322f7d11f8b2fff2691e778242";

    fn headers(asked: &[(HeaderName, &str)]) -> HeaderMap {
        asked.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    async fn answer(asked: &[(HeaderName, &str)]) -> (u16, Option<String>, Vec<u8>) {
        let answer = PairFile::weights(b"the whole file".to_vec()).answer(&headers(asked));
        let place = answer.headers().get(header::CONTENT_RANGE).map(|place| place.to_str().unwrap().to_owned());
        (answer.status().as_u16(), place, to_bytes(answer.into_body(), 100).await.unwrap().to_vec())
    }

    #[tokio::test]
    async fn a_download_continues_and_a_file_that_is_there_is_not_sent() {
        let etag = &*format!("\"{SHA256}\"");
        let tag = "\"another\"";
        assert_eq!(answer(&[]).await, (200, None, b"the whole file".to_vec()));
        for same in [etag, "*", &format!("W/{etag}"), &format!("{tag}, {etag}")] {
            assert_eq!(answer(&[(header::IF_NONE_MATCH, same)]).await, (304, None, vec![]), "{same}");
        }
        for other in [tag, &format!("\"{SHA256}-br\""), SHA256, ""] {
            assert_eq!(answer(&[(header::IF_NONE_MATCH, other)]).await.0, 200, "{other}");
        }
        let rest = (206, Some("bytes 4-13/14".to_owned()), b"whole file".to_vec());
        assert_eq!(answer(&[(header::RANGE, "bytes=4-")]).await, rest);
        assert_eq!(answer(&[(header::RANGE, "bytes=4-"), (header::IF_RANGE, etag)]).await, rest);
        assert_eq!(answer(&[(header::RANGE, "bytes=4-8")]).await.2, b"whole");
        assert_eq!(answer(&[(header::RANGE, "bytes=-4")]).await.2, b"file");
        // Of another version nothing fits, nor of one that may differ in its bytes.
        for other in [tag, &format!("W/{etag}"), "Tue, 24 Nov 2026 00:00:00 GMT"] {
            let asked = [(header::RANGE, "bytes=4-"), (header::IF_RANGE, other)];
            assert_eq!(answer(&asked).await, (200, None, b"the whole file".to_vec()), "{other}");
        }
        assert_eq!(answer(&[(header::RANGE, "bytes=14-")]).await, (416, Some("bytes */14".to_owned()), vec![]));
        assert_eq!(answer(&[(header::RANGE, "lines=1-2")]).await.0, 200);
        assert_eq!(answer(&[(header::RANGE, "bytes=0-1,3-4")]).await, (200, None, b"the whole file".to_vec()));
    }

    #[tokio::test]
    async fn a_text_has_a_tag_and_parts_in_each_of_its_forms() {
        let file = PairFile::json(b"the whole file".to_vec());
        let compressed = file.compressed.clone().unwrap();
        let [brotli, gzip] = tokio::task::spawn_blocking(move || compressed.wait().clone()).await.unwrap();
        let gzip_first = [(header::ACCEPT_ENCODING, "gzip, deflate")];
        for (asked, form) in [
            (&[(header::ACCEPT_ENCODING, "gzip, deflate, br, zstd")][..], &brotli),
            (&gzip_first, &gzip),
            (&[(header::ACCEPT_ENCODING, "br;q=0, GZIP; q=0.5")], &gzip),
            (&[(header::ACCEPT_ENCODING, "identity, brotli, *;q=0")], &file.plain),
            (&[], &file.plain),
        ] {
            let answer = file.answer(&headers(asked));
            let header = |name| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(header(header::CONTENT_ENCODING).as_deref(), form.coding, "{asked:?}");
            assert_eq!(header(header::VARY).as_deref(), Some("accept-encoding"));
            let suffix = form.coding.map(|coding| format!("-{coding}")).unwrap_or_default();
            assert_eq!(header(header::ETAG), Some(format!("\"{SHA256}{suffix}\"")));
            assert_eq!(to_bytes(answer.into_body(), 100).await.unwrap(), form.bytes);
        }
        // Parts are those of the form that was begun.
        let etag = gzip.etag.to_str().unwrap();
        let rest = [&gzip_first[..], &[(header::RANGE, "bytes=5-"), (header::IF_RANGE, etag)]].concat();
        let answer = file.answer(&headers(&rest));
        assert_eq!(answer.status(), 206);
        assert_eq!(to_bytes(answer.into_body(), 100).await.unwrap(), gzip.bytes.slice(5..));
        assert_eq!(file.answer(&headers(&rest[1..])).status(), 200, "of the plain form it is no part");
        assert_eq!(file.answer(&headers(&[(header::IF_NONE_MATCH, etag)])).status(), 200);
    }
}
