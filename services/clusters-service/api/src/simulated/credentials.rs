//! Credentials for administrators, really signed.

use std::time::Duration;

use axum::extract::State as Shares;
use axum::extract::{Path, RawQuery};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use pilothouse_pki::{Authority, Bundle, Credential, Kubeconfig, LeafRequest, SigningRequest, Subject};
use pilothouse_runtime::Clock;

use super::Resource;
use super::refusal::Refusal;
use super::service::{Handles, answer, body, cluster_id, created, is_dry_run, list_query, page};
use super::state::{Kept, State};
use crate::{
    BreakGlassCredential, BreakGlassCredentialId, BreakGlassCredentialStatus, Change, Cluster, ClusterId,
    ClusterState, InvalidId, NewBreakGlassCredential, Secret,
};

/// As whom an administrator comes in.
const ADMINISTRATOR: &str = "system:customer-break-glass:system-admin";
const ADMINISTRATORS: &str = "system:masters";
/// For how long.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

type Key = (ClusterId, BreakGlassCredentialId);

impl State {
    fn credential(&self, key: &Key) -> Result<&BreakGlassCredential, Refusal> {
        self.cluster(&key.0)?;
        let found = self.credentials.get(key).map(|kept| &kept.value);
        found.ok_or_else(|| Refusal::not_found("Break glass credential", key.1.as_str()))
    }

    fn credential_create(
        &mut self,
        cluster: &ClusterId,
        new: NewBreakGlassCredential,
        dry_run: bool,
        now: Timestamp,
    ) -> Result<BreakGlassCredential, Refusal> {
        let owner = self.staying(cluster)?;
        let href = format!("{}/break_glass_credentials", owner.href);
        if owner.api.url.is_none() || owner.state == ClusterState::Error {
            return Err(Refusal::conflict(format!(
                "cluster `{cluster}` does not answer yet; nothing opens it"
            )));
        }
        if let Some(text) = &new.certificate_signing_request {
            SigningRequest::from_pem(text.as_bytes()).map_err(|error| {
                Refusal::field("InvalidField", "certificate_signing_request", &error.to_string())
            })?;
        }
        let mut made = self.credentials.iter().filter(|((owner, _), _)| owner == cluster);
        let known = made.find_map(|(_, kept)| kept.again("it", &new.properties).ok());
        if let Some(known) = known {
            return Ok(known.clone().without_kubeconfig());
        }
        let id: BreakGlassCredentialId =
            format!("{:016x}", self.next_number()).parse().expect("hexadecimal digits are an id");
        let credential = BreakGlassCredential {
            kind: "BreakGlassCredential".to_owned(),
            href: format!("{href}/{id}"),
            id: id.clone(),
            cluster_id: cluster.clone(),
            username: new.username.unwrap_or_else(|| ADMINISTRATOR.to_owned()),
            expiration_timestamp: None,
            revocation_timestamp: None,
            kubeconfig: None,
            status: BreakGlassCredentialStatus::Created,
            message: String::new(),
            properties: new.properties,
        };
        if dry_run {
            return Ok(credential);
        }
        let key = (cluster.clone(), id);
        self.requests.insert(key.clone(), new.certificate_signing_request);
        self.credentials.insert(key.clone(), Kept::new(credential.clone(), &credential.properties));
        self.tell(Change::BreakGlassCredential(cluster.clone(), Box::new(credential.clone())));
        self.walk(&Resource::Credential(key.0, key.1), now);
        Ok(credential)
    }

    /// All of a cluster's open nothing any more.
    fn credentials_revoke(&mut self, cluster: &ClusterId, now: Timestamp) -> Result<(), Refusal> {
        self.cluster(cluster)?;
        let keys: Vec<_> = self.credentials.keys().filter(|(owner, _)| owner == cluster).cloned().collect();
        for key in keys {
            let Some(kept) = self.credentials.get_mut(&key) else { continue };
            use BreakGlassCredentialStatus::{AwaitingRevocation, Created, Issued};
            if matches!(kept.value.status, Created | Issued) {
                kept.value.status = AwaitingRevocation;
                kept.value.kubeconfig = None;
                let told = kept.value.clone();
                self.tell(Change::BreakGlassCredential(cluster.clone(), Box::new(told)));
            }
            self.walk(&Resource::Credential(key.0, key.1), now);
        }
        Ok(())
    }

    /// Issues what was decided to be issued.
    pub(super) fn sign_waiting(&mut self, authority: &Authority, clock: &Clock) {
        for key in std::mem::take(&mut self.to_sign) {
            let request = self.requests.get(&key).cloned().flatten();
            let Some(cluster) = self.clusters.get(&key.0).map(|kept| kept.value.clone()) else { continue };
            let Some(kept) = self.credentials.get_mut(&key) else { continue };
            match signed(&cluster, request.as_deref(), authority, clock) {
                Ok((kubeconfig, until)) => {
                    kept.value.kubeconfig = Some(Secret::new(kubeconfig));
                    kept.value.expiration_timestamp = Some(until);
                    kept.value.status = BreakGlassCredentialStatus::Issued;
                }
                Err(problem) => {
                    kept.value.status = BreakGlassCredentialStatus::Failed;
                    kept.value.message = problem;
                }
            }
            let told = kept.value.clone();
            self.tell(Change::BreakGlassCredential(key.0.clone(), Box::new(told)));
        }
    }
}

/// The kubeconfig, and until when it is good.
fn signed(
    cluster: &Cluster,
    request: Option<&str>,
    authority: &Authority,
    clock: &Clock,
) -> Result<(String, Timestamp), String> {
    let words = |error: &dyn std::error::Error| error.to_string();
    let subject = Subject::try_new(ADMINISTRATOR)
        .and_then(|subject| subject.with_organizations([ADMINISTRATORS]))
        .map_err(|error| words(&error))?;
    let granted = LeafRequest::client(subject).with_lifetime(LIFETIME);
    let authorities = Bundle::from(authority.certificate());
    let kubeconfig = |credential| {
        let kubeconfig = Kubeconfig {
            cluster: "cluster",
            user: "admin",
            context: "admin",
            server: cluster.api.url.as_deref().unwrap_or_default(),
            tls_server_name: None,
            authorities: &authorities,
            namespace: None,
            credential,
        };
        kubeconfig.to_yaml().map(|text| text.to_string()).map_err(|error| words(&error))
    };
    match request {
        Some(text) => {
            let asked = SigningRequest::from_pem(text.as_bytes()).map_err(|error| words(&error))?;
            let chain = authority.sign_request(&asked, &granted, clock).map_err(|error| words(&error))?;
            let until = chain.first().map(|leaf| leaf.not_after()).ok_or("nothing was signed")?;
            Ok((kubeconfig(Credential::CertificateWithoutKey(&chain))?, until))
        }
        None => {
            let identity = authority.issue(&granted, clock).map_err(|error| words(&error))?;
            Ok((kubeconfig(Credential::Certificate(&identity))?, identity.certificate().not_after()))
        }
    }
}

fn key(cluster: &str, id: &str) -> Result<Key, Refusal> {
    let id = id.parse().map_err(|_: InvalidId| Refusal::not_found("Break glass credential", id))?;
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
        let all = state.credentials.values().map(|kept| kept.value.clone().without_kubeconfig());
        page("BreakGlassCredentialList", all.filter(|found| found.cluster_id == cluster).collect(), &query)
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
        shared.change(|state, now| state.credential_create(&cluster, new, dry_run, now))
    });
    answer(created(dry_run), outcome)
}

pub(super) async fn get(Shares(shared): Handles, Path((cluster, id)): Path<(String, String)>) -> Response {
    let outcome = key(&cluster, &id).and_then(|key| shared.lock().credential(&key).cloned());
    answer(StatusCode::OK, outcome)
}

pub(super) async fn revoke(Shares(shared): Handles, Path(cluster): Path<String>) -> Response {
    let outcome = cluster_id(&cluster)
        .and_then(|cluster| shared.change(|state, now| state.credentials_revoke(&cluster, now)));
    match outcome {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(refusal) => refusal.into_response(),
    }
}
