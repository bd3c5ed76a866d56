use std::fmt;

use pilothouse_runtime::StillRunning;

/// Why a pass could not be finished. The next one tries again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The management cluster did not do what it was asked.
    #[error("the management cluster refused to {action} {object}")]
    Management {
        /// What it was asked to do.
        action: &'static str,
        /// Kind, namespace and name.
        object: String,
        /// What it said.
        #[source]
        source: Refused,
    },
    /// A certificate could not be made.
    #[error("the certificate `{name}` was not made")]
    Certificate {
        /// The Secret it belongs in.
        name: String,
        /// Why.
        #[source]
        source: pilothouse_pki::Error,
    },
    /// A Secret with a key exists and cannot be used.
    #[error(
        "Secret {secret} has no usable `{key}`; restore it, or delete it to have a new one made, which \
         everybody who holds a certificate of the old one will notice"
    )]
    Secret {
        /// Namespace and name.
        secret: String,
        /// The key in it.
        key: &'static str,
        /// What is wrong with it.
        #[source]
        source: Option<pilothouse_pki::Error>,
    },
    /// A Secret is missing, and nothing may be made.
    #[error(
        "Secret {0} does not exist, and an annotation of the cluster says that no key or certificate is made; restore the \
         Secret or remove the annotation"
    )]
    Frozen(String),
    /// A kubeconfig has no text form.
    #[error("the kubeconfig was not written")]
    Kubeconfig(#[source] pilothouse_pki::KubeconfigError),
    /// A configuration file has no text form.
    #[error("the configuration of `{0}` was not written")]
    Settings(String, #[source] toml::ser::Error),
    /// A hosted cluster's client could not be made.
    #[error("no client for the hosted cluster could be made from its kubeconfig: {0}")]
    HostedClient(String),
    /// A hosted cluster did not do what it was asked.
    #[error("hosted cluster {cluster} refused to {action}")]
    Hosted {
        /// Which cluster.
        cluster: String,
        /// What it was asked to do.
        action: String,
        /// What it said.
        #[source]
        source: Refused,
    },
    /// A hosted cluster did not answer.
    #[error("hosted cluster {cluster} did not answer within {seconds} s")]
    NoAnswer {
        /// Which cluster.
        cluster: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// An object has no form that the API would take.
    #[error("the manifest of `{name}` was not made")]
    Manifest {
        /// The object.
        name: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A JSON patch of a virtual machine cannot be applied.
    #[error(
        "the virtual machines of node pool {pool} cannot be patched as annotation \
         `hypershift.openshift.io/kubevirt-vm-jsonpatch` says; correct or remove it: {message}"
    )]
    Patch {
        /// The pool.
        pool: String,
        /// What is wrong.
        message: String,
    },
    /// The service did not stop in time.
    #[error("the operator did not stop in time")]
    Drain(#[from] StillRunning),
}

/// What an API server said. Its library's errors repeat themselves when they are written with their causes; this
/// does not.
#[derive(Debug)]
pub struct Refused(Box<kube::Error>);

// === impl Error ===

impl Error {
    pub(crate) fn management(action: &'static str, object: impl Into<String>, source: kube::Error) -> Self {
        Self::Management { action, object: object.into(), source: source.into() }
    }

    /// Whether the object had changed since it was read: the change itself brings the next pass.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Management { source, .. } if has_reason(&source.0, "Conflict"))
    }
}

// === impl Refused ===

impl From<kube::Error> for Refused {
    fn from(error: kube::Error) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_ref() {
            kube::Error::Api(status) => {
                write!(formatter, "{} ({} {})", status.message, status.code, status.reason)
            }
            // The innermost cause is the one that says something.
            other => {
                let mut innermost: &dyn std::error::Error = other;
                while let Some(cause) = innermost.source() {
                    innermost = cause;
                }
                fmt::Display::fmt(innermost, formatter)
            }
        }
    }
}

impl std::error::Error for Refused {}

/// Whether the API server gave this reason.
pub(crate) fn has_reason(error: &kube::Error, reason: &str) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == reason)
}

/// Whether the object is not there.
pub(crate) fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
