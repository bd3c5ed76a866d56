//! External auths of the simulated service.

use axum::extract::State as Shares;
use axum::extract::{Path, RawQuery};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;

use super::Resource;
use super::refusal::Refusal;
use super::service::{Handles, answer, body, cluster_id, created, is_dry_run, list_query, page};
use super::state::{Kept, State};
use crate::{
    Change, ClusterId, ExternalAuth, ExternalAuthId, ExternalAuthState, ExternalAuthStateValue,
    ExternalAuthStatus, ExternalAuthUpdate, InvalidId, NewExternalAuth, TokenClient, TokenIssuer,
};

type Key = (ClusterId, ExternalAuthId);

impl State {
    fn external_auth(&self, key: &Key) -> Result<&Kept<ExternalAuth>, Refusal> {
        self.cluster(&key.0)?;
        self.external_auths.get(key).ok_or_else(|| Refusal::not_found("External auth", key.1.as_str()))
    }

    fn external_auth_create(
        &mut self,
        cluster: &ClusterId,
        new: NewExternalAuth,
        dry_run: bool,
        now: Timestamp,
    ) -> Result<ExternalAuth, Refusal> {
        let key = (cluster.clone(), new.id.clone());
        let href = format!("{}/external_auth_config/external_auths/{}", self.staying(cluster)?.href, new.id);
        if let Some(kept) = self.external_auths.get(&key) {
            return kept.again(&format!("external auth `{}`", new.id), &new.properties).cloned();
        }
        check(&new.issuer)?;
        let external_auth = ExternalAuth {
            kind: "ExternalAuth".to_owned(),
            href,
            id: new.id,
            cluster_id: cluster.clone(),
            creation_timestamp: now,
            issuer: new.issuer,
            clients: without_secrets(new.clients),
            claim: new.claim,
            properties: new.properties,
            status: ExternalAuthStatus {
                state: ExternalAuthState {
                    value: ExternalAuthStateValue::Validating,
                    last_updated_timestamp: now,
                },
                message: "accepted".to_owned(),
            },
        };
        if dry_run {
            return Ok(external_auth);
        }
        self.external_auths.insert(key.clone(), Kept::new(external_auth.clone(), &external_auth.properties));
        self.tell(Change::ExternalAuth(Box::new(external_auth.clone())));
        self.walk(&Resource::ExternalAuth(key.0, key.1), now);
        Ok(external_auth)
    }

    fn external_auth_update(
        &mut self,
        key: &Key,
        update: ExternalAuthUpdate,
        dry_run: bool,
        now: Timestamp,
    ) -> Result<ExternalAuth, Refusal> {
        self.staying(&key.0)?;
        let kept = self.external_auth(key)?;
        let mut after = kept.value.clone();
        let ExternalAuthUpdate { issuer, clients, claim, properties } = update;
        if !kept.is_new(&properties) {
            return Ok(after);
        }
        if after.status.state.value == ExternalAuthStateValue::Uninstalling {
            return Err(Refusal::conflict(format!("external auth `{}` is being deleted", key.1)));
        }
        after.issuer = issuer.unwrap_or(after.issuer);
        check(&after.issuer)?;
        after.clients = clients.map_or(after.clients, without_secrets);
        after.claim = claim.unwrap_or(after.claim);
        let changed = after != kept.value;
        after.properties.extend(properties.clone());
        if changed {
            after.enter(ExternalAuthStateValue::Updating, "the change was accepted".to_owned(), now);
        }
        if dry_run {
            return Ok(after);
        }
        if let Some(kept) = self.external_auths.get_mut(key) {
            kept.changed(&properties);
            kept.value = after.clone();
        }
        self.tell(Change::ExternalAuth(Box::new(after.clone())));
        self.walk(&Resource::ExternalAuth(key.0.clone(), key.1.clone()), now);
        Ok(after)
    }

    fn external_auth_delete(&mut self, key: &Key, now: Timestamp) -> Result<(), Refusal> {
        self.external_auth(key)?;
        let Some(kept) = self.external_auths.get_mut(key) else { return Ok(()) };
        if kept.value.status.state.value != ExternalAuthStateValue::Uninstalling {
            kept.value.enter(
                ExternalAuthStateValue::Uninstalling,
                "its deletion was asked for".to_owned(),
                now,
            );
            let told = Change::ExternalAuth(Box::new(kept.value.clone()));
            self.tell(told);
        }
        self.walk(&Resource::ExternalAuth(key.0.clone(), key.1.clone()), now);
        Ok(())
    }
}

impl ExternalAuth {
    /// Enters a state, with what goes along with it.
    pub(super) fn enter(&mut self, value: ExternalAuthStateValue, message: String, now: Timestamp) {
        self.status.state = ExternalAuthState { value, last_updated_timestamp: now };
        self.status.message = message;
    }
}

/// Secrets come in and never go out.
fn without_secrets(clients: Vec<TokenClient>) -> Vec<TokenClient> {
    clients.into_iter().map(|client| TokenClient { secret: None, ..client }).collect()
}

fn check(issuer: &TokenIssuer) -> Result<(), Refusal> {
    if !issuer.url.starts_with("https://") {
        return Err(Refusal::field("InvalidField", "issuer.url", "it must begin with `https://`"));
    }
    if issuer.audiences.is_empty() {
        return Err(Refusal::field("InvalidField", "issuer.audiences", "at least one is required"));
    }
    Ok(())
}

fn key(cluster: &str, id: &str) -> Result<Key, Refusal> {
    let id = id.parse().map_err(|_: InvalidId| Refusal::not_found("External auth", id))?;
    Ok((cluster_id(cluster)?, id))
}

pub(super) async fn list(
    Shares(shared): Handles,
    Path(cluster): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let outcome = cluster_id(&cluster).and_then(|cluster| {
        let query = list_query(query.as_deref())?;
        let state = shared.lock();
        state.cluster(&cluster)?;
        let auths = state.external_auths.values().map(|kept| &kept.value);
        page("ExternalAuthList", auths.filter(|auth| auth.cluster_id == cluster).cloned().collect(), &query)
    });
    answer(StatusCode::OK, outcome)
}

pub(super) async fn create(
    Shares(shared): Handles,
    Path(cluster): Path<String>,
    RawQuery(query): RawQuery,
    bytes: Bytes,
) -> Response {
    let dry_run = is_dry_run(query.as_deref());
    let outcome = cluster_id(&cluster).and_then(|cluster| {
        let new = body(&bytes)?;
        shared.change(|state, now| state.external_auth_create(&cluster, new, dry_run, now))
    });
    answer(created(dry_run), outcome)
}

pub(super) async fn get(Shares(shared): Handles, Path((cluster, id)): Path<(String, String)>) -> Response {
    let outcome = key(&cluster, &id).and_then(|key| Ok(shared.lock().external_auth(&key)?.value.clone()));
    answer(StatusCode::OK, outcome)
}

pub(super) async fn update(
    Shares(shared): Handles,
    Path((cluster, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    bytes: Bytes,
) -> Response {
    let dry_run = is_dry_run(query.as_deref());
    let outcome = key(&cluster, &id).and_then(|key| {
        let update = body(&bytes)?;
        shared.change(|state, now| state.external_auth_update(&key, update, dry_run, now))
    });
    answer(StatusCode::OK, outcome)
}

pub(super) async fn delete(Shares(shared): Handles, Path((cluster, id)): Path<(String, String)>) -> Response {
    let outcome =
        key(&cluster, &id).and_then(|key| shared.change(|state, now| state.external_auth_delete(&key, now)));
    match outcome {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => refusal.into_response(),
    }
}
