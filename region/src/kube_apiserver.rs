//! A Kubernetes API alone: a [control plane](crate::control_plane) that makes for itself whatever it is not told.
//!
//! Everything it makes is in one folder and is found there again:
//!
//! ```text
//! kubernetes.db   the objects, unless they are elsewhere
//! keys            key file of the store
//! pki/            an authority of its own, and what it issued
//! kubeconfig      for an administrator
//! ```

use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use futures::future::LocalBoxFuture;
pub use pilothouse_kubeapi::Anonymous;
use pilothouse_pki::{AlternativeName, Bundle, Credential, FileError, Identity, Kubeconfig, KubeconfigError};
use pilothouse_runtime::{Clock, Shutdown};

use crate::control_plane::{self, ControlPlane, ControlPlaneError};
pub use crate::credentials::CertificateFiles;
use crate::credentials::{Credentials, CredentialsError};

/// What such a server may be told. Everything that is a path is a file in PEM, unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The folder for what it makes.
    pub data_dir: PathBuf,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where its objects are: a database file or a PostgreSQL URL. A file in the folder, if nothing is said.
    pub store: Option<String>,
    /// The key file of the store. One in the folder, if nothing is said.
    pub key_file: Option<PathBuf>,
    /// What it serves with, if it is not to make that itself.
    pub serving: Option<Serving>,
    /// More names for the certificate that it makes.
    pub names: Vec<AlternativeName>,
    /// Whose client certificates are believed, beside those of its own authority.
    pub client_authorities: Option<PathBuf>,
    /// Tokens of users, one line each: `token,user,uid,"group,group"`.
    pub token_file: Option<PathBuf>,
    /// Issuers whose tokens are believed: an `AuthenticationConfiguration`, in YAML or JSON.
    pub authentication_config: Option<PathBuf>,
    /// Who may come without a certificate and without a token.
    pub anonymous: Anonymous,
    /// The key that signs service account tokens. One in the folder, if nothing is said.
    pub service_account_key: Option<PathBuf>,
    /// Who signs them, as a URL.
    pub issuer: String,
    /// The authority that signs certificates on request. Its own, if nothing is said.
    pub signing: Option<CertificateFiles>,
    /// The Kubernetes version it speaks.
    pub version: String,
    /// The range Services get their addresses from.
    pub service_cidr: String,
    /// The folder for volumes of claims, as nodes see it. Without it claims stay unbound.
    pub volume_root: Option<PathBuf>,
    /// Whether controllers and scheduler run beside it.
    pub controllers: bool,
}

/// A certificate that somebody else issued. The controllers ask for the name `kubernetes` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who issued it: what clients and pods are told to trust.
    pub authorities: PathBuf,
}

/// A server that is bound and loaded, and the way in.
#[derive(Debug)]
pub struct KubeApiServer {
    /// What is to be run.
    pub plane: ControlPlane,
    /// Its URL.
    pub server: String,
    /// Where its objects are, without a password.
    pub store: String,
    /// The kubeconfig of an administrator.
    pub kubeconfig: PathBuf,
}

/// Why there is no such server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder cannot be used.
    #[error("the data directory `{}` cannot be used", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Credentials cannot be made.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// Authorities cannot be read.
    #[error("the authorities in `{}` cannot be used", .path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: pilothouse_pki::Error,
    },
    /// A file cannot be written.
    #[error("the authorities of clients were not saved")]
    File(#[from] FileError),
    /// A name cannot be in a certificate.
    #[error("the serving certificate cannot be made")]
    Name(#[from] pilothouse_pki::InvalidName),
    /// The server does not start.
    #[error(transparent)]
    ControlPlane(#[from] ControlPlaneError),
    /// The way in cannot be written down.
    #[error("the administrator's kubeconfig was not saved")]
    Kubeconfig(#[from] KubeconfigError),
}

impl KubeApiServer {
    /// Makes what is missing, takes the port and reads all objects.
    ///
    /// # Errors
    ///
    /// If anything that the options name is missing or taken.
    pub fn build(
        options: Options,
        clock: Clock,
        shutdown: &Shutdown,
    ) -> LocalBoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(options, clock, shutdown))
    }

    async fn assemble(options: Options, clock: Clock, shutdown: &Shutdown) -> Result<Self, Error> {
        let folder = std::path::absolute(&options.data_dir).unwrap_or_else(|_| options.data_dir.clone());
        let unusable = |source| Error::Folder { path: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(unusable)?;
        // Keys are in there.
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).map_err(unusable)?;
        let credentials = Credentials::open(&folder.join("pki"), clock.clone())?;

        let serving = match &options.serving {
            Some(serving) => serving.clone(),
            None => made(&credentials, &options)?,
        };
        let (kubelet_client, _) =
            credentials.client("kubelet-client", "kube-apiserver-kubelet-client", &["system:masters"])?;
        let (_, administrator) = credentials.client("administrator", "administrator", &["system:masters"])?;
        let client_authorities = client_authorities(&credentials, &options)?;
        let authorities = load(&serving.authorities)?;
        let service_account_key = match options.service_account_key {
            Some(path) => path,
            None => credentials.key("service-accounts")?,
        };
        let signing = options.signing.unwrap_or_else(|| credentials.authority_files());
        let store =
            options.store.unwrap_or_else(|| folder.join("kubernetes.db").to_string_lossy().into_owned());
        let shown = store
            .parse()
            .map_or_else(|_| store.clone(), |place: pilothouse_store::Location| place.to_string());
        let config = control_plane::Config {
            listen: options.listen,
            store,
            key_file: Some(options.key_file.unwrap_or_else(|| folder.join("keys"))),
            version: options.version,
            service_cidr: options.service_cidr,
            cluster_cidr: None,
            advertise: None,
            tls_certificate: serving.certificate,
            tls_key: serving.key,
            client_authorities,
            service_account_key,
            issuer: options.issuer,
            root_authority: serving.authorities,
            kubelet_client_certificate: kubelet_client.certificate,
            kubelet_client_key: kubelet_client.key,
            signing_certificate: Some(signing.certificate),
            signing_key: Some(signing.key),
            public_server: None,
            volume_root: options.volume_root,
            token_file: options.token_file,
            authentication_config: options.authentication_config,
            anonymous: options.anonymous,
            controllers: options.controllers,
        };
        let plane = ControlPlane::build(config, clock, shutdown).await?;
        let server = url(plane.local_address());
        let kubeconfig = folder.join("kubeconfig");
        write_kubeconfig(&kubeconfig, &server, &authorities, &administrator)?;
        Ok(Self { plane, server, store: shown, kubeconfig })
    }
}

/// The certificate of a server that nobody gave one.
fn made(credentials: &Credentials, options: &Options) -> Result<Serving, Error> {
    let mut names = vec![
        AlternativeName::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        AlternativeName::dns("localhost")?,
        AlternativeName::dns("kubernetes")?,
        AlternativeName::dns("kubernetes.default")?,
        AlternativeName::dns("kubernetes.default.svc")?,
        AlternativeName::dns("kubernetes.default.svc.cluster.local")?,
    ];
    names.extend(first_address(&options.service_cidr).map(|address| AlternativeName::Ip(address.into())));
    let listen = options.listen.ip();
    if !listen.is_unspecified() && !listen.is_loopback() {
        names.push(AlternativeName::Ip(listen));
    }
    names.extend(options.names.iter().cloned());
    let CertificateFiles { certificate, key } = credentials.server("kube-apiserver", names)?;
    Ok(Serving { certificate, key, authorities: credentials.authority_file() })
}

/// Its own authority, which signed the administrator's certificate, and those it is told of, in one file.
fn client_authorities(credentials: &Credentials, options: &Options) -> Result<PathBuf, Error> {
    let own = credentials.authority_file();
    let Some(others) = &options.client_authorities else { return Ok(own) };
    let mut bundle = credentials.authorities()?;
    for authority in load(others)?.certificates() {
        let added = bundle.add(authority.clone());
        added.map_err(|source| Error::Authorities { path: others.clone(), source })?;
    }
    let path = own.with_file_name("client-authorities.crt");
    bundle.write(&path)?;
    Ok(path)
}

fn load(path: &Path) -> Result<Bundle, Error> {
    Bundle::load(path).map_err(|source| Error::Authorities { path: path.to_owned(), source })
}

/// The address of the Service `kubernetes`. A range that is none is refused by the server itself.
fn first_address(range: &str) -> Option<Ipv4Addr> {
    let network: Ipv4Addr = range.split('/').next()?.parse().ok()?;
    network.to_bits().checked_add(1).map(Ipv4Addr::from_bits)
}

/// How somebody on this machine reaches it.
fn url(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        return format!("https://{}", SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())));
    }
    format!("https://{address}")
}

fn write_kubeconfig(
    path: &Path,
    server: &str,
    authorities: &Bundle,
    administrator: &Identity,
) -> Result<(), KubeconfigError> {
    Kubeconfig {
        cluster: "kubernetes",
        user: "administrator",
        context: "kubernetes",
        server,
        tls_server_name: None,
        authorities,
        namespace: None,
        credential: Credential::Certificate(administrator),
    }
    .write(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_address_is_the_first_of_its_range() {
        assert_eq!(first_address("10.96.0.0/16"), Some(Ipv4Addr::new(10, 96, 0, 1)));
        assert_eq!(first_address("everything"), None);
    }

    #[test]
    fn an_address_that_means_all_is_reached_on_the_loopback() {
        assert_eq!(url("0.0.0.0:6443".parse().unwrap()), "https://127.0.0.1:6443");
        assert_eq!(url("192.0.2.7:6443".parse().unwrap()), "https://192.0.2.7:6443");
        assert_eq!(url("[::1]:6443".parse().unwrap()), "https://[::1]:6443");
    }
}
