//! What can be looked up before a cluster is made: the versions that are offered, and the roles that operators need.
//!
//! Clusters Service knows the versions. They change rarely and are asked for often, so what it said is kept for a short
//! while, and for longer when it cannot be asked.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use pilothouse_api::{Minor, ROLE_SETS, Release, VERSIONS, hub};
use pilothouse_arm::{PROVIDER, Page, ResourceId};
use pilothouse_clusters_service_api::{Client, Error, ListQuery, ReleaseVersion};
use pilothouse_http::Context;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::warn;

use crate::answer::Refusal;
use crate::ask::{self, Unanswered};
use crate::call::Call;
use crate::service::App;

/// For how long what Clusters Service said is taken as it is.
const FRESH: Duration = Duration::from_secs(20);
/// For how long it is left alone after it could not say anything, so that not every caller waits in vain.
const PAUSE: Duration = Duration::from_secs(5);

/// The versions that Clusters Service knows. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Releases(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    known: RwLock<Option<Known>>,
    /// Held by the one who asks.
    asking: Mutex<()>,
}

#[derive(Clone, Debug)]
struct Known {
    /// When it is asked for again.
    until: Instant,
    releases: Arc<[ReleaseVersion]>,
}

impl Releases {
    /// All of them. One caller asks, the others wait for the answer, but none for longer than it would wait alone.
    async fn all(&self, client: &Client, context: &Context) -> Result<Arc<[ReleaseVersion]>, Unanswered> {
        if let Some(releases) = self.fresh() {
            return Ok(releases);
        }
        let answer = ask::in_time(async {
            let _asking = self.0.asking.lock().await;
            if let Some(releases) = self.fresh() {
                return Ok(releases);
            }
            let releases: Arc<[_]> = fetch(client, context).await?.into();
            self.keep(Known { until: Instant::now() + FRESH, releases: Arc::clone(&releases) });
            Ok(releases)
        });
        match (answer.await, self.known()) {
            (Ok(releases), _) => Ok(releases),
            (Err(error), Some(stale)) => {
                warn!(?error, "Clusters Service could not be asked for versions; the last answer is used");
                self.keep(Known { until: Instant::now() + PAUSE, ..stale.clone() });
                Ok(stale.releases)
            }
            (Err(error), None) => Err(error),
        }
    }

    fn known(&self) -> Option<Known> {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fresh(&self) -> Option<Arc<[ReleaseVersion]>> {
        self.known().filter(|known| Instant::now() < known.until).map(|known| known.releases)
    }

    fn keep(&self, known: Known) {
        *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }
}

async fn fetch(client: &Client, context: &Context) -> Result<Vec<ReleaseVersion>, Error> {
    const SIZE: u32 = 100;
    let mut found = Vec::new();
    for page in 1.. {
        let query = ListQuery { page: Some(page), size: Some(SIZE), ..ListQuery::default() };
        let list = client.version_list(context, &query).await?;
        let last = list.items.is_empty() || page.saturating_mul(SIZE) >= list.total;
        found.extend(list.items);
        if last {
            break;
        }
    }
    Ok(found)
}

pub(crate) async fn version_list(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let releases = app.releases.all(&app.clusters_service, &call.context).await?;
    let value: Vec<_> = releases
        .iter()
        .map(|release| call.version.open_shift_version_write(&version(&call, release)))
        .collect();
    Ok(Json(Page { value, next_link: None }).into_response())
}

pub(crate) async fn version_get(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let id = call.id()?;
    let releases = app.releases.all(&app.clusters_service, &call.context).await?;
    match releases.iter().find(|release| name(release).eq_ignore_ascii_case(id.name())) {
        Some(release) => {
            Ok(Json(call.version.open_shift_version_write(&version(&call, release))).into_response())
        }
        None => Err(Refusal::Missing(id)),
    }
}

pub(crate) async fn role_set_list(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let minors = minors(&app, &call).await?;
    let sets = minors.into_iter().filter_map(|minor| role_set(&call, minor));
    let value: Vec<_> = sets.map(|set| call.version.role_set_write(&set)).collect();
    Ok(Json(Page { value, next_link: None }).into_response())
}

pub(crate) async fn role_set_get(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let id = call.id()?;
    let minors = minors(&app, &call).await?;
    let minor = id.name().parse().ok().filter(|minor| minors.contains(minor));
    match minor.and_then(|minor| role_set(&call, minor)) {
        Some(set) => Ok(Json(call.version.role_set_write(&set)).into_response()),
        None => Err(Refusal::Missing(id)),
    }
}

/// The minors of what clusters may be made of.
async fn minors(app: &App, call: &Call) -> Result<BTreeSet<Minor>, Refusal> {
    let releases = app.releases.all(&app.clusters_service, &call.context).await?;
    let enabled = releases.iter().filter(|release| release.enabled);
    Ok(enabled.filter_map(|release| Some(release.raw_id.parse::<Release>().ok()?.minor)).collect())
}

fn role_set(call: &Call, minor: Minor) -> Option<hub::OperatorRoleSet> {
    hub::OperatorRoleSet::of_minor(below(call, ROLE_SETS, &minor.to_string()), minor)
}

fn version(call: &Call, release: &ReleaseVersion) -> hub::OpenShiftVersion {
    hub::OpenShiftVersion {
        id: below(call, VERSIONS, name(release)),
        channel_group: release.channel_group.clone(),
        enabled: release.enabled,
        end_of_life: release.end_of_life_timestamp,
    }
}

/// Channels other than the stable one stay visible: `4.20.8-candidate`.
fn name(release: &ReleaseVersion) -> &str {
    release.id.strip_prefix("openshift-v").unwrap_or(&release.id)
}

/// The id of something below the location, as the caller spells that.
fn below(call: &Call, kind: &str, name: &str) -> ResourceId {
    const LOCATION: usize = 5;
    ResourceId::subscription(call.subscription)
        .provider(PROVIDER, "locations", call.segment(LOCATION))
        .child(kind, name)
}

#[cfg(test)]
mod tests {
    use pilothouse_clusters_service_api::simulated::{Call, Fault, Mode, Simulated};

    use super::*;

    #[tokio::test]
    async fn what_was_said_last_is_told_while_clusters_service_is_away() {
        let service = Simulated::start(Mode::Automatic).await;
        let (client, context) = (service.client(), Context::new(Duration::from_secs(60)));
        let releases = Releases::default();
        let asked = || service.calls().iter().filter(|call| call.path == "/versions").count();
        let names = async || {
            let all = releases.all(&client, &context).await.unwrap();
            all.iter().map(|release| name(release).to_owned()).collect::<Vec<_>>()
        };
        let grow_old = || {
            let known = releases.known().unwrap();
            releases.keep(Known { until: Instant::now(), ..known });
        };

        service.inject(Fault::Unavailable, Call::is_read);
        releases.all(&client, &context).await.unwrap_err();
        service.clear_faults();
        let said = names().await;
        assert!(said.contains(&"4.20.8".to_owned()), "{said:?}");
        let once = asked();

        service.inject(Fault::Unavailable, Call::is_read);
        grow_old();
        assert_eq!(names().await, said);
        let again = asked();
        assert!(again > once, "it was asked first");
        assert_eq!(names().await, said);
        assert_eq!(asked(), again, "and then left alone for a while");

        service.clear_faults();
        grow_old();
        assert_eq!(names().await, said);
        assert!(asked() > again, "it is asked as soon as that is over");
    }
}
