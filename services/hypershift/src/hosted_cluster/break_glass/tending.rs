//! Answering those who wait to be let in, and those who wait to see everybody locked out.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use pilothouse_crds::{
    CertificateRevocationRequest, CertificateRevocationRequestStatus, CertificateSigningRequestApproval,
    CertificateSigningRequestApprovalStatus, Condition, ConditionStatus, set_condition,
};
use pilothouse_informer::ObjectKey;
use pilothouse_pki::{Authority, Certificate, Identity, LeafRequest, Subject};
use serde_json::json;
use tracing::info;

use super::super::HostedClusters;
use super::super::blueprint::Blueprint;
use super::super::pki::Signers;
use super::super::publishing::Endpoint;
use super::probe::{self, Verdict};
use super::request::{self, Step};
use super::{AUTHORITY, BreakGlass, REVOKED, forget_revoked, signer_name, under_way};
use crate::error::{Error, is_missing};
use crate::secrets::Keyring;

/// Whom replicas are shown. Nobody is ever let in as this one to do anything.
const PROBE: &str = "pilothouse:break-glass-probe";
const PROBE_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// The new signer was made.
const REGENERATED: &str = "RootCertificatesRegenerated";
/// Every replica lets in whom the new signer signs for.
const TRUSTED: &str = "NewCertificatesTrusted";
/// A request was granted.
const ISSUED: &str = "Issued";

/// A control plane as it was just built.
pub(crate) struct Site<'a> {
    pub(crate) keyring: &'a Keyring<'a>,
    pub(crate) blueprint: &'a Blueprint,
    pub(crate) signers: &'a Signers,
    pub(crate) endpoint: &'a Endpoint,
    /// Every replica of its API server, or why they cannot be told yet.
    pub(crate) replicas: Result<Vec<Arc<Pod>>, String>,
}

impl HostedClusters {
    /// Does what can be done for those who wait. Says whether somebody still waits for what nothing tells of.
    pub(crate) async fn tend_break_glass(&self, site: &Site<'_>) -> Result<bool, Error> {
        let namespace = site.blueprint.namespace.as_str();
        let revocation = under_way(&self.caches, namespace);
        let Some(signer) = site.signers.break_glass() else {
            if let Some(request) = &revocation {
                let why = "an annotation of the cluster says that no key is made; remove it";
                self.write_revocation(request, Err(why.to_owned())).await?;
            }
            return Ok(false);
        };
        if let Some(revoked) = &signer.revoked {
            let seen = self.locked_out(site, signer, revoked).await;
            let done = seen.is_ok();
            if let Some(request) = &revocation {
                self.write_revocation(request, seen).await?;
            }
            if done {
                // Only now: a certificate of it was needed to see that.
                forget_revoked(site.keyring).await?;
            }
            // Nothing is signed meanwhile; that the Secret changes brings the next pass.
            return Ok(!done);
        }
        if let Some(request) = &revocation {
            self.write_revocation(request, Ok(())).await?;
            return Ok(false);
        }
        self.let_in(site, signer).await
    }

    /// Whether no replica lets in whom the signer of before signed for. What is in the way otherwise.
    async fn locked_out(
        &self,
        site: &Site<'_>,
        signer: &BreakGlass,
        revoked: &Authority,
    ) -> Result<(), String> {
        let old = self.probe_identity(revoked)?;
        self.every_replica(site, &old, Verdict::Refused).await?;
        self.trusted_everywhere(site, signer).await
    }

    /// Whether every replica lets in whom the signer signs for.
    async fn trusted_everywhere(&self, site: &Site<'_>, signer: &BreakGlass) -> Result<(), String> {
        let new = self.probe_identity(&signer.signer.authority)?;
        self.every_replica(site, &new, Verdict::LetIn).await
    }

    async fn every_replica(
        &self,
        site: &Site<'_>,
        identity: &Identity,
        wanted: Verdict,
    ) -> Result<(), String> {
        let replicas = site.replicas.as_ref().map_err(Clone::clone)?;
        for pod in replicas {
            let name = pod.name_any();
            let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()?.parse().ok());
            let address: IpAddr = address.ok_or_else(|| format!("pod {name} has no address"))?;
            match probe::show(&self.config, address, site.signers.root(), identity).await {
                Ok(verdict) if verdict == wanted => {}
                Ok(Verdict::LetIn) => {
                    return Err(format!("pod {name} still lets in whom the old signer signed for"));
                }
                Ok(Verdict::Refused) => {
                    return Err(format!("pod {name} does not let in whom the new signer signs for yet"));
                }
                Err(problem) => return Err(format!("pod {name}: {problem}")),
            }
        }
        Ok(())
    }

    fn probe_identity(&self, authority: &Authority) -> Result<Identity, String> {
        let subject = Subject::try_new(PROBE).map_err(|error| error.to_string())?;
        let request = LeafRequest::client(subject).with_lifetime(PROBE_LIFETIME);
        authority.issue(&request, &self.clock).map_err(|error| error.to_string())
    }

    /// Says how far a revocation is.
    async fn write_revocation(
        &self,
        request: &CertificateRevocationRequest,
        seen: Result<(), String>,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        let before = request.status.clone().unwrap_or_default();
        let mut conditions = before.conditions.clone();
        let condition = |kind: &str, holds: bool, reason: &str, message: &str| {
            Condition::new(kind, holds.into(), reason, message, now)
                .of_generation(request.metadata.generation)
        };
        set_condition(&mut conditions, condition(REGENERATED, true, "AsExpected", "the signer is another"));
        let revoked = match &seen {
            Ok(()) => {
                let all = "every replica of the API server was seen to let in whom the new signer signs for";
                set_condition(&mut conditions, condition(TRUSTED, true, "AsExpected", all));
                let none =
                    "every replica of the API server was seen to refuse a certificate of the old signer";
                condition(REVOKED, true, "AsExpected", none)
            }
            Err(waiting) => condition(REVOKED, false, "WaitingForAPIServers", waiting),
        };
        set_condition(&mut conditions, revoked);
        let done = before.revocation_timestamp.clone().or_else(|| seen.is_ok().then_some(Time(now)));
        let status = CertificateRevocationRequestStatus { revocation_timestamp: done, conditions };
        if request.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let (name, namespace) = (request.name_any(), request.namespace().unwrap_or_default());
        let api: Api<CertificateRevocationRequest> = Api::namespaced(self.client.clone(), &namespace);
        let patch = Patch::Merge(json!({ "status": status }));
        match api.patch_status(&name, &PatchParams::default(), &patch).await {
            Ok(_) => {}
            Err(error) if is_missing(&error) => {}
            Err(error) => {
                let object = format!("CertificateRevocationRequest {namespace}/{name}");
                return Err(Error::management("change the status of", object, error));
            }
        }
        if seen.is_ok() {
            info!(revocation = name, namespace, "break-glass certificates revoked");
        }
        Ok(())
    }

    /// Answers every request for a certificate that is approved of. Says whether somebody still waits.
    async fn let_in(&self, site: &Site<'_>, signer: &BreakGlass) -> Result<bool, Error> {
        let namespace = site.blueprint.namespace.as_str();
        let wanted = signer_name(&site.blueprint.cluster, namespace);
        let mut trusted = None;
        let mut waits = false;
        for approval in self.caches.approvals.list_in(namespace) {
            let Some(request) = self.caches.requests.get(&ObjectKey::cluster(approval.name_any())) else {
                continue;
            };
            if request.spec.signer_name != wanted {
                let why = format!("the request is for `{}`; ask for `{wanted}`", request.spec.signer_name);
                self.write_approval(site, &approval, Err(("OtherSigner", why))).await?;
                continue;
            }
            let (approved, asked, granted) = match request::next(&request) {
                Step::Answered => continue,
                Step::Deny(why) => {
                    self.decide(&request, "Denied", &why).await?;
                    self.write_approval(site, &approval, Err(("Denied", why))).await?;
                    continue;
                }
                Step::Grant { approved, asked, granted } => (approved, asked, granted),
            };
            if trusted.is_none() {
                trusted = Some(self.trusted_everywhere(site, signer).await);
            }
            if let Some(Err(waiting)) = &trusted {
                self.write_approval(site, &approval, Err(("WaitingForAPIServers", waiting.clone()))).await?;
                waits = true;
                continue;
            }
            let signed = signer.signer.authority.sign_request(&asked, &granted, &self.clock);
            let signed =
                signed.map_err(|source| Error::Certificate { name: AUTHORITY.to_owned(), source })?;
            if !approved {
                let message = format!("approved of in namespace {namespace}");
                self.decide(&request, "Approved", &message).await?;
            }
            // Where it leads first: whoever sees the certificate goes.
            self.write_approval(site, &approval, Ok(())).await?;
            self.sign(&request, &signed).await?;
        }
        Ok(waits)
    }

    async fn write_approval(
        &self,
        site: &Site<'_>,
        approval: &CertificateSigningRequestApproval,
        outcome: Result<(), (&str, String)>,
    ) -> Result<(), Error> {
        let before = approval.status.clone().unwrap_or_default();
        let mut conditions = before.conditions.clone();
        let (holds, reason, message) = match outcome {
            Ok(()) => (true, "AsExpected", "every replica of the API server lets its owner in".to_owned()),
            Err((reason, message)) => (false, reason, message),
        };
        let condition =
            Condition::new(ISSUED, ConditionStatus::from(holds), reason, message, self.clock.now());
        set_condition(&mut conditions, condition);
        let status = CertificateSigningRequestApprovalStatus {
            server: Some(site.endpoint.server.clone()),
            tls_server_name: site.endpoint.server_name.clone(),
            certificate_authorities: Some(site.signers.root().to_pem()),
            conditions,
        };
        if approval.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let (name, namespace) = (approval.name_any(), site.blueprint.namespace.as_str());
        let api: Api<CertificateSigningRequestApproval> = Api::namespaced(self.client.clone(), namespace);
        let patch = Patch::Merge(json!({ "status": status }));
        match api.patch_status(&name, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => {
                let object = format!("CertificateSigningRequestApproval {namespace}/{name}");
                Err(Error::management("change the status of", object, error))
            }
        }
    }

    /// Says yes or no to a request.
    async fn decide(
        &self,
        request: &CertificateSigningRequest,
        kind: &str,
        message: &str,
    ) -> Result<(), Error> {
        let status = request.status.as_ref();
        let known = status.iter().flat_map(|status| status.conditions.iter().flatten());
        let condition = json!({
            "type": kind, "status": "True", "reason": "BreakGlass", "message": message,
            "lastUpdateTime": Time(self.clock.now()),
        });
        let conditions: Vec<_> = known.map(|known| json!(known)).chain([condition]).collect();
        let patch = Patch::Merge(json!({ "status": { "conditions": conditions } }));
        let name = request.name_any();
        let requests: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        match requests.patch_approval(&name, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => {
                Err(Error::management("decide on", format!("CertificateSigningRequest {name}"), error))
            }
        }
    }

    async fn sign(&self, request: &CertificateSigningRequest, chain: &[Certificate]) -> Result<(), Error> {
        let text: String = chain.iter().map(Certificate::to_pem).collect();
        let patch = Patch::Merge(json!({ "status": { "certificate": ByteString(text.into_bytes()) } }));
        let name = request.name_any();
        let requests: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        match requests.patch_status(&name, &PatchParams::default(), &patch).await {
            Ok(_) => {
                info!(request = name, signer = request.spec.signer_name, "break-glass certificate signed");
                Ok(())
            }
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => {
                Err(Error::management("answer", format!("CertificateSigningRequest {name}"), error))
            }
        }
    }
}
