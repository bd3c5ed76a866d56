//! Where a node keeps its keys and certificates.
//!
//! A certificate and its key are one file, so that they are exchanged in one step. Beside it lies, while a request is under way,
//! the key that it is for.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pilothouse_pki::{
    Bundle, Certificate, FileError, Identity, KeyAlgorithm, PrivateKey, Visibility, write_atomically,
};
use rustls::pki_types::CertificateDer;
use tracing::warn;

use super::JoinError;

/// What shows the API server who the node is.
pub(super) const CLIENT: &str = "client";
/// What shows visitors who the node is.
pub(super) const SERVING: &str = "serving";

/// The folder, which only its owner reads.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(super) fn path_in(root: &Path) -> PathBuf {
        root.join("pki")
    }

    pub(super) fn open(root: &Path) -> Result<Self, JoinError> {
        let path = Self::path_in(root);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|source| FileError { action: "make", path: path.clone(), source })?;
        Ok(Self { path })
    }

    /// The file of a certificate and its key.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.pem"))
    }

    fn pending_file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.next.key"))
    }

    /// The certificate that is there. One that cannot be read is as good as none.
    pub(super) fn current(&self, name: &str) -> Option<Identity> {
        let path = self.file(name);
        match Identity::load(&path, &path) {
            Ok(identity) => Some(identity),
            Err(error) => {
                if path.exists() {
                    warn!(path = %path.display(), %error, "a certificate that cannot be read is replaced");
                }
                None
            }
        }
    }

    /// The key of the request that is under way, or a new one that is written down first.
    pub(super) fn pending(&self, name: &str) -> Result<PrivateKey, JoinError> {
        let path = self.pending_file(name);
        let known = fs::read(&path).ok().and_then(|pem| PrivateKey::from_pem(&pem).ok());
        let answered = |key: &PrivateKey| {
            self.current(name).is_some_and(|current| current.key().fingerprint() == key.fingerprint())
        };
        match known {
            // Killed between the answer and forgetting the question.
            Some(key) if !answered(&key) => Ok(key),
            _ => {
                let key = PrivateKey::generate(KeyAlgorithm::default())?;
                write_atomically(&path, key.to_pem().as_bytes(), Visibility::OwnerOnly)?;
                Ok(key)
            }
        }
    }

    /// Keeps what came back, and forgets that it was asked for.
    pub(super) fn accept(&self, name: &str, identity: &Identity) -> Result<(), JoinError> {
        let mut text = zeroize::Zeroizing::new(identity.chain_pem());
        text.push_str(&identity.key().to_pem());
        write_atomically(&self.file(name), text.as_bytes(), Visibility::OwnerOnly)?;
        self.forget(name)
    }

    /// Forgets a request that came to nothing.
    pub(super) fn forget(&self, name: &str) -> Result<(), JoinError> {
        let path = self.pending_file(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FileError { action: "remove", path, source: error }.into())
            }
            _ => Ok(()),
        }
    }

    /// Whom the node trusts, as a file.
    pub(super) fn write_authorities(&self, certificates: &[Vec<u8>]) -> Result<PathBuf, JoinError> {
        let mut bundle = Bundle::new();
        for der in certificates {
            bundle.add(Certificate::from_der(CertificateDer::from(der.clone()))?)?;
        }
        let path = self.path.join("authorities.crt");
        bundle.write(&path)?;
        Ok(path)
    }
}
