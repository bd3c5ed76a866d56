//! Authorities, leaf certificates, renewal times and kubeconfig files.
//!
//! Every connection between two parts of Pilothouse that leaves the loopback is mutually authenticated, and every
//! hosted cluster has authorities of its own. This crate makes those certificates, reads them back, says when they
//! have to be replaced and why, and writes them to disk so that a crash leaves either the old file or the new one.
//!
//! # The pieces
//!
//! * [`Authority`]: a certificate that may sign others, with its key. Self-signed ([`Authority::self_signed`]) or
//!   below another one ([`Authority::intermediate`]); brought back with [`Authority::from_pem`].
//! * [`LeafRequest`]: what a certificate should say (subject, names, usages, lifetime, kind of key).
//!   [`Authority::issue`] turns it into an [`Identity`]: a chain and its private key.
//! * [`SigningRequest`]: the same from the other side. A peer keeps its key and sends a request; the caller looks at
//!   what is asked for and decides with a [`LeafRequest`] of its own what is signed ([`Authority::sign_request`]).
//!   Nothing of the request but its public key reaches the certificate by itself.
//! * [`Certificate`]: what a certificate says, read once.
//! * [`Bundle`]: the authorities a verifier trusts. Rotation is: add the new one everywhere, switch issuance, let
//!   leaves renew, drop the old one.
//! * [`Kubeconfig`]: a file `kubectl` and every Kubernetes client can use.
//!
//! # Time
//!
//! Nothing here reads the wall clock: issuing takes a [`Clock`](pilothouse_runtime::Clock), questions take an instant.
//! Certificates start a few minutes in the past ([`BACKDATE`]), since peers' clocks are never quite equal, and never
//! outlive the authority that signed them. [`Certificate::renew_at`] lies between 60 and 80 per cent of the lifetime, at
//! a point that follows from the certificate's own fingerprint: the same after every restart, and spread over a fleet
//! whose certificates were all issued in the same minute.
//!
//! # Keys
//!
//! A [`PrivateKey`] prints as its algorithm, has no serde implementation, and is wiped when dropped; the PEM text of one
//! is only handed out in a `Zeroizing` string. Keys are read in PKCS#8, PKCS#1 and SEC1 and written as PKCS#8, because
//! that is what every peer can read. ECDSA P-256 is the default; RSA is for peers that ask for it.
//!
//! The crate runs no tasks. File functions block: call them from start-up code or `spawn_blocking`.

mod authority;
mod bundle;
mod certificate;
mod der;
mod error;
mod files;
mod identity;
mod key;
mod kubeconfig;
mod leaf;
mod names;
mod pem;
mod renewal;
mod request;
mod subject;

pub use self::authority::{Authority, AuthorityRequest};
pub use self::bundle::Bundle;
pub use self::certificate::{Certificate, Fingerprint};
pub use self::error::Error;
pub use self::files::{FileError, Visibility, write_atomically};
pub use self::identity::Identity;
pub use self::key::{KeyAlgorithm, PrivateKey};
pub use self::kubeconfig::{Credential, Kubeconfig, KubeconfigError};
pub use self::leaf::{BACKDATE, LeafRequest, Usage};
pub use self::names::{AlternativeName, InvalidName};
pub use self::renewal::{RenewalReason, Wanted};
pub use self::request::SigningRequest;
pub use self::subject::Subject;
