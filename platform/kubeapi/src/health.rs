//! `/healthz`, `/livez`, `/readyz`: whether this server should be asked at all.
//!
//! It answers, so it lives. It is ready if what was written is known to the cache, if writing works, and if it is
//! not being stopped. What a check found stays inside: these pages are for everybody.

use axum::response::Response;
use futures::future::join_all;
use http::StatusCode;

use crate::answer;
use crate::request::RequestInfo;
use crate::server::Server;
use crate::status::Failure;

/// What is looked at, in the order in which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// That there is an answer.
    Ping,
    /// That the store took the last write.
    Store,
    /// That the store can be read, and that the cache knows everything in it.
    Feed,
    /// That the server is not being stopped.
    Shutdown,
}

/// The checks behind a page, if it is one of these. A store that is gone does not come back by a restart of this server, so
/// that is no matter of life.
fn checks(page: &str) -> Option<&'static [Check]> {
    match page {
        "livez" => Some(&[Check::Ping]),
        "healthz" | "readyz" => Some(&[Check::Ping, Check::Store, Check::Feed, Check::Shutdown]),
        _ => None,
    }
}

/// The page, or one check of it, if the path is one of these.
pub(crate) async fn handle(server: &Server, info: &RequestInfo) -> Option<Result<Response, Failure>> {
    let path = info.path.trim_matches('/');
    let (page, wanted) = path.split_once('/').map_or((path, None), |(page, check)| (page, Some(check)));
    let checks = checks(page)?;
    Some(match wanted {
        None => Ok(all(server, info, page, checks).await),
        Some(wanted) => match checks.iter().find(|check| check.name() == wanted) {
            Some(check) => Ok(one(server, *check).await),
            None => Ok(answer::no_page()),
        },
    })
}

async fn all(server: &Server, info: &RequestInfo, page: &str, checks: &[Check]) -> Response {
    let excluded: Vec<_> = info.query.all("exclude").collect();
    let outcomes = checks.iter().map(|check| async {
        let excluded = excluded.contains(&check.name());
        (*check, excluded, excluded || check.passes(server).await)
    });
    let outcomes = join_all(outcomes).await;
    let passed = outcomes.iter().all(|(_, _, passes)| *passes);
    let status = if passed { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    if passed && !info.query.flag("verbose") {
        return answer::text(status, "ok");
    }
    let mut text = String::new();
    for (check, excluded, passes) in outcomes {
        let (sign, result) = match (excluded, passes) {
            (true, _) => ('+', "excluded: ok"),
            (false, true) => ('+', "ok"),
            (false, false) => ('-', "failed: reason withheld"),
        };
        text.push_str(&format!("[{sign}]{} {result}\n", check.name()));
    }
    text.push_str(&format!("{page} check {}\n", if passed { "passed" } else { "failed" }));
    answer::text(status, text)
}

async fn one(server: &Server, check: Check) -> Response {
    match check.passes(server).await {
        true => answer::text(StatusCode::OK, "ok"),
        false => {
            let text = format!("internal server error: {} failed: reason withheld\n", check.name());
            answer::text(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
    }
}

impl Check {
    fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Store => "store",
            Self::Feed => "feed",
            Self::Shutdown => "shutdown",
        }
    }

    async fn passes(self, server: &Server) -> bool {
        match self {
            Self::Ping => true,
            Self::Store => server.storage.writes_work(),
            Self::Feed => server.storage.is_followed().await,
            Self::Shutdown => !server.shutdown.is_requested(),
        }
    }
}
