//! Whatever lets somebody into one cluster of a region is worth nothing at another: not at another tenant's, and not at the
//! management cluster; nor the other way round.

use std::fs;
use std::path::{Path, PathBuf};

use http::Request;
use kube::Client;
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use pilothouse_test_support::eventually;

use crate::region::{LIMIT, Region};

/// What everybody may look at who is known, and nobody else.
const QUESTION: &str = "/api/v1";

/// Something that is shown to an API server.
struct Credential {
    what: &'static str,
    /// The cluster that it is of.
    home: &'static str,
    shown: AuthInfo,
}

/// A cluster, as its administrator reaches it.
struct Place {
    name: &'static str,
    kubeconfig: PathBuf,
}

/// What a cluster makes of somebody.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Known,
    /// 401; or not even that, because nobody here vouches for the certificate.
    Unknown,
    Other(String),
}

// === impl Place ===

impl Place {
    /// What the cluster makes of whoever shows this. A connection that ended before the question was sent has given no
    /// verdict: a refused certificate may end one before its reason was read, so the question is asked again.
    async fn verdict(&self, shown: &AuthInfo) -> Verdict {
        eventually("a verdict is given", LIMIT, || async {
            match self.ask(shown).await {
                Verdict::Other(what) if what.contains("Canceled") => Err(what),
                verdict => Ok(verdict),
            }
        })
        .await
    }

    async fn ask(&self, shown: &AuthInfo) -> Verdict {
        let mut kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        for user in &mut kubeconfig.auth_infos {
            user.auth_info = Some(shown.clone());
        }
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.unwrap()).unwrap();
        let request = Request::get(QUESTION).body(Body::empty()).unwrap();
        match client.send(request).await.map(|answer| answer.status().as_u16()) {
            Ok(200) => Verdict::Known,
            Ok(401) => Verdict::Unknown,
            Err(error)
                if shown.token.is_none() && format!("{error:?}").contains("AlertReceived(UnknownCA)") =>
            {
                Verdict::Unknown
            }
            other => Verdict::Other(format!("{other:?}")),
        }
    }

    fn administrator(&self) -> Credential {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let shown = kubeconfig.auth_infos.into_iter().next().unwrap().auth_info.unwrap();
        assert!(shown.client_certificate_data.is_some() || shown.client_certificate.is_some());
        Credential { what: "the administrator's certificate", home: self.name, shown }
    }

    fn service_account(&self, region: &Region) -> Credential {
        let token = region.kubectl_on(&self.kubeconfig, &["create", "token", "default"]).unwrap();
        Credential { what: "a service account's token", home: self.name, shown: by_token(token.trim()) }
    }

    /// The token that nodes of the cluster join by.
    fn bootstrap(&self, region: &Region) -> Credential {
        let namespace = format!("clusters-{}", self.name);
        let form = "go-template={{range .items}}{{.metadata.name}} {{with .data.token}}{{. | base64decode}}{{end}}\n{{end}}";
        let secrets = region.kubectl(&["get", "secrets", "-n", &namespace, "-o", form]).unwrap();
        let token = secrets.lines().find_map(|line| line.strip_prefix("token-")?.split_once(' '));
        Credential { what: "a bootstrap token", home: self.name, shown: by_token(token.unwrap().1) }
    }

    /// What the node of the cluster shows, from the node's own disk.
    fn node(&self, region: &Region) -> Credential {
        let namespace = format!("clusters-{}", self.name);
        let uid = ["get", "pods", "-n", &namespace, "-l", "kubevirt.io=virt-launcher", "-o"];
        let uid = [&uid[..], &["jsonpath={.items[0].metadata.uid}"]].concat();
        let uid = region.kubectl(&uid).unwrap();
        let pod = region.data_dir().join("node/root/pods").join(uid);
        let file = find(&pod, "pki/client.pem").unwrap_or_else(|| panic!("nothing in {}", pod.display()));
        let file = file.to_str().unwrap().to_owned();
        let shown = AuthInfo {
            client_certificate: Some(file.clone()),
            client_key: Some(file),
            ..AuthInfo::default()
        };
        Credential { what: "a node's certificate", home: self.name, shown }
    }
}

fn by_token(token: &str) -> AuthInfo {
    AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() }
}

/// A file below a folder, by the end of its path.
fn find(folder: &Path, end: &str) -> Option<PathBuf> {
    fs::read_dir(folder).ok()?.filter_map(Result::ok).find_map(|entry| {
        let path = entry.path();
        match entry.file_type().ok()?.is_dir() {
            true => find(&path, end),
            false => path.ends_with(end).then_some(path),
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_known_at_home_and_nowhere_else() {
    let Some(mut region) = Region::start(&[]).await else { return };
    let tenants = ["ada", "bob"].map(|name| Place { name, kubeconfig: region.host(name) });
    let management = Place { name: "management", kubeconfig: region.data_dir().join("kubeconfig") };
    let places: Vec<_> = tenants.iter().chain([&management]).collect();
    let mut credentials = Vec::new();
    for place in &places {
        credentials.extend([place.administrator(), place.service_account(&region)]);
    }
    for tenant in &tenants {
        credentials.extend([tenant.bootstrap(&region), tenant.node(&region)]);
    }

    for Credential { what, home, shown } in &credentials {
        for place in &places {
            let expected = if place.name == *home { Verdict::Known } else { Verdict::Unknown };
            let name = place.name;
            assert_eq!(place.verdict(shown).await, expected, "{what} of {home} at {name}");
        }
    }
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}
