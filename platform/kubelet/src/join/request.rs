//! Asking for one certificate.

use std::time::Duration;

use aws_lc_rs::digest;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use pilothouse_pki::{AlternativeName, Certificate, Identity, PrivateKey, SigningRequest, Subject};
use pilothouse_runtime::Chain;
use pilothouse_runtime::backoff::Policy;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::debug;

use super::JoinError;
use super::folder::Folder;

/// What is asked for.
pub(super) struct Wish {
    /// Where it will be kept.
    pub(super) file: &'static str,
    pub(super) signer: &'static str,
    pub(super) usages: [&'static str; 2],
    pub(super) subject: Subject,
    pub(super) names: Vec<AlternativeName>,
}

/// How a request stands.
enum Standing {
    Waiting,
    Signed(Vec<Certificate>),
    Denied(String),
    Refused(String),
}

/// Asks, waits for the answer, and keeps it. Whoever calls it again after any failure, or after being killed, goes on with the
/// same request.
pub(super) async fn obtain(
    client: &Client,
    folder: &Folder,
    wish: &Wish,
    limit: Duration,
) -> Result<Identity, JoinError> {
    let key = folder.pending(wish.file)?;
    let name = wish.name(&key);
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    let deadline = Instant::now() + limit;
    let mut delays = Policy::RECONNECT.delays();
    loop {
        let step = timeout_at(deadline, step(&api, &name, wish, &key)).await;
        let seconds = limit.as_secs();
        let failure = match step {
            // In vain; how far it came is known from a last look.
            Err(_) => {
                let seen = timeout_at(Instant::now() + QUICK, api.get_opt(&name)).await;
                return Err(match seen {
                    Ok(Ok(Some(request))) if is_approved(&request) => JoinError::Unsigned { name, seconds },
                    Ok(Err(error)) => JoinError::Unreachable { seconds, source: Box::new(error) },
                    _ => JoinError::Unapproved { name, seconds },
                });
            }
            Ok(Ok(Standing::Signed(chain))) => {
                let identity = Identity::from_signed(chain, key)?;
                folder.accept(wish.file, &identity)?;
                return Ok(identity);
            }
            Ok(Ok(Standing::Denied(why))) => {
                folder.forget(wish.file)?;
                return Err(JoinError::Denied { name, why });
            }
            Ok(Ok(Standing::Refused(why))) => {
                folder.forget(wish.file)?;
                return Err(JoinError::Refused { name, why });
            }
            // Removed while it waited: it is made again.
            Ok(Ok(Standing::Waiting)) => None,
            Ok(Err(Failure::Final(error))) => return Err(error),
            Ok(Err(Failure::Passing(error))) => Some(error),
        };
        let delay = delays.next().unwrap_or(QUICK);
        if let Some(error) = failure {
            debug!(error = %Chain(&*error), "the API server could not be asked for a certificate");
            if Instant::now() + delay >= deadline {
                return Err(JoinError::Unreachable { seconds, source: error });
            }
        }
        sleep(delay).await;
    }
}

/// How long a last look may take.
const QUICK: Duration = Duration::from_secs(5);

enum Failure {
    /// Trying again does not help.
    Final(JoinError),
    Passing(Box<kube::Error>),
}

/// Makes the request unless it is there, and waits until it is answered or gone.
async fn step(
    api: &Api<CertificateSigningRequest>,
    name: &str,
    wish: &Wish,
    key: &PrivateKey,
) -> Result<Standing, Failure> {
    let request = match api.get_opt(name).await.map_err(judged)? {
        Some(request) => request,
        None => match api.create(&PostParams::default(), &wish.request(name, key)?).await {
            Ok(request) => request,
            // Sent twice, by a client whose answer was lost.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                api.get(name).await.map_err(judged)?
            }
            Err(error) => return Err(judged(error)),
        },
    };
    let asked = SigningRequest::from_pem(&request.spec.request.0).map_err(JoinError::from)?;
    if !asked.is_for(key) || request.spec.signer_name != wish.signer {
        let why = "somebody made a request of this name for another key; delete it".to_owned();
        return Err(JoinError::Refused { name: name.to_owned(), why }.into());
    }
    let answered = |request: Option<&CertificateSigningRequest>| {
        request.is_none_or(|request| !matches!(standing(request), Ok(Standing::Waiting)))
    };
    match await_condition(api.clone(), name, answered).await {
        Ok(Some(request)) => Ok(standing(&request)?),
        Ok(None) => Ok(Standing::Waiting),
        Err(error) => {
            debug!(error = %Chain(&error), "the watch of a request ended");
            // Whether that was for good, the next question tells.
            Ok(standing(&api.get(name).await.map_err(judged)?)?)
        }
    }
}

fn judged(error: kube::Error) -> Failure {
    match &error {
        kube::Error::Api(status) if status.code == 401 => Failure::Final(JoinError::Unknown),
        kube::Error::Api(status) if status.is_forbidden() => {
            Failure::Final(JoinError::Forbidden { message: status.message.clone() })
        }
        _ => Failure::Passing(Box::new(error)),
    }
}

fn is_approved(request: &CertificateSigningRequest) -> bool {
    let conditions = request.status.as_ref().and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default().iter().any(|condition| condition.type_ == "Approved")
}

fn standing(request: &CertificateSigningRequest) -> Result<Standing, JoinError> {
    let status = request.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let condition = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
    let words = |condition: &CertificateSigningRequestCondition| {
        let words = [condition.reason.as_deref(), condition.message.as_deref()];
        let words: Vec<_> = words.into_iter().flatten().filter(|words| !words.is_empty()).collect();
        if words.is_empty() { "nobody said why".to_owned() } else { words.join(": ") }
    };
    if let Some(denied) = condition("Denied") {
        return Ok(Standing::Denied(words(denied)));
    }
    if let Some(failed) = condition("Failed") {
        return Ok(Standing::Refused(words(failed)));
    }
    match status.certificate.filter(|certificate| !certificate.0.is_empty()) {
        Some(certificate) => Ok(Standing::Signed(Certificate::chain_from_pem(&certificate.0)?)),
        None => Ok(Standing::Waiting),
    }
}

// === impl Wish ===

impl Wish {
    /// What the request is called: the same for the same key and the same wish.
    fn name(&self, key: &PrivateKey) -> String {
        let names: Vec<_> = self.names.iter().map(ToString::to_string).collect();
        let text = [&key.fingerprint(), self.signer, &self.subject.to_string(), &names.join(",")].join(" ");
        let digest = digest::digest(&digest::SHA256, text.as_bytes());
        let short: String = digest.as_ref().iter().take(20).map(|byte| format!("{byte:02x}")).collect();
        format!("node-csr-{short}")
    }

    fn request(&self, name: &str, key: &PrivateKey) -> Result<CertificateSigningRequest, JoinError> {
        let pem = SigningRequest::write(&self.subject, self.names.iter().cloned(), key)?;
        Ok(CertificateSigningRequest {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec: CertificateSigningRequestSpec {
                request: ByteString(pem.into_bytes()),
                signer_name: self.signer.to_owned(),
                usages: Some(self.usages.map(str::to_owned).to_vec()),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        })
    }
}

// === impl Failure ===

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Self {
        Self::Final(error)
    }
}
