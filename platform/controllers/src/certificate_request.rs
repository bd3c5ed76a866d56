//! Requests for certificates: which are approved, what is signed, and when old ones go.
//!
//! * A node that joins (`nodeclient`) or renews (`selfnodeclient`) is approved when whoever asks may create that subresource of
//!   requests, which the API server is asked.
//! * A node's serving certificate is approved when the node asks for itself, for addresses of its own Node that no other Node
//!   has. Upstream leaves these to people; a cluster whose nodes come and go by themselves has nobody to ask.
//! * What is approved, by us or by anybody, is signed by the cluster's authority if it says nothing that the signer's name does
//!   not allow; otherwise it has failed, and says why.
//! * Nobody needs a request that was answered an hour ago, or that nobody answered in a day.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use pilothouse_informer::ObjectKey;
use pilothouse_pki::{Authority, Certificate, LeafRequest, SigningRequest};
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use tracing::info;

use crate::calls::{CallError, POST, required, tolerant};
use crate::watches::Caches;

mod check;
#[cfg(test)]
mod tests;

use check::Signer;

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

/// How long a request is kept after its answer, and how long it may wait for one.
const ANSWERED: SignedDuration = SignedDuration::from_hours(1);
const UNANSWERED: SignedDuration = SignedDuration::from_hours(24);

/// When to ask again whether somebody may. Permissions change without a word.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// No certificate lives shorter.
const SHORTEST: Duration = Duration::from_secs(600);

pub(crate) struct CertificateRequests {
    client: Client,
    caches: Caches,
    clock: Clock,
    authority: Option<Authority>,
    settings: Settings,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How long certificates live at most.
    pub(crate) lifetime: Duration,
    /// Whether nodes' serving certificates are approved.
    pub(crate) serving: bool,
}

/// What to do with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Plan {
    /// Nothing, until it is too old.
    Keep(Option<Timestamp>),
    Delete,
    /// To be approved if whoever asks may create one of these subresources: which, and in which words.
    Ask(Vec<(&'static str, &'static str)>),
    Approve(&'static str),
    Sign,
    Fail(String),
}

// === planning ===

fn plan(
    request: &CertificateSigningRequest,
    nodes: &[Arc<Node>],
    approve_serving: bool,
    now: Timestamp,
) -> Plan {
    let end = end_of(request);
    if end.is_some_and(|end| end <= now) {
        return Plan::Delete;
    }
    let keep = Plan::Keep(end);
    if issued(request).is_some() || condition(request, FAILED).is_some() {
        return keep;
    }
    let Some(signer) = Signer::of(&request.spec.signer_name) else { return keep };
    let (approved, denied) = (condition(request, APPROVED), condition(request, DENIED));
    let asked = SigningRequest::from_pem(&request.spec.request.0);
    if denied.is_some() {
        return keep;
    }
    if approved.is_some() {
        let checked = asked.map_err(|error| format!("unable to parse csr: {error}"));
        let checked = checked.and_then(|asked| check::check(signer, &asked, usages(request)));
        return checked.map_or_else(Plan::Fail, |()| Plan::Sign);
    }
    // What cannot be signed is not approved; somebody may look at it until it goes.
    let Ok(asked) = asked else { return keep };
    if check::check(signer, &asked, usages(request)).is_err() {
        return keep;
    }
    let own = request.spec.username.as_deref() == Some(asked.subject().common_name());
    match signer {
        Signer::NodeClient => {
            let node = ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.");
            let itself = (
                "selfnodeclient",
                "Auto approving self kubelet client certificate after SubjectAccessReview.",
            );
            Plan::Ask(if own { vec![itself, node] } else { vec![node] })
        }
        Signer::NodeServing if approve_serving && own && check::is_from_node(request) => {
            match check::addresses_are_its_own(&asked, nodes) {
                true => {
                    Plan::Approve("Auto approving kubelet serving certificate for the node's own addresses.")
                }
                false => keep,
            }
        }
        Signer::NodeServing | Signer::Client => keep,
    }
}

/// When a request has served its time.
fn end_of(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let said = |kind: &str| condition(request, kind)?.last_update_time.as_ref().map(|time| time.0);
    let after = |moment: Option<Timestamp>, wait: SignedDuration| moment?.checked_add(wait).ok();
    let conditions = request.status.as_ref().and_then(|status| status.conditions.as_deref());
    let certificate = issued(request).and_then(|pem| Certificate::from_pem(pem).ok());
    let ends = [
        certificate.as_ref().map(Certificate::not_after),
        issued(request).and_then(|_| after(said(APPROVED), ANSWERED)),
        after(said(DENIED), ANSWERED),
        after(said(FAILED), ANSWERED),
        match conditions.unwrap_or_default() {
            [] => after(request.metadata.creation_timestamp.as_ref().map(|time| time.0), UNANSWERED),
            _ => None,
        },
    ];
    ends.into_iter().flatten().min()
}

fn condition<'a>(
    request: &'a CertificateSigningRequest,
    kind: &str,
) -> Option<&'a CertificateSigningRequestCondition> {
    let conditions = request.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn issued(request: &CertificateSigningRequest) -> Option<&[u8]> {
    let certificate = request.status.as_ref()?.certificate.as_ref()?;
    (!certificate.0.is_empty()).then_some(certificate.0.as_slice())
}

fn usages(request: &CertificateSigningRequest) -> &[String] {
    request.spec.usages.as_deref().unwrap_or_default()
}

/// What the certificate will say: what was asked for, for as long as it may be.
fn granted(request: &CertificateSigningRequest, asked: &SigningRequest, longest: Duration) -> LeafRequest {
    let seconds = request.spec.expiration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let lifetime = seconds.map_or(longest, |seconds| Duration::from_secs(seconds).max(SHORTEST).min(longest));
    let base = match request.spec.signer_name.as_str() {
        check::NODE_SERVING => LeafRequest::server(asked.subject().clone(), []),
        _ => LeafRequest::client(asked.subject().clone()),
    };
    base.with_names(asked.names().iter().cloned()).with_lifetime(lifetime)
}

// === impl CertificateRequests ===

impl CertificateRequests {
    pub(crate) fn new(
        client: Client,
        caches: Caches,
        clock: Clock,
        authority: Option<Authority>,
        settings: Settings,
    ) -> Self {
        Self { client, caches, clock, authority, settings }
    }

    /// The requests that a change of this node may decide.
    pub(crate) fn of_node(caches: &Caches, node: &Node) -> Vec<ObjectKey> {
        let user = format!("{}{}", check::NODE_PREFIX, node.name_any());
        let all = caches.certificate_requests.list();
        let waiting = all.iter().filter(|request| {
            request.spec.signer_name == check::NODE_SERVING
                && request.spec.username.as_deref() == Some(&user)
                && condition(request, APPROVED).is_none()
        });
        waiting.map(|request| ObjectKey::of(&**request)).collect()
    }

    fn api(&self) -> Api<CertificateSigningRequest> {
        Api::all(self.client.clone())
    }

    async fn ask(
        &self,
        request: &CertificateSigningRequest,
        permissions: Vec<(&'static str, &'static str)>,
    ) -> Result<Next, CallError> {
        for (subresource, message) in permissions {
            if self.may(request, subresource).await? {
                return self.approve(request, message).await;
            }
        }
        Ok(Next::After(ASK_AGAIN))
    }

    async fn may(&self, request: &CertificateSigningRequest, subresource: &str) -> Result<bool, CallError> {
        let attributes = ResourceAttributes {
            group: Some("certificates.k8s.io".to_owned()),
            version: Some("*".to_owned()),
            resource: Some("certificatesigningrequests".to_owned()),
            subresource: Some(subresource.to_owned()),
            verb: Some("create".to_owned()),
            ..ResourceAttributes::default()
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: request.spec.username.clone(),
                uid: request.spec.uid.clone(),
                groups: request.spec.groups.clone(),
                extra: request.spec.extra.clone(),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = required("ask who may have a certificate", reviews.create(&POST, &review)).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    async fn approve(&self, request: &CertificateSigningRequest, message: &str) -> Result<Next, CallError> {
        let new = self.with_condition(request, APPROVED, "AutoApproved", message);
        let name = request.name_any();
        let api = self.api();
        let call = api.replace_subresource("approval", &name, &POST, &new);
        if tolerant("approve a request for a certificate", call).await?.is_some() {
            info!(request = name, user = request.spec.username, "approved a request for a certificate");
        }
        Ok(Next::Done)
    }

    async fn sign(&self, request: &CertificateSigningRequest) -> Result<Next, TaskError> {
        let Some(authority) = &self.authority else { return Ok(Next::Done) };
        let asked = SigningRequest::from_pem(&request.spec.request.0)?;
        let granted = granted(request, &asked, self.settings.lifetime);
        let chain = authority.sign_request(&asked, &granted, &self.clock)?;
        let pem: String = chain.iter().map(Certificate::to_pem).collect();
        let mut new = request.clone();
        new.status.get_or_insert_default().certificate = Some(ByteString(pem.into_bytes()));
        let name = request.name_any();
        if tolerant("sign a certificate", self.api().replace_status(&name, &POST, &new)).await?.is_some() {
            info!(request = name, subject = %asked.subject(), "signed a certificate");
        }
        Ok(Next::Done)
    }

    async fn fail(&self, request: &CertificateSigningRequest, why: &str) -> Result<Next, CallError> {
        if self.authority.is_none() {
            return Ok(Next::Done);
        }
        let new = self.with_condition(request, FAILED, "SignerValidationFailure", why);
        let name = request.name_any();
        tolerant("refuse to sign a certificate", self.api().replace_status(&name, &POST, &new)).await?;
        info!(request = name, why, "refused to sign a certificate");
        Ok(Next::Done)
    }

    fn with_condition(
        &self,
        request: &CertificateSigningRequest,
        kind: &str,
        reason: &str,
        message: &str,
    ) -> CertificateSigningRequest {
        let now = Time(self.clock.now());
        let condition = CertificateSigningRequestCondition {
            type_: kind.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_update_time: Some(now.clone()),
            last_transition_time: Some(now),
        };
        let mut new = request.clone();
        new.status.get_or_insert_default().conditions.get_or_insert_default().push(condition);
        new
    }

    async fn delete(&self, request: &CertificateSigningRequest) -> Result<Next, CallError> {
        let preconditions = Preconditions { uid: request.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        tolerant("remove an old request", self.api().delete(&request.name_any(), &params)).await?;
        Ok(Next::Done)
    }
}

impl Reconcile for CertificateRequests {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.caches.certificate_requests.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(request) = self.caches.certificate_requests.get(key) else { return Ok(Next::Done) };
        let nodes = match request.spec.signer_name == check::NODE_SERVING {
            true => self.caches.nodes.list(),
            false => Vec::new(),
        };
        Ok(match plan(&request, &nodes, self.settings.serving, self.clock.now()) {
            Plan::Keep(None) => Next::Done,
            Plan::Keep(Some(end)) => Next::After(self.clock.until(end)),
            Plan::Delete => self.delete(&request).await?,
            Plan::Ask(permissions) => self.ask(&request, permissions).await?,
            Plan::Approve(message) => self.approve(&request, message).await?,
            Plan::Sign => self.sign(&request).await?,
            Plan::Fail(why) => self.fail(&request, &why).await?,
        })
    }
}
