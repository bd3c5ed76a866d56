//! Why a node does not get its certificate, and what to do about it.

use std::path::{Path, PathBuf};

use pilothouse_pki::{FileError, InvalidName};

/// Why a node cannot join its cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The API server does not know the token.
    #[error(
        "the API server does not accept the token in `{}`: it is unknown or has ended; make a new one, for example with \
         `kubeadm token create`, and write it into that file",
        path.display()
    )]
    Token {
        /// The kubeconfig with the token.
        path: PathBuf,
    },
    /// The API server no longer knows the node.
    #[error("the API server does not accept the node's certificate; start the node with a new token")]
    Unknown,
    /// It may not ask.
    #[error(
        "the API server does not let it ask for a certificate: {message}; bind the cluster role `system:node-bootstrapper` to \
         the group `system:bootstrappers`"
    )]
    Forbidden {
        /// What the server said.
        message: String,
    },
    /// Somebody said no.
    #[error(
        "the request `{name}` was denied ({why}); see `kubectl describe csr {name}`, and start the node again for a new request"
    )]
    Denied {
        /// The request.
        name: String,
        /// In the words of whoever denied it.
        why: String,
    },
    /// The signer refused.
    #[error(
        "the request `{name}` was not signed ({why}); see `kubectl describe csr {name}`, and start the node again for a new \
         request"
    )]
    Refused {
        /// The request.
        name: String,
        /// In the words of the signer.
        why: String,
    },
    /// Nobody said anything.
    #[error(
        "nobody approved the request `{name}` within {seconds} s; `kubectl certificate approve {name}` does, and the node goes \
         on with the same request when it is started again"
    )]
    Unapproved {
        /// The request.
        name: String,
        /// How long it waited.
        seconds: u64,
    },
    /// Nobody signed.
    #[error(
        "the request `{name}` is approved, but nobody signed it within {seconds} s; see that a controller manager runs with the \
         cluster's authority (`--cluster-signing-cert-file`, `--cluster-signing-key-file`), and start the node again"
    )]
    Unsigned {
        /// The request.
        name: String,
        /// How long it waited.
        seconds: u64,
    },
    /// The server could not be asked.
    #[error(
        "the API server did not answer within {seconds} s; see that the server in the kubeconfig is reachable from here"
    )]
    Unreachable {
        /// How long it was tried.
        seconds: u64,
        /// What happened at last.
        #[source]
        source: Box<kube::Error>,
    },
    /// What came back is no certificate, or a key is none.
    #[error("the node's certificate cannot be used")]
    Certificate(#[from] pilothouse_pki::Error),
    /// The node's name cannot be in a certificate.
    #[error("the node's name cannot be in a certificate")]
    Name(#[from] InvalidName),
    /// A file cannot be read or written.
    #[error("the node's credentials are not kept")]
    File(#[from] FileError),
}

impl JoinError {
    /// The same, said of who came by a token.
    pub(super) fn of_token(self, path: &Path) -> Self {
        match self {
            Self::Unknown => Self::Token { path: path.to_owned() },
            other => other,
        }
    }
}
