//! Downloads of files into the cache.

use std::{
    fs::{self, File},
    io::{IsTerminal, Seek, SeekFrom, Write, stderr},
    path::{Path, PathBuf},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reqwest::{
    Response, StatusCode, Url,
    header::{CONTENT_RANGE, ETAG},
};

use super::{
    cache::{Repository, is_inside, unwritable, within_folder},
    endpoint::{Endpoint, LINKED_ETAG, PAUSES, RequestError, host, path},
};

/// A file of one commit on the hub.
pub(super) struct Remote<'a> {
    /// The hub, or a mirror of it.
    pub(super) endpoint: &'a Endpoint,
    /// The repository in the cache.
    pub(super) cache: &'a Repository,
    /// Name of the repository, `OWNER/NAME`.
    pub(super) repository: &'a str,
    /// Commit that has the file.
    pub(super) commit: &'a str,
    /// Name of the file in the repository.
    pub(super) name: &'a str,
}

impl Remote<'_> {
    /// Returns the path of the file in the cache. Downloads it if it is not there.
    pub(super) async fn fetch(&self) -> Result<PathBuf, RequestError> {
        let Self { cache, repository, commit, name, .. } = self;
        let found = cache.snapshot(commit).join(name);
        if found.exists() {
            return Ok(found);
        }
        let from = self.endpoint.at(format!("{repository}/resolve/{commit}/{name}").split('/'));
        let etag = version(&self.endpoint.head(&from).await?)?;
        // Other processes wait here, and then find the file in the cache.
        let _lock = cache.lock(&etag).await?;
        let blob = cache.blob(&etag);
        if !blob.exists() {
            download(self.endpoint, &from, &blob, self.name).await?;
        }
        cache.link(&etag, commit, name)
    }
}

/// Downloads the file `name` to a path. Bytes of an earlier download are kept, and so are those of this one if it is
/// cut off for good.
pub(super) async fn download(endpoint: &Endpoint, from: &Url, path: &Path, name: &str) -> Result<(), RequestError> {
    let part = path.with_added_extension("incomplete");
    let mut file = within_folder(&part, |path| File::options().create(true).truncate(false).write(true).open(path))?;
    let (bar, mut pauses) = (bar(name), PAUSES.into_iter());
    loop {
        let kept = length(&file, &part)?;
        let Err(error) = append(endpoint, from, kept, &mut file, &part, &bar).await else { break };
        if length(&file, &part)? > kept {
            pauses = PAUSES.into_iter();
        }
        match pauses.next().filter(|_| is_cut_off(&error)) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(error),
        }
    }
    bar.finish();
    fs::rename(&part, path).map_err(|error| unwritable(path, error))
}

/// Appends the bytes that are missing after the first `kept` of a file.
async fn append(
    endpoint: &Endpoint,
    from: &Url,
    mut kept: u64,
    file: &mut File,
    part: &Path,
    bar: &ProgressBar,
) -> Result<(), RequestError> {
    let mut begin_at = |kept: u64| {
        let begun = file.set_len(kept).and_then(|()| file.seek(SeekFrom::Start(kept)));
        begun.map_err(|error| unwritable(part, error))
    };
    let mut response = endpoint.get(from, kept).await?;
    let total = match response.status() {
        StatusCode::PARTIAL_CONTENT => {
            let (start, total) = range(&response)?;
            if start != Some(kept) {
                return Err(RequestError::of_header(&response, CONTENT_RANGE));
            }
            Some(total)
        }
        StatusCode::RANGE_NOT_SATISFIABLE if kept > 0 => {
            let (_, total) = range(&response)?;
            if kept == total {
                return Ok(());
            }
            // The bytes in the cache do not belong to this file.
            begin_at(0)?;
            return Err(length_error(&response, kept, total));
        }
        // The whole file: the server does not support ranges.
        StatusCode::OK => {
            kept = 0;
            response.content_length()
        }
        _ => return Err(RequestError::of_status(&response)),
    };
    begin_at(kept)?;
    bar.set_length(total.unwrap_or_default());
    bar.set_position(kept);
    let url = response.url().clone();
    while let Some(bytes) = response.chunk().await.map_err(|error| RequestError::of_connection(&url, &error))? {
        file.write_all(&bytes).map_err(|error| unwritable(part, error))?;
        kept += bytes.len() as u64;
        bar.set_position(kept);
    }
    match total {
        Some(expected) if expected != kept => Err(length_error(&response, kept, expected)),
        _ => Ok(()),
    }
}

/// Version of a file: its ETag, which also names its blob in the cache.
fn version(response: &Response) -> Result<String, RequestError> {
    let name = [LINKED_ETAG, ETAG].into_iter().find(|name| response.headers().contains_key(name)).unwrap_or(ETAG);
    if !response.status().is_success() && name != LINKED_ETAG {
        return Err(RequestError::of_status(response));
    }
    let etag = response.headers().get(&name).and_then(|etag| etag.to_str().ok()).map(|etag| {
        let strong = etag.trim().strip_prefix("W/").unwrap_or(etag.trim());
        strong.trim_matches('"').to_owned()
    });
    let is_usable = |etag: &String| is_inside(etag) && !etag.contains('/');
    etag.filter(is_usable).ok_or_else(|| RequestError::of_header(response, name))
}

/// First byte of a response's range, if it has one, and the length of the whole file in bytes.
fn range(response: &Response) -> Result<(Option<u64>, u64), RequestError> {
    let parsed = || {
        let (range, total) =
            response.headers().get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?.split_once('/')?;
        Some((range.split_once('-').and_then(|(start, _)| start.parse().ok()), total.parse().ok()?))
    };
    parsed().ok_or_else(|| RequestError::of_header(response, CONTENT_RANGE))
}

/// Returns true for failures after which a download is resumed.
fn is_cut_off(error: &RequestError) -> bool {
    matches!(error, RequestError::Connection { .. } | RequestError::Length { .. })
}

fn length_error(response: &Response, received: u64, expected: u64) -> RequestError {
    RequestError::Length { host: host(response.url()), path: path(response.url()), received, expected }
}

fn length(file: &File, path: &Path) -> Result<u64, RequestError> {
    file.metadata().map(|metadata| metadata.len()).map_err(|error| unwritable(path, error))
}

/// Progress bar on standard error, shown in a terminal.
fn bar(name: &str) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_message(name.to_owned());
    match ProgressStyle::with_template("{msg} [{elapsed}] {bar:40} {bytes}/{total_bytes} {bytes_per_sec} ({eta})") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
