//! The real server, in whose place ours is.

use std::fs;
use std::path::Path;

use pilothouse_kubeapi::testing::Cluster;
use pilothouse_pki::{Bundle, LeafRequest, Subject};
use pilothouse_runtime::Clock;
use pilothouse_test_support::upstream::{Cluster as Servers, Setup, Upstream};
use tempfile::TempDir;

use crate::client::{Client, Credential, Question};

/// The servers are killed before their folder goes.
pub(crate) struct Real {
    servers: Servers,
    _directory: TempDir,
}

impl Real {
    /// Starts it with the authority of our cluster: the same certificates open the doors of both servers.
    pub(crate) async fn start(programs: &Upstream, ours: &Cluster) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut setup = keys(ours, directory.path());
        setup.arguments.push("--enable-bootstrap-token-auth".into());
        let setup = setup.with("--enable-admission-plugins", "NodeRestriction");
        let servers =
            Servers::start(programs, setup, |address| ready(ours, format!("https://{address}"))).await;
        Self { servers, _directory: directory }
    }

    pub(crate) fn url(&self) -> String {
        self.servers.url()
    }
}

async fn ready(ours: &Cluster, url: String) -> Result<(), String> {
    let client = Client::new(ours, url);
    for path in ["/readyz", "/api/v1/namespaces/default"] {
        let question = Question {
            method: http::Method::GET,
            path: path.to_owned(),
            content: "application/json",
            accept: "application/json".to_owned(),
            body: Vec::new(),
            events: None,
        };
        let answer = client.ask(&Credential::administrator(), &question).await;
        if answer.code != 200 {
            return Err(format!("{answer:?}"));
        }
    }
    Ok(())
}

/// What the server serves, believes and signs with.
fn keys(ours: &Cluster, folder: &Path) -> Setup {
    let authority = ours.authority();
    let names = ["localhost", "127.0.0.1"].map(|name| name.parse().unwrap());
    let request = LeafRequest::server(Subject::try_new("kube-apiserver").unwrap(), names);
    let identity = authority.issue(&request, &Clock::system()).unwrap();
    let (certificate, key, client_authorities) =
        (folder.join("tls.crt"), folder.join("tls.key"), folder.join("ca.crt"));
    identity.write(&certificate, &key).unwrap();
    fs::write(&client_authorities, Bundle::from(authority.certificate()).to_pem()).unwrap();
    Setup { folder: folder.to_owned(), certificate, key, client_authorities, arguments: Vec::new() }
}
