//! The region's own authority, and what it issues to the parts of the region.
//!
//! Every part that speaks to the management cluster has a certificate of its own, so that the API server knows who asks.
//! What is on disk is used for as long as it is good; the authority is made once and kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_pki::{
    AlternativeName, Authority, AuthorityRequest, Bundle, Credential, Error as PkiError, FileError, Identity,
    Kubeconfig, KubeconfigError, LeafRequest, PrivateKey, Subject, Visibility, Wanted, write_atomically,
};
use pilothouse_runtime::Clock;
use tracing::info;

/// As long as a data directory may lie around and still be resumed.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
const LEAF_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// The authority of one region, and the folder with what it issued.
#[derive(Debug)]
pub struct Credentials {
    folder: PathBuf,
    authority: Authority,
    clock: Clock,
}

/// Files of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// Why the region has no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The folder cannot be made.
    #[error("the folder `{path}` cannot be made")]
    Folder {
        /// The folder.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A certificate could not be made or read.
    #[error("the certificate of `{name}` is not to be had")]
    Certificate {
        /// Whose it is.
        name: String,
        /// Why.
        #[source]
        source: PkiError,
    },
    /// A name does not belong into a certificate.
    #[error("a certificate cannot carry this name")]
    Name(#[from] pilothouse_pki::InvalidName),
    /// A file could not be written.
    #[error("a credential was not saved")]
    File(#[from] FileError),
    /// A kubeconfig could not be written.
    #[error("a kubeconfig was not saved")]
    Kubeconfig(#[from] KubeconfigError),
}

// === impl Credentials ===

impl Credentials {
    /// Opens the folder, making the authority if there is none.
    ///
    /// # Errors
    ///
    /// If the authority can neither be read nor made.
    pub fn open(folder: &Path, clock: Clock) -> Result<Self, CredentialsError> {
        fs::create_dir_all(folder)
            .map_err(|source| CredentialsError::Folder { path: folder.display().to_string(), source })?;
        let files = CertificateFiles::in_folder(folder, "authority");
        let failed =
            |source| CredentialsError::Certificate { name: "the region's authority".to_owned(), source };
        let authority = match (fs::read(&files.certificate), fs::read(&files.key)) {
            (Ok(chain), Ok(key)) => Authority::from_pem(&chain, &key).map_err(failed)?,
            _ => {
                let request = AuthorityRequest::new(Subject::try_new("pilothouse region")?)
                    .with_lifetime(AUTHORITY_LIFETIME);
                let authority = Authority::self_signed(&request, &clock).map_err(failed)?;
                authority.identity().write(&files.certificate, &files.key)?;
                info!("made the region's authority");
                authority
            }
        };
        Ok(Self { folder: folder.to_owned(), authority, clock })
    }

    /// The authority's certificate.
    pub fn authority_file(&self) -> PathBuf {
        CertificateFiles::in_folder(&self.folder, "authority").certificate
    }

    /// The authority's certificate and key, for whoever signs in its name.
    pub fn authority_files(&self) -> CertificateFiles {
        CertificateFiles::in_folder(&self.folder, "authority")
    }

    /// Whom the parts of the region trust.
    pub fn authorities(&self) -> Result<Bundle, CredentialsError> {
        let mut bundle = Bundle::new();
        bundle.add(self.authority.certificate().clone()).map_err(|source| CredentialsError::Certificate {
            name: "the region's authority".to_owned(),
            source,
        })?;
        Ok(bundle)
    }

    /// A server's certificate.
    ///
    /// # Errors
    ///
    /// If it can neither be read nor made.
    pub fn server(
        &self,
        name: &str,
        names: impl IntoIterator<Item = AlternativeName>,
    ) -> Result<CertificateFiles, CredentialsError> {
        let request = LeafRequest::server(Subject::try_new(name)?, names).with_lifetime(LEAF_LIFETIME);
        self.ensure(name, &request).map(|(files, _)| files)
    }

    /// A client's certificate: a user of the management cluster and its groups.
    ///
    /// # Errors
    ///
    /// If it can neither be read nor made.
    pub fn client(
        &self,
        file: &str,
        user: &str,
        groups: &[&str],
    ) -> Result<(CertificateFiles, Identity), CredentialsError> {
        let subject = Subject::try_new(user)?.with_organizations(groups.iter().copied())?;
        self.ensure(file, &LeafRequest::client(subject).with_lifetime(LEAF_LIFETIME))
    }

    /// A kubeconfig for a user of the management cluster.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn kubeconfig(
        &self,
        path: &Path,
        server: &str,
        user: &str,
        identity: &Identity,
    ) -> Result<(), CredentialsError> {
        let authorities = self.authorities()?;
        Kubeconfig {
            cluster: "management",
            user,
            context: "management",
            server,
            tls_server_name: None,
            authorities: &authorities,
            namespace: None,
            credential: Credential::Certificate(identity),
        }
        .write(path)?;
        Ok(())
    }

    /// A key that is no certificate's: made once and kept.
    ///
    /// # Errors
    ///
    /// If it can neither be read nor made.
    pub fn key(&self, name: &str) -> Result<PathBuf, CredentialsError> {
        let path = self.folder.join(format!("{name}.key"));
        if !path.exists() {
            let key = PrivateKey::generate(pilothouse_pki::KeyAlgorithm::default())
                .map_err(|source| CredentialsError::Certificate { name: name.to_owned(), source })?;
            write_atomically(&path, key.to_pem().as_bytes(), Visibility::OwnerOnly)?;
        }
        Ok(path)
    }

    fn ensure(
        &self,
        name: &str,
        request: &LeafRequest,
    ) -> Result<(CertificateFiles, Identity), CredentialsError> {
        let files = CertificateFiles::in_folder(&self.folder, name);
        let wanted = Wanted { request, authority: self.authority.certificate() };
        if let Ok(identity) = Identity::load(&files.certificate, &files.key)
            && identity.certificate().needs_renewal(self.clock.now(), wanted).is_none()
        {
            return Ok((files, identity));
        }
        let identity = self
            .authority
            .issue(request, &self.clock)
            .map_err(|source| CredentialsError::Certificate { name: name.to_owned(), source })?;
        identity.write(&files.certificate, &files.key)?;
        Ok((files, identity))
    }
}

// === impl CertificateFiles ===

impl CertificateFiles {
    fn in_folder(folder: &Path, name: &str) -> Self {
        Self { certificate: folder.join(format!("{name}.crt")), key: folder.join(format!("{name}.key")) }
    }
}
