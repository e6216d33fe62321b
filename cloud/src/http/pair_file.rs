//! Files of the pair for browsers, served so that a download can be resumed and a cached file revalidated.
//!
//! Nothing is compressed on the fly: weights hardly shrink, and parts of two compressed streams do not fit together. A
//! text is compressed once, and each of its forms is a representation with an entity tag of its own (RFC 9110, section
//! 8.8.3.3): `"…"` uncompressed, `"…-br"` and `"…-gzip"`.

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
use outrider_models::ChatTemplate;
use sha2::{Digest, Sha256};

/// Brotli's quality, of at most 11. The last two levels make a tokenizer smaller by a seventh and take ten times as
/// long.
const BROTLI_QUALITY: i32 = 9;
/// Base-2 logarithm of brotli's window, in bytes.
const BROTLI_WINDOW: i32 = 22;

/// Cache-Control of the files: a shared cache may keep a file and must revalidate it. It must not transform it, since
/// parts of a transformed file would not fit.
const CACHING: HeaderValue = HeaderValue::from_static("no-cache, no-transform");

/// A file in memory, with its compressed forms.
#[derive(Debug, Clone)]
pub struct PairFile {
    content_type: &'static str,
    plain: Representation,
    /// Compressed forms, the smallest first, once they are made; `None` for files that are not text.
    compressed: Option<Arc<OnceLock<[Representation; 2]>>>,
}

#[derive(Debug, Clone)]
struct Representation {
    /// Value of Content-Encoding.
    coding: Option<&'static str>,
    bytes: Bytes,
    etag: HeaderValue,
}

impl PairFile {
    /// A file of weights, sent uncompressed.
    pub fn weights(bytes: Vec<u8>) -> Self {
        Self { content_type: "application/octet-stream", plain: Representation::plain(bytes), compressed: None }
    }

    /// A file of JSON text. Its compression starts here, in a thread, and until it is finished the file is sent
    /// uncompressed.
    pub fn json(bytes: Vec<u8>) -> Self {
        let plain = Representation::plain(bytes);
        let compressed = Arc::new(OnceLock::new());
        let (text, made) = (plain.clone(), Arc::clone(&compressed));
        thread::spawn(move || {
            // Writing to memory does not fail; if it did, the file would be sent uncompressed.
            if let (Ok(brotli), Ok(gzip)) = (text.brotli(), text.gzip()) {
                let _ = made.set([brotli, gzip]);
            }
        });
        Self { content_type: "application/json", plain, compressed: Some(compressed) }
    }

    /// A chat template, as JSON.
    pub fn chat(template: &ChatTemplate) -> Self {
        // The template consists of strings, so this cannot fail.
        Self::json(serde_json::to_vec(template.source()).unwrap_or_default())
    }

    /// Responds with the whole file, the one range that is asked for, or 304 if the client has it (RFC 9110, sections
    /// 13 and 14).
    pub(crate) fn answer(&self, asked: &HeaderMap) -> Response {
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
        let range = ByteRange::asked(asked).filter(|_| is_this_version);
        let mut answer = match range.map(|range| range.within(length)) {
            Some(None) => {
                let place = [(header::CONTENT_RANGE, format!("bytes */{length}"))];
                return (StatusCode::RANGE_NOT_SATISFIABLE, tag, place).into_response();
            }
            Some(Some((first, last))) => {
                let place = [(header::CONTENT_RANGE, format!("bytes {first}-{last}/{length}"))];
                let part = self.bytes.slice(first as usize..=last as usize);
                (StatusCode::PARTIAL_CONTENT, tag, place, part).into_response()
            }
            None => (tag, self.bytes.clone()).into_response(),
        };
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(coding) = self.coding {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        answer
    }
}

/// Longest value of Range that is read, in bytes. A longer one is ignored.
const LONGEST_RANGE: usize = 64;

/// Range of bytes that a request asks for (RFC 9110, section 14.1.2). Numbers above `u64::MAX` are read as `u64::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteRange {
    /// Bytes from the first position to the last, or to the end of the file.
    From { first: u64, last: Option<u64> },
    /// Last bytes of the file, this number of them.
    Suffix(u64),
}

impl ByteRange {
    /// Reads the range from the headers. Several ranges or an invalid one give `None`, and so the whole file.
    fn asked(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(header::RANGE).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => Self::parse(value.as_bytes()),
            _ => None,
        }
    }

    fn parse(value: &[u8]) -> Option<Self> {
        if value.len() > LONGEST_RANGE {
            return None;
        }
        let (unit, range) = str::from_utf8(value).ok()?.split_once('=')?;
        let (first, last) = range.split_once('-').filter(|_| unit.eq_ignore_ascii_case("bytes"))?;
        match (first, last) {
            ("", count) => Some(Self::Suffix(position(count)?)),
            (first, "") => Some(Self::From { first: position(first)?, last: None }),
            (first, last) => {
                let (first, last) = (position(first)?, position(last)?);
                (first <= last).then_some(Self::From { first, last: Some(last) })
            }
        }
    }

    /// First and last position in a file of this length; `None` if the file has no byte of the range.
    fn within(self, length: u64) -> Option<(u64, u64)> {
        let end = length.checked_sub(1)?;
        match self {
            Self::Suffix(count) => (count > 0).then(|| (length.saturating_sub(count), end)),
            Self::From { first, last } => (first <= end).then(|| (first, last.map_or(end, |last| last.min(end)))),
        }
    }
}

/// Reads a decimal position; too large a number gives `u64::MAX`.
fn position(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    // Digits fail to parse only if the number is too large.
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Entity tag with a name of visible ASCII characters.
fn tag(name: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{name}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Returns true if a list of tags has this one, by weak comparison: a proxy may have weakened it.
fn names(tags: &HeaderValue, wanted: &HeaderValue) -> bool {
    let tags = tags.to_str().unwrap_or_default().split(',').map(str::trim);
    tags.map(|tag| tag.strip_prefix("W/").unwrap_or(tag)).any(|tag| tag == "*" || tag.as_bytes() == wanted.as_bytes())
}

/// Returns true if a client accepts this content coding (RFC 9110, section 12.5.3).
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

    /// Computed by sha256sum from "the whole file".
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
        // A range does not apply to another version, or to one with a weak tag.
        for other in [tag, &format!("W/{etag}"), "Tue, 24 Nov 2026 00:00:00 GMT"] {
            let asked = [(header::RANGE, "bytes=4-"), (header::IF_RANGE, other)];
            assert_eq!(answer(&asked).await, (200, None, b"the whole file".to_vec()), "{other}");
        }
        assert_eq!(answer(&[(header::RANGE, "bytes=14-")]).await, (416, Some("bytes */14".to_owned()), vec![]));
        assert_eq!(answer(&[(header::RANGE, "bytes=-0")]).await, (416, Some("bytes */14".to_owned()), vec![]));
        assert_eq!(answer(&[(header::RANGE, "bytes=4-99")]).await, rest);
        assert_eq!(answer(&[(header::RANGE, "lines=1-2")]).await.0, 200);
        assert_eq!(answer(&[(header::RANGE, "bytes=0-1,3-4")]).await, (200, None, b"the whole file".to_vec()));
    }

    #[test]
    fn one_range_is_read_and_everything_else_is_ignored() {
        let padded = |length: usize| format!("bytes=0-{}", "1".repeat(length - "bytes=0-".len()));
        let from = |first, last| Some(ByteRange::From { first, last });
        for (value, range) in [
            ("bytes=0-", from(0, None)),
            ("bytes=4-8", from(4, Some(8))),
            ("bytes=4-4", from(4, Some(4))),
            ("Bytes=007-8", from(7, Some(8))),
            ("bytes=-4", Some(ByteRange::Suffix(4))),
            ("bytes=-0", Some(ByteRange::Suffix(0))),
            ("bytes=18446744073709551616-", from(u64::MAX, None)),
            ("bytes=4-18446744073709551616", from(4, Some(u64::MAX))),
            ("bytes=18446744073709551617-18446744073709551616", from(u64::MAX, Some(u64::MAX))),
            ("bytes=-18446744073709551616", Some(ByteRange::Suffix(u64::MAX))),
            (&padded(LONGEST_RANGE), from(0, Some(u64::MAX))),
            (&padded(LONGEST_RANGE + 1), None),
            ("bytes=8-4", None),
            ("bytes=18446744073709551616-4", None),
            ("bytes=0-1,3-4", None),
            ("bytes=0-1,", None),
            (&format!("bytes=0-0{}", ",2-2".repeat(39_999)), None),
            ("bytes=-", None),
            ("bytes=", None),
            ("bytes", None),
            ("bytes=4", None),
            ("bytes=--4", None),
            ("bytes=+4-8", None),
            ("bytes=4-+8", None),
            ("bytes= 4-8", None),
            ("bytes=4-8 ", None),
            ("bytes=4–8", None),
            ("bytes=٤-٨", None),
            ("lines=4-8", None),
            ("=4-8", None),
            ("", None),
        ] {
            assert_eq!(ByteRange::parse(value.as_bytes()), range, "{value:.80}");
        }
        assert_eq!(ByteRange::parse(b"bytes=0-\xff"), None);
        let mut headers = headers(&[(header::RANGE, "bytes=4-")]);
        assert_eq!(ByteRange::asked(&headers), from(4, None));
        headers.append(header::RANGE, HeaderValue::from_static("bytes=4-"));
        assert_eq!(ByteRange::asked(&headers), None, "two headers are two ranges");
    }

    #[test]
    fn a_range_is_cut_at_the_end_of_the_file() {
        let within = |value: &str, length| ByteRange::parse(value.as_bytes()).unwrap().within(length);
        for (value, length, place) in [
            ("bytes=0-", 14, Some((0, 13))),
            ("bytes=13-", 14, Some((13, 13))),
            ("bytes=14-", 14, None),
            ("bytes=4-8", 14, Some((4, 8))),
            ("bytes=4-14", 14, Some((4, 13))),
            ("bytes=4-18446744073709551616", 14, Some((4, 13))),
            ("bytes=18446744073709551616-", u64::MAX, None),
            ("bytes=-4", 14, Some((10, 13))),
            ("bytes=-14", 14, Some((0, 13))),
            ("bytes=-15", 14, Some((0, 13))),
            ("bytes=-18446744073709551616", 14, Some((0, 13))),
            ("bytes=-0", 14, None),
            ("bytes=-4", 0, None),
            ("bytes=0-", 0, None),
        ] {
            assert_eq!(within(value, length), place, "{value} of {length}");
        }
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
        // Ranges apply to the representation of the first part.
        let etag = gzip.etag.to_str().unwrap();
        let rest = [&gzip_first[..], &[(header::RANGE, "bytes=5-"), (header::IF_RANGE, etag)]].concat();
        let answer = file.answer(&headers(&rest));
        assert_eq!(answer.status(), 206);
        assert_eq!(to_bytes(answer.into_body(), 100).await.unwrap(), gzip.bytes.slice(5..));
        assert_eq!(file.answer(&headers(&rest[1..])).status(), 200, "of the plain form it is no part");
        assert_eq!(file.answer(&headers(&[(header::IF_NONE_MATCH, etag)])).status(), 200);
    }
}
