//! What is to be done about a request for a certificate: pure.

use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use pilothouse_pki::{LeafRequest, SigningRequest};

/// Everybody who is let in is called something that begins like this.
const USERS: &str = "system:customer-break-glass:";
/// What everybody who is let in belongs to: those who may do anything.
const ADMINISTRATORS: &str = "system:masters";
/// What a certificate may be for. The first is what it has to be for.
const USAGES: [&str; 3] = ["client auth", "digital signature", "key encipherment"];
/// How long a certificate is good, unless less is asked for, and the least that can be asked for.
pub(super) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
const SHORTEST: Duration = Duration::from_secs(10 * 60);

/// What to do about a request.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing: it was answered.
    Answered,
    /// Say no, for this reason.
    Deny(String),
    /// Sign this; `approved` if yes was said already.
    Grant { approved: bool, asked: Box<SigningRequest>, granted: Box<LeafRequest> },
}

/// What to do about a request that is approved of.
pub(super) fn next(request: &CertificateSigningRequest) -> Step {
    let status = request.status.as_ref();
    let says = |kind: &str| {
        let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.any(|condition| condition.type_ == kind && condition.status == "True")
    };
    let signed = status.and_then(|status| status.certificate.as_ref()).is_some_and(|made| !made.0.is_empty());
    if signed || says("Denied") || says("Failed") {
        return Step::Answered;
    }
    match grant(request) {
        Ok((asked, granted)) => {
            Step::Grant { approved: says("Approved"), asked: Box::new(asked), granted: Box::new(granted) }
        }
        Err(problem) => Step::Deny(problem),
    }
}

/// What may be signed of what is asked for, or why nothing may.
fn grant(request: &CertificateSigningRequest) -> Result<(SigningRequest, LeafRequest), String> {
    let spec = &request.spec;
    let asked = SigningRequest::from_pem(&spec.request.0).map_err(|error| error.to_string())?;
    let (user, groups) = (asked.subject().common_name(), asked.subject().organizations());
    if user.strip_prefix(USERS).is_none_or(str::is_empty) {
        return Err(format!("the common name is `{user}`; ask for one that begins with `{USERS}`"));
    }
    if groups != [ADMINISTRATORS] {
        return Err(format!("the organizations are {groups:?}; ask for `{ADMINISTRATORS}` and no other"));
    }
    if !asked.names().is_empty() {
        return Err("it asks for names of a server; ask for none".to_owned());
    }
    let usages = spec.usages.as_deref().unwrap_or_default();
    let odd = usages.iter().find(|usage| !USAGES.contains(&usage.as_str()));
    if odd.is_some() || !usages.iter().any(|usage| usage == USAGES[0]) {
        return Err(format!("the usages are {usages:?}; ask for `{}`", USAGES[0]));
    }
    let wanted = spec.expiration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let lifetime = wanted.map_or(LONGEST, Duration::from_secs).clamp(SHORTEST, LONGEST);
    let granted = LeafRequest::client(asked.subject().clone()).with_lifetime(lifetime);
    Ok((asked, granted))
}
