//! Kubeconfig files: where an API server is, how to recognise it, and who is asking.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::files::{FileError, Visibility, write_atomically};
use crate::{Bundle, Certificate, Identity};

/// A kubeconfig with one cluster, one user and one context.
///
/// Everything is embedded but a token that lasts, which is named by its file: such tokens are replaced in place, a kubeconfig is not.
#[derive(Debug)]
pub struct Kubeconfig<'a> {
    /// What the cluster is called in the file.
    pub cluster: &'a str,
    /// What the user is called in the file.
    pub user: &'a str,
    /// What the pair of both is called, and the one that is used.
    pub context: &'a str,
    /// The URL of the API server.
    pub server: &'a str,
    /// The name expected in the server's certificate, where it is not the host in `server`: with it a file works through
    /// a gateway on the loopback, without any DNS.
    pub tls_server_name: Option<&'a str>,
    /// The authorities that may have signed the server's certificate.
    pub authorities: &'a Bundle,
    /// The namespace used unless another one is asked for.
    pub namespace: Option<&'a str>,
    /// Who is asking.
    pub credential: Credential<'a>,
}

/// How a kubeconfig's user proves who it is.
#[derive(Debug)]
#[non_exhaustive]
pub enum Credential<'a> {
    /// By a client certificate, embedded with its key.
    Certificate(&'a Identity),
    /// By a client certificate whose key is not in the file: whoever uses it adds the key they kept.
    CertificateWithoutKey(&'a [Certificate]),
    /// By a bearer token read from this file for every request.
    TokenFile(PathBuf),
    /// By this bearer token, which ends soon: one that lets a node join.
    Token(&'a str),
}

/// Why a kubeconfig could not be written.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The content has no YAML form.
    #[error("the kubeconfig for `{context}` has no YAML form: {reason}")]
    Yaml {
        /// The context in the file.
        context: String,
        /// What the serializer said.
        reason: String,
    },
    /// The file could not be written.
    #[error("the kubeconfig was not saved")]
    File(#[from] FileError),
}

impl Kubeconfig<'_> {
    /// The file's text. It may hold a private key and is wiped when dropped.
    pub fn to_yaml(&self) -> Result<Zeroizing<String>, KubeconfigError> {
        let authorities = STANDARD.encode(self.authorities.to_pem());
        let (certificate, key, token_file);
        let user = match &self.credential {
            Credential::Certificate(identity) => {
                certificate = STANDARD.encode(identity.chain_pem());
                key = Zeroizing::new(STANDARD.encode(identity.key().to_pem().as_bytes()));
                User {
                    client_certificate_data: Some(&certificate),
                    client_key_data: Some(&key),
                    ..User::default()
                }
            }
            Credential::CertificateWithoutKey(chain) => {
                certificate = STANDARD.encode(chain.iter().map(Certificate::to_pem).collect::<String>());
                User { client_certificate_data: Some(&certificate), ..User::default() }
            }
            Credential::TokenFile(path) => {
                token_file = path.to_string_lossy();
                User { token_file: Some(&token_file), ..User::default() }
            }
            Credential::Token(token) => User { token: Some(token), ..User::default() },
        };
        let user_size = [user.client_certificate_data, user.client_key_data, user.token_file, user.token]
            .iter()
            .flatten()
            .map(|text| text.len())
            .sum::<usize>();
        let document = Document {
            api_version: "v1",
            kind: "Config",
            clusters: [Named {
                name: self.cluster,
                value: ClusterEntry {
                    cluster: Cluster {
                        server: self.server,
                        tls_server_name: self.tls_server_name,
                        certificate_authority_data: &authorities,
                    },
                },
            }],
            users: [Named { name: self.user, value: UserEntry { user } }],
            contexts: [Named {
                name: self.context,
                value: ContextEntry {
                    context: Context { cluster: self.cluster, user: self.user, namespace: self.namespace },
                },
            }],
            current_context: self.context,
        };
        // Sized in advance: a buffer that grows leaves copies of the key behind. Base64 stays on one line, as in every
        // other kubeconfig, and not in a folded block.
        let embedded = authorities.len() + user_size + 1024;
        let mut text = Zeroizing::new(String::with_capacity(embedded));
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        serde_saphyr::to_fmt_writer_with_options(&mut *text, &document, options).map_err(|error| {
            KubeconfigError::Yaml { context: self.context.to_owned(), reason: error.to_string() }
        })?;
        Ok(text)
    }

    /// Writes the file atomically, readable by its owner only.
    pub fn write(&self, path: &Path) -> Result<(), KubeconfigError> {
        Ok(write_atomically(path, self.to_yaml()?.as_bytes(), Visibility::OwnerOnly)?)
    }
}

// The wire form. Borrowed throughout, so that no copy of a key is left in a structure nobody wipes.

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'static str,
    kind: &'static str,
    clusters: [Named<'a, ClusterEntry<'a>>; 1],
    users: [Named<'a, UserEntry<'a>>; 1],
    contexts: [Named<'a, ContextEntry<'a>>; 1],
    #[serde(rename = "current-context")]
    current_context: &'a str,
}

#[derive(Serialize)]
struct Named<'a, T> {
    name: &'a str,
    #[serde(flatten)]
    value: T,
}

#[derive(Serialize)]
struct ClusterEntry<'a> {
    cluster: Cluster<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster<'a> {
    server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_server_name: Option<&'a str>,
    certificate_authority_data: &'a str,
}

#[derive(Serialize)]
struct UserEntry<'a> {
    user: User<'a>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct User<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    client_certificate_data: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_key_data: Option<&'a str>,
    #[serde(rename = "tokenFile", skip_serializing_if = "Option::is_none")]
    token_file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

#[derive(Serialize)]
struct ContextEntry<'a> {
    context: Context<'a>,
}

#[derive(Serialize)]
struct Context<'a> {
    cluster: &'a str,
    user: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
}
