//! `kube-apiserver`: a Kubernetes API alone.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use comfy_table::Table;
use pilothouse_pki::AlternativeName;
use pilothouse_region::kube_apiserver::{Anonymous, CertificateFiles, KubeApiServer, Options, Serving};
use pilothouse_runtime::config::SecretFile;
use pilothouse_runtime::{Clock, Shutdown, telemetry};
use serde::Serialize;

use super::{control_plane, location};
use crate::output;
use crate::{Failure, Hint, Output, Render};

/// Run a Kubernetes API alone: a server, controllers and a scheduler, in one process.
///
/// What it is not told it makes for itself in the data directory and finds there again: the database, certificates, keys,
/// and a kubeconfig for an administrator. There is no node; pods are scheduled onto the Node objects there are.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse kube-apiserver --data-dir api               Make one, or go on with the one in `api`
  kubectl --kubeconfig api/kubeconfig api-resources      What it serves
  pilothouse kube-apiserver --data-dir api --store 'postgres://me@db/region?schema=kubernetes'")]
pub struct Args {
    /// The folder for what it makes
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Where it listens; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Where the objects are: a path, or `postgres://user@host/database?schema=name` [default: a file in the data directory]
    #[arg(long, value_name = "LOCATION")]
    store: Option<String>,
    /// A file with the password of the store's user
    #[arg(long, value_name = "FILE")]
    store_password_file: Option<PathBuf>,
    /// The file with the keys that secrets are sealed with [default: one in the data directory]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Run controllers and scheduler in the same process
    #[arg(
        long,
        value_name = "BOOL",
        action = clap::ArgAction::Set,
        default_value_t = true,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true
    )]
    with_controllers: bool,
    /// The Kubernetes version it speaks
    #[arg(long, value_name = "VERSION", default_value = "1.34.1")]
    kubernetes_version: String,
    /// The range that Services get their addresses from
    #[arg(long, value_name = "RANGE", default_value = "10.96.0.0/16")]
    service_cluster_ip_range: String,
    /// Make volumes for claims in this folder of the nodes, which is their `volume_root`, too [default: claims stay unbound]
    #[arg(long, value_name = "DIR")]
    volume_root: Option<PathBuf>,
    /// Which events to log: a level, or a list such as `info,pilothouse_store=debug`
    #[arg(long, value_name = "FILTER", env = telemetry::LOG_VARIABLE, hide_env_values = true)]
    log: Option<String>,
    #[command(flatten)]
    trust: TrustArgs,
}

/// Certificates, tokens and keys. They are files, never the values themselves.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Trust")]
struct TrustArgs {
    /// The certificate to serve with, PEM, leaf first; it has to carry the name `kubernetes` [default: one it makes]
    #[arg(long, value_name = "FILE", requires_all = ["tls_private_key_file", "root_ca_file"])]
    tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Who issued that certificate: what clients and pods are told to trust
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    root_ca_file: Option<PathBuf>,
    /// One more name or address for the certificate that it makes; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "tls_cert_file")]
    tls_san: Vec<AlternativeName>,
    /// Whose client certificates are believed, beside its own authority's
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// Tokens that users show, one line each: `token,user,uid,"group,group"`
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Issuers whose tokens are believed: an AuthenticationConfiguration, YAML or JSON
    #[arg(long, value_name = "FILE")]
    authentication_config: Option<PathBuf>,
    /// Let everybody in as `system:anonymous`, or nobody [default: only to `/livez`, `/readyz`, `/healthz` and `/version`]
    #[arg(long, value_name = "BOOL")]
    anonymous_auth: Option<bool>,
    /// The key that signs tokens of service accounts [default: one it makes]
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Who signs them
    #[arg(long, value_name = "URL", default_value = "https://kubernetes.default.svc")]
    service_account_issuer: String,
    /// The authority that signs requests for certificates, such as those of nodes that join [default: its own]
    #[arg(long, value_name = "FILE", requires = "cluster_signing_key_file")]
    cluster_signing_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "cluster_signing_cert_file")]
    cluster_signing_key_file: Option<PathBuf>,
}

/// Where it is, once it listens.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Started {
    server: String,
    kubeconfig: PathBuf,
    store: String,
}

impl Args {
    /// Runs until it is stopped.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn run(self, output: &mut Output) -> Result<ExitCode, Failure> {
        let filter = self.log.clone().unwrap_or_else(|| "warn,kube_client=off".to_owned());
        let telemetry = telemetry::Config { filter: Some(filter), ..telemetry::Config::default() };
        let options = self.options()?;
        control_plane::stay("kube-apiserver", &telemetry, async |shutdown: &Shutdown| {
            let built = KubeApiServer::build(options, Clock::system(), shutdown)
                .await
                .map_err(|error| anyhow!(error))
                .hint("`--listen 127.0.0.1:0` takes a free port; a SQLite store is for one process")?;
            let KubeApiServer { plane, server, store, kubeconfig } = built;
            let command = format!("kubectl --kubeconfig {} api-resources", kubeconfig.display());
            output.show(&Started { server, kubeconfig, store })?;
            if output.is_for_people() {
                super::say(&format!("try: {command}"));
                super::say("running; Ctrl-C or SIGTERM stops it");
            }
            Ok(plane)
        })
    }

    fn options(self) -> Result<Options, Failure> {
        let Self { trust, .. } = self;
        let password = self.store_password_file.map(SecretFile::new);
        let store = self.store.map(|store| location::with_password(&store, password.as_ref())).transpose();
        let serving = match (trust.tls_cert_file, trust.tls_private_key_file, trust.root_ca_file) {
            (Some(certificate), Some(key), Some(authorities)) => {
                Some(Serving { certificate, key, authorities })
            }
            // The command line has seen to it that they come together.
            _ => None,
        };
        let signing = match (trust.cluster_signing_cert_file, trust.cluster_signing_key_file) {
            (Some(certificate), Some(key)) => Some(CertificateFiles { certificate, key }),
            _ => None,
        };
        // Nodes have another working folder.
        let volume_root = self.volume_root.map(std::path::absolute).transpose();
        let volume_root = volume_root.hint("`--volume-root DIR` is a folder on the nodes")?;
        Ok(Options {
            data_dir: self.data_dir,
            listen: self.listen,
            store: store.hint("a password goes into a file that `--store-password-file` names")?,
            key_file: self.key_file,
            serving,
            names: trust.tls_san,
            client_authorities: trust.client_ca_file,
            token_file: trust.token_auth_file,
            authentication_config: trust.authentication_config,
            anonymous: match trust.anonymous_auth {
                None => Anonymous::default(),
                Some(true) => Anonymous::On,
                Some(false) => Anonymous::Off,
            },
            service_account_key: trust.service_account_signing_key_file,
            issuer: trust.service_account_issuer,
            signing,
            version: self.kubernetes_version,
            service_cidr: self.service_cluster_ip_range,
            volume_root,
            controllers: self.with_controllers,
        })
    }
}

impl Render for Started {
    fn table(&self) -> Table {
        let kubeconfig = self.kubeconfig.display().to_string();
        let rows = [
            ["server", self.server.as_str()],
            ["kubeconfig", kubeconfig.as_str()],
            ["store", self.store.as_str()],
        ];
        output::table(["WHAT", "WHERE"], rows)
    }
}
