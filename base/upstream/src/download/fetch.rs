//! Bringing one file, as far as it is not here yet.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_RANGE, LOCATION, RANGE};
use pilothouse_http::{Client, ClientBuilder, Response};
use tokio::time::Instant;
use url::{Host, Url};

use super::error::DownloadError;
use crate::{Error, Progress};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(3);
/// How long an answer may take to begin, attempts to connect included.
const ANSWER: Duration = Duration::from_secs(15);
/// How often somebody may say that the file is elsewhere.
const REDIRECTS: usize = 5;
/// No file of a release is as large.
const LARGEST: u64 = 1 << 30;
/// How often a line says how far it is, unless a tenth has come before.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What is fetched, and how patient whoever fetches is.
pub(super) struct Fetch<'a> {
    /// What the lines of progress call it.
    pub(super) name: &'a str,
    pub(super) url: &'a Url,
    /// How long nothing may come.
    pub(super) stall: Duration,
}

/// Whether something may be asked for without TLS.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

impl Fetch<'_> {
    /// Appends to `file` what it lacks.
    pub(super) async fn run(&self, file: &mut File, path: &Path, say: Progress<'_>) -> Result<(), Error> {
        let client = self.client().map_err(|error| self.failed(DownloadError::Client(Box::new(error))))?;
        let here = file.metadata().map_err(Error::file("look at", path))?.len();
        let mut answer = self.ask(&client, here).await?;
        let goes_on = here > 0 && answer.status() == StatusCode::PARTIAL_CONTENT && begins_at(&answer, here);
        let mut length = if goes_on { here } else { 0 };
        if goes_on {
            say(&format!("{}: going on after {}", self.name, mebibytes(here)));
        } else if here > 0 && answer.status() != StatusCode::OK {
            // It has other bytes than those that are here, or cannot go on: from the beginning.
            answer = self.ask(&client, 0).await?;
        }
        if !goes_on && answer.status() != StatusCode::OK {
            return Err(self.failed(DownloadError::Status { status: answer.status().as_u16() }));
        }
        file.set_len(length).map_err(Error::file("shorten", path))?;
        file.seek(SeekFrom::Start(length)).map_err(Error::file("write", path))?;
        let whole = content_length(&answer).map(|rest| rest + length);
        self.within_limit(whole.unwrap_or_default())?;

        let mut told = (length, Instant::now());
        while let Some(piece) = self.next(&mut answer).await? {
            length += piece.len() as u64;
            self.within_limit(length)?;
            file.write_all(&piece).map_err(Error::file("write", path))?;
            let tenth = whole.unwrap_or(LARGEST) / 10;
            if length - told.0 >= tenth || told.1.elapsed() >= HEARTBEAT {
                told = (length, Instant::now());
                let of = whole.map_or_else(String::new, |whole| format!(" of {}", mebibytes(whole)));
                say(&format!("{}: {}{of}", self.name, mebibytes(length)));
            }
        }
        file.sync_data().map_err(Error::file("write", path))
    }

    /// A client that trusts whom the machine trusts, and nobody where nobody has to be.
    fn client(&self) -> Result<Client, pilothouse_http::ClientBuildError> {
        let builder = ClientBuilder::new(ANSWER).with_connect_timeout(CONNECT);
        let builder = if self.url.scheme() == "https" {
            builder.with_system_authorities().https_only()
        } else {
            builder
        };
        builder.build()
    }

    /// Asks for what comes after `here`, wherever it is.
    async fn ask(&self, client: &Client, here: u64) -> Result<Response, Error> {
        let mut url = self.url.clone();
        for _ in 0..=REDIRECTS {
            let mut call = client.get(url.clone()).streaming();
            if here > 0 {
                call = call.header(RANGE, &format!("bytes={here}-"));
            }
            let answer =
                call.send().await.map_err(|error| self.failed(DownloadError::Call(Box::new(error))))?;
            if !answer.status().is_redirection() {
                return Ok(answer);
            }
            url = self.elsewhere(&url, &answer)?;
        }
        let why = "after others had done the same; name a mirror with `--from`";
        Err(self.failed(DownloadError::Redirect { to: shown(&url), why }))
    }

    fn elsewhere(&self, url: &Url, answer: &Response) -> Result<Url, Error> {
        let refused = |to: String, why| self.failed(DownloadError::Redirect { to, why });
        let said = answer.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let next = said.and_then(|said| url.join(said).ok());
        let next = next.ok_or_else(|| {
            refused(said.unwrap_or_default().to_owned(), "which is no address; name a mirror with `--from`")
        })?;
        let as_safe = next.scheme() == "https" || (self.url.scheme() == "http" && is_plain_loopback(&next));
        if as_safe {
            Ok(next)
        } else {
            Err(refused(
                shown(&next),
                "which is not safe; name a mirror with `--from` that has the file itself",
            ))
        }
    }

    async fn next(&self, answer: &mut Response) -> Result<Option<Bytes>, Error> {
        match tokio::time::timeout(self.stall, answer.chunk()).await {
            Ok(piece) => piece.map_err(|error| self.failed(DownloadError::Call(Box::new(error)))),
            Err(_) => Err(self.failed(DownloadError::Stalled { seconds: self.stall.as_secs() })),
        }
    }

    fn within_limit(&self, length: u64) -> Result<(), Error> {
        if length <= LARGEST {
            return Ok(());
        }
        Err(self.failed(DownloadError::TooLarge { limit: LARGEST >> 20 }))
    }

    fn failed(&self, source: DownloadError) -> Error {
        Error::Download { url: shown(self.url), source }
    }
}

fn is_plain_loopback(url: &Url) -> bool {
    url.scheme() == "http" && is_loopback(url)
}

/// An address without what is in its query, where hosts of files put signatures.
pub(super) fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    shown.into()
}

fn content_length(answer: &Response) -> Option<u64> {
    answer.headers().get(http::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn begins_at(answer: &Response, here: u64) -> bool {
    let range = answer.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {here}-")))
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
