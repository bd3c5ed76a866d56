//! Credentials for clusters' administrators: asking for one, fetching it, and making all of them worthless.

use jiff::Timestamp;
use pilothouse_clusters_service_api::{
    BreakGlassCredential, BreakGlassCredentialId, BreakGlassCredentialStatus as Status, ClusterId, List,
    ListQuery, NewBreakGlassCredential, Secret,
};
use pilothouse_http::Context;
use pilothouse_pki::{
    Bundle, Certificate, Credential, Identity, KeyAlgorithm, Kubeconfig, PrivateKey, SigningRequest, Subject,
};
use pilothouse_runtime::Chain;
use pilothouse_store::Error as StoreError;
use rand::Rng as _;
use tracing::{error, info};

use super::{Clusters, Mode, TURNS, list, searched};
use crate::admission;
use crate::error::Impossible;
use crate::plan::plus;
use crate::record::{
    ClusterRecord, CredentialRecord, LONGEST_CREDENTIAL, Revocation, SHORTEST_CREDENTIAL, Signed,
};
use crate::records::Stored;
use crate::refusal::Refusal;
use crate::search::Subject as Searched;

/// Everybody who is let in is called something that begins like this, and this unless they say otherwise.
const USERS: &str = "system:customer-break-glass:";
const USER: &str = "system-admin";
/// What everybody who is let in belongs to.
const ADMINISTRATORS: &str = "system:masters";
const REQUEST: &str = "certificate_signing_request";
/// How many of a cluster may be good at once: a program that asks in a loop is told so before it has filled the store.
const MOST: usize = 100;

impl Clusters {
    /// Asks for a credential, or finds the one that the same operation asked for before.
    pub(crate) async fn credential_create(
        &self,
        context: &Context,
        cluster: &ClusterId,
        mut new: NewBreakGlassCredential,
        mode: Mode,
    ) -> Result<BreakGlassCredential, Refusal> {
        let origin = admission::origin(&mut new.properties, context.correlation_id());
        let user = user(new.username.as_deref())?;
        let (user, request, key) = request(user, new.certificate_signing_request)?;
        for _ in 0..TURNS {
            let (stored, credentials) = self.with_credentials(cluster).await?;
            let again = credentials.iter().find(|known| {
                origin.operation_id.is_some() && known.value.origin.operation_id == origin.operation_id
            });
            if let Some(again) = again {
                return Ok(again.value.credential.clone());
            }
            self.opens(&stored.value, &credentials)?;
            let alive = credentials.iter().filter(|known| known.value.is_alive()).count();
            if alive >= MOST {
                return Err(Refusal::Conflict(format!(
                    "cluster `{cluster}` has {alive} credentials that are good; use one of them, or revoke all"
                )));
            }
            let now = self.clock.now();
            good_until(new.expiration_timestamp, now)?;
            let id = random_id()?;
            let credential = BreakGlassCredential {
                kind: "BreakGlassCredential".to_owned(),
                href: format!("{}/break_glass_credentials/{id}", stored.value.cluster.href),
                id,
                cluster_id: cluster.clone(),
                username: user.clone(),
                expiration_timestamp: None,
                revocation_timestamp: None,
                kubeconfig: None,
                status: Status::Created,
                message: "it was asked for".to_owned(),
                properties: new.properties.clone(),
            };
            if mode == Mode::DryRun {
                return Ok(credential);
            }
            let mut record =
                CredentialRecord::new(credential, origin.clone(), request.clone(), key.clone(), now);
            record.good_until = new.expiration_timestamp;
            match self.records.credential_create(&stored, &record).await {
                Ok(()) => {
                    let credential = &record.credential;
                    info!(cluster = %cluster, credential = %credential.id, user, "a credential was asked for");
                    return Ok(record.credential);
                }
                // The cluster was written in between: look again.
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(busy(cluster))
    }

    /// One credential, with its kubeconfig for as long as that opens something.
    pub(crate) async fn credential_get(
        &self,
        cluster: &ClusterId,
        id: &BreakGlassCredentialId,
    ) -> Result<BreakGlassCredential, Refusal> {
        self.cluster_record(cluster).await?;
        let Some(stored) = self.records.credential_get(cluster, id).await? else {
            return Err(Refusal::credential_not_found(id.as_str()));
        };
        let record = stored.value;
        let mut shown = self.credential_shown(&record);
        if shown.status == Status::Issued
            && let Some(signed) = &record.signed
        {
            shown.kubeconfig = Some(kubeconfig(signed, record.key.as_ref())?);
        }
        Ok(shown)
    }

    pub(crate) async fn credential_list(
        &self,
        cluster: &ClusterId,
        query: ListQuery,
    ) -> Result<List<BreakGlassCredential>, Refusal> {
        let (_, credentials) = self.with_credentials(cluster).await?;
        let expression = searched(&query, Searched::Credentials)?;
        let shown = credentials.iter().map(|stored| self.credential_shown(&stored.value));
        list("BreakGlassCredentialList", shown, expression.as_ref(), &query, Searched::Credentials)
    }

    /// Asks for all credentials of a cluster to be revoked; asking again while that goes on changes nothing.
    pub(crate) async fn credentials_revoke(&self, cluster: &ClusterId, mode: Mode) -> Result<(), Refusal> {
        for _ in 0..TURNS {
            let (stored, credentials) = self.with_credentials(cluster).await?;
            let now = self.clock.now();
            let mut after = stored.value.clone();
            let revoked: Vec<_> = credentials
                .iter()
                .filter(|known| known.value.is_alive())
                .map(|known| {
                    let mut record = known.value.clone();
                    record.credential.status = Status::AwaitingRevocation;
                    record.credential.message = "its revocation was asked for".to_owned();
                    // Nobody is given it any more, whatever becomes of the rest.
                    record.key = None;
                    record.signed = None;
                    (record, &known.etag)
                })
                .collect();
            // One that is overdue has no time left to wait for.
            let is_new = !after.is_revoking_in_time(self.config.deadlines.credential.0, now);
            // The signer may have signed what there is no record of: asked for on the management cluster, or before the
            // records were restored. One that never answered has let nobody in.
            let may_open = after.cluster.api.url.is_some() && after.deletion.is_none();
            if mode == Mode::DryRun || (revoked.is_empty() && !(is_new && may_open)) {
                return Ok(());
            }
            if is_new {
                let id = random_id()?.to_string();
                after.revocations.push(Revocation { id, requested_at: now, done: false });
            }
            let changed: Vec<_> = revoked.iter().map(|(record, etag)| (record, *etag)).collect();
            match self.records.save(Some((&after, &stored.etag)), &[], &changed).await {
                Ok(()) => {
                    info!(cluster = %cluster, credentials = changed.len(), "all credentials are revoked");
                    return Ok(());
                }
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(busy(cluster))
    }

    /// Whether there is something to be let into.
    fn opens(&self, record: &ClusterRecord, credentials: &[Stored<CredentialRecord>]) -> Result<(), Refusal> {
        let id = &record.cluster.id;
        if record.deletion.is_some() {
            let reason = format!("cluster `{id}` is being deleted; nobody is let in any more");
            return Err(Refusal::Conflict(reason));
        }
        if record.cluster.api.url.is_none() {
            let reason = format!("cluster `{id}` does not answer yet; wait until it is ready");
            return Err(Refusal::Conflict(reason));
        }
        let limit = self.config.deadlines.credential.0;
        let awaits =
            |known: &Stored<CredentialRecord>| known.value.credential.status == Status::AwaitingRevocation;
        // Where nobody waits for it, whoever asks waits for the new signer instead.
        if credentials.iter().any(awaits) && record.is_revoking_in_time(limit, self.clock.now()) {
            return Err(Refusal::Conflict(format!(
                "the credentials of cluster `{id}` are being revoked; try again when that is done, or has taken {limit:?}"
            )));
        }
        Ok(())
    }

    async fn with_credentials(
        &self,
        cluster: &ClusterId,
    ) -> Result<(Stored<ClusterRecord>, Vec<Stored<CredentialRecord>>), Refusal> {
        let stored = self.records.cluster_get(cluster).await?;
        let stored = stored.ok_or_else(|| Refusal::cluster_not_found(cluster.as_str()))?;
        Ok((stored, self.records.credential_list(cluster).await?))
    }

    /// As it is now: its time may have been over for a moment that nobody has noticed.
    fn credential_shown(&self, record: &CredentialRecord) -> BreakGlassCredential {
        let mut shown = record.credential.clone();
        if shown.status == Status::Issued && record.has_expired(self.clock.now()) {
            shown.status = Status::Expired;
        }
        shown
    }
}

/// As whom somebody comes in.
fn user(asked: Option<&str>) -> Result<String, Refusal> {
    let name = asked.unwrap_or(USER);
    let name = name.strip_prefix(USERS).unwrap_or(name);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'@');
    if name.is_empty() || name.len() > 64 || !name.bytes().all(allowed) {
        let problem = "use at most 64 letters, digits and `-`, `.`, `_`, `@`";
        return Err(Refusal::field("username", problem));
    }
    Ok(format!("{USERS}{name}"))
}

/// Until when somebody wants it to be good.
fn good_until(asked: Option<Timestamp>, now: Timestamp) -> Result<(), Refusal> {
    let Some(end) = asked else { return Ok(()) };
    let (first, last) = (plus(now, SHORTEST_CREDENTIAL), plus(now, LONGEST_CREDENTIAL));
    if (first..=last).contains(&end) {
        return Ok(());
    }
    let problem = format!(
        "it is {end}; say a time from {first} to {last}, ten minutes to 24 hours ahead, or leave it out for the latter"
    );
    Err(Refusal::field("expiration_timestamp", problem))
}

/// What is to be signed, for whom, and the key to it if that is ours to make.
fn request(user: String, brought: Option<String>) -> Result<(String, String, Option<Secret>), Refusal> {
    let Some(text) = brought else {
        let made = PrivateKey::generate(KeyAlgorithm::EcdsaP256).and_then(|key| {
            let subject = Subject::try_new(user.as_str())?.with_organizations([ADMINISTRATORS])?;
            Ok((SigningRequest::write(&subject, [], &key)?, key))
        });
        let (request, key) = made.map_err(|cause| impossible(&cause))?;
        return Ok((user, request, Some(Secret::new(key.to_pem().as_str()))));
    };
    // Some programs write the older of the two names.
    let text = text.replace("NEW CERTIFICATE REQUEST", "CERTIFICATE REQUEST");
    let asked = SigningRequest::from_pem(text.as_bytes())
        .map_err(|error| Refusal::field(REQUEST, error.to_string()))?;
    let (name, groups) = (asked.subject().common_name(), asked.subject().organizations());
    if name.strip_prefix(USERS).is_none_or(str::is_empty) {
        return Err(Refusal::field(REQUEST, format!("its common name has to begin with `{USERS}`")));
    }
    if groups != [ADMINISTRATORS] {
        return Err(Refusal::field(REQUEST, format!("its only organization has to be `{ADMINISTRATORS}`")));
    }
    Ok((name.to_owned(), text, None))
}

/// How to get in. Without a key here, whoever asked adds theirs.
fn kubeconfig(signed: &Signed, key: Option<&Secret>) -> Result<Secret, Refusal> {
    let written = || {
        let authorities =
            Bundle::from_pem(signed.authorities.as_bytes()).map_err(|cause| impossible(&cause))?;
        let chain = Certificate::chain_from_pem(signed.certificate.as_bytes());
        let chain = chain.map_err(|cause| impossible(&cause))?;
        let identity = key
            .map(|key| Identity::from_pem(signed.certificate.as_bytes(), key.expose().as_bytes()))
            .transpose()
            .map_err(|cause| impossible(&cause))?;
        let kubeconfig = Kubeconfig {
            cluster: "cluster",
            user: "admin",
            context: "admin",
            server: &signed.server,
            tls_server_name: signed.tls_server_name.as_deref(),
            authorities: &authorities,
            namespace: None,
            credential: match &identity {
                Some(identity) => Credential::Certificate(identity),
                None => Credential::CertificateWithoutKey(&chain),
            },
        };
        kubeconfig.to_yaml().map_err(|cause| impossible(&cause))
    };
    Ok(Secret::new(written()?.as_str()))
}

fn impossible(cause: &(dyn std::error::Error + 'static)) -> Impossible {
    error!(error = %Chain(cause), "a credential could not be put together");
    Impossible("a credential could not be put together")
}

fn busy(cluster: &ClusterId) -> Refusal {
    Refusal::Busy(format!("cluster `{cluster}`"))
}

/// Sixteen hexadecimal digits, which are part of names on the management cluster.
fn random_id() -> Result<BreakGlassCredentialId, Impossible> {
    let number: u64 = rand::rng().random();
    format!("{number:016x}").parse().map_err(|_| Impossible("a random id is not an id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_of_one_kind_whatever_they_are_called() {
        assert_eq!(user(None).unwrap(), "system:customer-break-glass:system-admin");
        assert_eq!(user(Some("ada@example.com")).unwrap(), "system:customer-break-glass:ada@example.com");
        assert_eq!(user(Some("system:customer-break-glass:ada")).unwrap(), "system:customer-break-glass:ada");
        for refused in ["", "system:admin", "a b", &"a".repeat(65)] {
            assert!(user(Some(refused)).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_key_is_made_here_only_for_those_who_bring_none() {
        let (name, text, key) = request(user(None).unwrap(), None).unwrap();
        let asked = SigningRequest::from_pem(text.as_bytes()).unwrap();
        assert_eq!(asked.subject().organizations(), ["system:masters"]);
        let key = PrivateKey::from_pem(key.expect("a key").expose().as_bytes()).unwrap();
        assert!(asked.is_for(&key));

        let brought = text.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST");
        let (again, kept, none) = request(String::new(), Some(brought)).unwrap();
        assert_eq!((again, kept, none), (name, text, None));

        let own = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
        for subject in [
            Subject::try_new("system:admin").unwrap().with_organizations([ADMINISTRATORS]).unwrap(),
            Subject::try_new("system:customer-break-glass:ada").unwrap(),
        ] {
            let text = SigningRequest::write(&subject, [], &own).unwrap();
            assert!(request(String::new(), Some(text)).is_err(), "{subject:?}");
        }
        assert!(request(String::new(), Some("no request".to_owned())).is_err());
    }
}
