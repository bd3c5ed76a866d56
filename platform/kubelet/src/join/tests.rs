use std::os::unix::fs::PermissionsExt as _;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use pilothouse_kubeapi::testing;
use pilothouse_pki::{Certificate, LeafRequest, SigningRequest};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// Far beyond anything that works; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(90);
/// Too short for anybody to answer who does not mean to.
const BRIEF: Duration = Duration::from_millis(200);
const TOKEN: &str = "abcdef.0123456789abcdef";

/// A cluster whose administrator signs by hand, and a node at its door.
struct World {
    cluster: testing::Cluster,
    admin: kube::Client,
    directory: TempDir,
}

impl World {
    async fn start() -> Self {
        let cluster = testing::Cluster::start(testing::Options::default()).await.unwrap();
        let admin = cluster.admin().await.unwrap();
        let world = Self { cluster, admin, directory: tempfile::tempdir().unwrap() };
        let secret = json!({
            "metadata": { "name": "bootstrap-token-abcdef" },
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": "abcdef",
                "token-secret": "0123456789abcdef",
                "usage-bootstrap-authentication": "true",
            },
        });
        let secrets: Api<Secret> = Api::namespaced(world.admin.clone(), "kube-system");
        secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        world.write_token(TOKEN);
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write_token(&self, token: &str) {
        let mut kubeconfig = Kubeconfig::from_yaml(&self.cluster.kubeconfig("x", &[]).unwrap()).unwrap();
        kubeconfig.auth_infos[0].auth_info =
            Some(AuthInfo { token: Some(SecretString::from(token.to_owned())), ..AuthInfo::default() });
        let mut text = serde_json::to_value(&kubeconfig).unwrap();
        // Secrets are not written by accident.
        text["users"][0]["user"]["token"] = json!(token);
        std::fs::write(self.path("bootstrap"), text.to_string()).unwrap();
    }

    fn config(&self, limit: Duration) -> Config {
        Config {
            node_name: "one".to_owned(),
            root: self.path("root"),
            bootstrap_kubeconfig: Some(self.path("bootstrap")),
            join_limit: limit.into(),
            ..Config::default()
        }
    }

    fn folder(&self) -> Folder {
        Folder::open(&self.path("root")).unwrap()
    }

    fn requests(&self) -> Api<CertificateSigningRequest> {
        Api::all(self.admin.clone())
    }

    async fn names(&self) -> Vec<String> {
        let found = self.requests().list(&ListParams::default()).await.unwrap();
        found.items.into_iter().filter_map(|request| request.metadata.name).collect()
    }

    /// A request that nobody has answered.
    async fn next(&self) -> CertificateSigningRequest {
        eventually("somebody asks", PATIENCE, || async {
            let found = self.requests().list(&ListParams::default()).await.unwrap();
            let waiting = found
                .items
                .into_iter()
                .find(|request| request.status.as_ref().is_none_or(|status| status.conditions.is_none()));
            waiting.ok_or("nobody does")
        })
        .await
    }

    async fn say(&self, request: &CertificateSigningRequest, kind: &str) {
        let name = request.metadata.name.as_deref().unwrap();
        let condition =
            json!({ "type": kind, "status": "True", "reason": "Because", "message": "of a test" });
        let patch = Patch::Merge(json!({ "status": { "conditions": [condition] } }));
        let params = PatchParams::default();
        match kind {
            "Failed" => self.requests().patch_status(name, &params, &patch).await.unwrap(),
            _ => self.requests().patch_approval(name, &params, &patch).await.unwrap(),
        };
    }

    async fn sign(&self, request: &CertificateSigningRequest) -> Certificate {
        let asked = SigningRequest::from_pem(&request.spec.request.0).unwrap();
        let granted = LeafRequest::client(asked.subject().clone());
        let mut chain = self.cluster.authority().sign_request(&asked, &granted, &Clock::system()).unwrap();
        let name = request.metadata.name.as_deref().unwrap();
        let mut signed = self.requests().get(name).await.unwrap();
        signed.status.as_mut().unwrap().certificate =
            Some(k8s_openapi::ByteString(chain[0].to_pem().into_bytes()));
        self.requests().replace_status(name, &PostParams::default(), &signed).await.unwrap();
        chain.swap_remove(0)
    }

    async fn answer(&self) -> Certificate {
        let request = self.next().await;
        self.say(&request, "Approved").await;
        self.sign(&request).await
    }
}

/// Who a client is to the server, and by which certificate.
async fn whoami(client: &kube::Client) -> (String, String) {
    let asked: SelfSubjectReview = serde_json::from_value(json!({})).unwrap();
    let answer = Api::<SelfSubjectReview>::all(client.clone()).create(&PostParams::default(), &asked).await;
    let user = serde_json::to_value(answer.unwrap()).unwrap()["status"]["userInfo"].clone();
    let credential = user["extra"]["authentication.kubernetes.io/credential-id"][0].clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&user["username"]), text(&credential))
}

fn credential(certificate: &Certificate) -> String {
    format!("X509SHA256={}", certificate.fingerprint())
}

fn refused(joined: Result<Joined, Error>) -> JoinError {
    match joined {
        Err(Error::Join(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it joined"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn token_brings_a_certificate_that_is_renewed_while_the_node_runs() {
    let world = World::start().await;
    let (clock, time) = Clock::manual(Clock::system().now());
    let config = world.config(PATIENCE);
    let (joined, first) = tokio::join!(join(&config, &clock), world.answer());
    let Joined { client, membership } = joined.unwrap();
    assert_eq!(whoami(&client).await, ("system:node:one".to_owned(), credential(&first)));
    let kept = world.folder().file(folder::CLIENT);
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(kept.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);

    time.set(first.renew_at());
    let renewed = async {
        let second = world.answer().await;
        eventually("the next certificate is used", PATIENCE, || async {
            let (user, shown) = whoami(&client).await;
            assert_eq!(user, "system:node:one");
            if shown == credential(&second) { Ok(()) } else { Err(shown) }
        })
        .await;
        second
    };
    let second = tokio::select! {
        ended = membership.unwrap().keep() => panic!("{ended:?}"),
        second = renewed => second,
    };

    // The next kubelet finds it, asks nobody, and needs no token.
    std::fs::remove_file(world.path("bootstrap")).unwrap();
    let again = join(&config, &Clock::system()).await.unwrap();
    assert_eq!(whoami(&again.client).await.1, credential(&second));
    assert_eq!(world.names().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_step_a_node_goes_on_with_the_same_request() {
    let world = World::start().await;
    let clock = Clock::system();
    let key = world.folder().pending(folder::CLIENT).unwrap();
    // Killed when the request was made.
    let config = world.config(PATIENCE);
    let request = tokio::select! {
        _ = join(&config, &clock) => panic!("nobody answered"),
        request = world.next() => request,
    };
    assert!(SigningRequest::from_pem(&request.spec.request.0).unwrap().is_for(&key));
    // Nobody approves, then nobody signs, and it is started again and again.
    let brief = world.config(BRIEF);
    let name = request.metadata.name.clone().unwrap();
    let unapproved = refused(join(&brief, &clock).await);
    assert!(
        matches!(&unapproved, JoinError::Unapproved { name: asked, .. } if *asked == name),
        "{unapproved}"
    );
    world.say(&request, "Approved").await;
    let unsigned = refused(join(&brief, &clock).await);
    assert!(matches!(&unsigned, JoinError::Unsigned { name: asked, .. } if *asked == name), "{unsigned}");
    let certificate = world.sign(&request).await;
    let joined = join(&config, &clock).await.unwrap();
    assert_eq!(whoami(&joined.client).await.1, credential(&certificate));
    // Killed before it forgot what it had asked, and before it wrote how it is let in.
    let folder = world.folder();
    let pending = folder.file(folder::CLIENT).with_file_name("client.next.key");
    std::fs::write(pending, key.to_pem().as_bytes()).unwrap();
    std::fs::remove_file(kubeconfig_path(&config)).unwrap();
    let joined = join(&config, &clock).await.unwrap();
    assert_eq!(whoami(&joined.client).await.1, credential(&certificate));
    assert_ne!(folder.pending(folder::CLIENT).unwrap().fingerprint(), key.fingerprint());
    assert_eq!(world.names().await, [name]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_is_told_why_and_asks_anew() {
    let world = World::start().await;
    let clock = Clock::system();
    world.write_token("abcdef.fedcba9876543210");
    let error = refused(join(&world.config(PATIENCE), &clock).await);
    assert!(matches!(&error, JoinError::Token { path } if *path == world.path("bootstrap")), "{error}");
    world.write_token(TOKEN);
    for kind in ["Denied", "Failed"] {
        let config = world.config(PATIENCE);
        let answer = async {
            let request = world.next().await;
            world.say(&request, kind).await;
        };
        let (joined, ()) = tokio::join!(join(&config, &clock), answer);
        let error = refused(joined);
        match (kind, &error) {
            ("Denied", JoinError::Denied { why, .. }) | ("Failed", JoinError::Refused { why, .. }) => {
                assert_eq!(why, "Because: of a test");
            }
            _ => panic!("{error}"),
        }
    }
    let config = world.config(PATIENCE);
    let (joined, _) = tokio::join!(join(&config, &clock), world.answer());
    assert_eq!(whoami(&joined.unwrap().client).await.0, "system:node:one");
    assert_eq!(world.names().await.len(), 3, "each was a new request");
}
