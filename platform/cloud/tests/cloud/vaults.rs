//! Vaults: what a secret says is told at the vault's own address, to whom it is for, and nowhere else.

use std::fs;

use pilothouse_cloud::names_catalog;
use pilothouse_http::{AllowedCallers, Exposure, ListenerConfig, TlsFiles};
use pilothouse_pki::{Authority, AuthorityRequest, Bundle, LeafRequest, Subject};

use super::*;

const VAULT: &str = "providers/Microsoft.KeyVault/vaults/kv-first";
const SAID: &str = "nobody-else-may-know";

fn vault() -> Value {
    let properties = json!({"tenantId": "t", "sku": {"family": "A", "name": "standard"}});
    json!({"location": "local", "tags": {"mark": "first"}, "properties": properties})
}

fn secret(value: &str) -> Value {
    json!({"tags": {"mark": "first"}, "properties": {"value": value, "contentType": "text/plain"}})
}

impl Cloud {
    /// A group with a vault, and a secret in it, which is answered.
    async fn with_secret(&self, group: &str) -> Value {
        self.put(group, json!({"location": "local"})).await;
        self.put(&format!("{group}/{VAULT}"), vault()).await;
        let (status, made) = self.make(&format!("{group}/{VAULT}/secrets/key"), secret(SAID)).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        made
    }

    /// What is told at an address.
    async fn told(&self, uri: &str) -> (StatusCode, Value) {
        let path = uri.strip_prefix(&self.address).unwrap();
        self.call(Method::GET, &format!("{path}?api-version=7.4"), None).await
    }
}

#[tokio::test]
async fn what_a_secret_says_is_told_by_its_vault_alone() {
    let cloud = Cloud::start(Location::memory()).await;
    let made = cloud.with_secret(GROUP).await;
    let path = format!("{GROUP}/{VAULT}");
    let mut shown = vec![made.clone()];
    for list in [format!("{GROUP}/resources"), format!("{path}/secrets")] {
        shown.push(cloud.get(&list).await.1);
    }
    shown.push(cloud.get(&format!("{path}/secrets/KEY")).await.1);
    for shown in &shown {
        assert!(!shown.to_string().contains(SAID) && shown.to_string().contains("secretUri"), "{shown}");
    }
    assert_eq!(shown[3], made);
    assert_eq!(
        (&made["type"], &made["properties"]["contentType"], &made["properties"]["attributes"]["enabled"]),
        (&json!("Microsoft.KeyVault/vaults/secrets"), &json!("text/plain"), &json!(true))
    );

    let (_, found) = cloud.get(&path).await;
    let uri = found["properties"]["vaultUri"].as_str().unwrap();
    assert_eq!(uri, format!("{}/keyvault{path}/", cloud.address));
    let (status, told) = cloud.told(&format!("{uri}secrets/key")).await;
    assert_eq!((status, &told["value"]), (StatusCode::OK, &json!(SAID)));
    assert_eq!(made["properties"]["secretUriWithVersion"], told["id"]);
    let of_before = told["id"].as_str().unwrap().to_owned();
    assert_eq!(cloud.told(&of_before).await.0, StatusCode::OK);

    let (status, changed) = cloud.put(&format!("{path}/secrets/key"), secret("something else")).await;
    assert_eq!(status, StatusCode::OK);
    let told = cloud.told(changed["properties"]["secretUri"].as_str().unwrap()).await.1;
    assert_eq!(told["value"], "something else");
    assert_eq!(cloud.told(&of_before).await.0, StatusCode::NOT_FOUND, "only what it says now is kept");
    cloud.stop().await;
}

#[tokio::test]
async fn what_cannot_be_a_vault_or_a_secret_is_refused() {
    let cloud = Cloud::start(Location::memory()).await;
    cloud.with_secret(GROUP).await;
    let secrets = format!("{GROUP}/{VAULT}/secrets");
    let vaults = format!("{GROUP}/providers/Microsoft.KeyVault/vaults");
    let spoken = json!({"properties": {"value": "a", "attributes": {"enabled": false}}});
    for (path, body, status, says) in [
        (format!("{vaults}/ab"), vault(), StatusCode::BAD_REQUEST, "is not a name of a vault"),
        (
            format!("{vaults}/{}", "a".repeat(25)),
            vault(),
            StatusCode::BAD_REQUEST,
            "is not a name of a vault",
        ),
        (format!("{vaults}/1ab"), vault(), StatusCode::BAD_REQUEST, "is not a name of a vault"),
        (
            format!("{vaults}/other"),
            json!({"location": "local"}),
            StatusCode::BAD_REQUEST,
            "properties.tenantId",
        ),
        (format!("{vaults}/other/secrets/a"), secret("a"), StatusCode::NOT_FOUND, "was not found"),
        (format!("{secrets}/a_b"), secret("a"), StatusCode::BAD_REQUEST, "is not a name of a vault"),
        (format!("{secrets}/a"), json!({"properties": {}}), StatusCode::BAD_REQUEST, "properties.value"),
        (format!("{secrets}/a"), secret(&"a".repeat(25_001)), StatusCode::BAD_REQUEST, "25000 bytes"),
        (format!("{secrets}/a"), spoken, StatusCode::BAD_REQUEST, "properties.attributes"),
    ] {
        let (found, refusal) = cloud.put(&path, body).await;
        let message = refusal["error"]["message"].as_str().unwrap();
        assert!(found == status && message.contains(says), "{path}: {found} {message}");
    }
    assert_eq!(cloud.delete(&format!("{secrets}/key")).await, StatusCode::METHOD_NOT_ALLOWED);
    let (status, _) = cloud.make(&format!("{secrets}/key"), secret("another")).await;
    assert_eq!(status, StatusCode::PRECONDITION_FAILED);
    let told = |path: &str| format!("{}/keyvault{GROUP}/{VAULT}/{path}", cloud.address);
    assert_eq!(cloud.told(&told("secrets/key")).await.1["value"], SAID);
    let put =
        cloud.call(Method::PUT, &format!("/keyvault{secrets}/key?api-version=7.4"), Some(secret("a"))).await;
    assert_eq!(put.0, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(cloud.told(&told("secrets/other")).await.0, StatusCode::NOT_FOUND);
    cloud.stop().await;
}

#[tokio::test]
async fn secrets_go_with_their_vault_and_with_their_group() {
    let cloud = Cloud::start(Location::memory()).await;
    for gone in [format!("{GROUP}/{VAULT}"), GROUP.to_owned()] {
        let made = cloud.with_secret(GROUP).await;
        let uri = made["properties"]["secretUri"].as_str().unwrap();
        assert_eq!(cloud.told(uri).await.0, StatusCode::OK);
        assert_eq!(cloud.delete(&gone).await, StatusCode::OK);
        assert_eq!(cloud.told(uri).await.0, StatusCode::NOT_FOUND, "{gone}");
        assert_eq!(cloud.get(&format!("{GROUP}/{VAULT}/secrets/key")).await.0, StatusCode::NOT_FOUND);
    }
    // A new vault of that name has none of it.
    cloud.put(GROUP, json!({"location": "local"})).await;
    cloud.put(&format!("{GROUP}/{VAULT}"), vault()).await;
    let (status, _) = cloud.told(&format!("{}/keyvault{GROUP}/{VAULT}/secrets/key", cloud.address)).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    cloud.stop().await;
}

#[tokio::test]
async fn vaults_of_one_name_are_told_apart_by_where_they_are() {
    let cloud = Cloud::start(Location::memory()).await;
    let other = GROUP.replace("11111111", "99999999");
    let (ours, theirs) = (cloud.with_secret(GROUP).await, cloud.with_secret(&other).await);
    cloud.put(&format!("{other}/{VAULT}/secrets/key"), secret("theirs")).await;
    let uri = |made: &Value| made["properties"]["secretUri"].as_str().unwrap().to_owned();
    assert_eq!(cloud.told(&uri(&ours)).await.1["value"], SAID);
    assert_eq!(cloud.told(&uri(&theirs)).await.1["value"], "theirs");
    cloud.stop().await;
}

#[tokio::test]
async fn what_secrets_say_is_not_in_the_file_and_outlives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud.db").to_str().unwrap().to_owned();
    let keyring = Keyring::open_or_create(format!("{path}.key")).unwrap();
    let start = || Cloud::start_with(Location::sqlite(path.as_str()), keyring.clone(), Config::default());
    let cloud = start().await;
    cloud.with_secret(GROUP).await;
    cloud.stop().await;
    let cloud = start().await;
    let uri = format!("{}/keyvault{GROUP}/{VAULT}/secrets/key", cloud.address);
    assert_eq!(cloud.told(&uri).await.1["value"], SAID);
    let contains = |text: &str| {
        let files = fs::read_dir(folder.path()).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
        files.into_iter().any(|file| file.windows(text.len()).any(|window| window == text.as_bytes()))
    };
    assert!(contains("kv-first") && !contains(SAID));
    cloud.stop().await;

    // Who only follows names opens the same store without the key.
    let shutdown = Shutdown::new();
    let location = Location::sqlite(path.as_str());
    let store = Store::open(Options::new(location, names_catalog(), shutdown)).await.unwrap();
    assert_eq!(NameFeed::new(store.clone()).next().await.unwrap().resources.len(), 1);
    store.close().await;
    let cloud = start().await;
    assert_eq!(
        cloud.told(&uri.replace(&uri[..uri.find("/keyvault").unwrap()], &cloud.address)).await.1["value"],
        SAID
    );
    cloud.stop().await;
}

#[tokio::test]
async fn what_secrets_say_is_told_to_those_it_is_for() {
    let clock = Clock::system();
    let folder = tempfile::tempdir().unwrap();
    let subject = |name: &str| Subject::try_new(name).unwrap();
    let authority =
        Authority::self_signed(&AuthorityRequest::new(subject("test authority")), &clock).unwrap();
    let bundle = Bundle::from(authority.certificate());
    let path = |name: &str| folder.path().join(name);
    let request = LeafRequest::server(subject("cloud"), ["127.0.0.1".parse().unwrap()]);
    authority.issue(&request, &clock).unwrap().write(&path("tls.crt"), &path("tls.key")).unwrap();
    bundle.write(&path("clients.crt")).unwrap();
    let tls = TlsFiles {
        certificate: path("tls.crt"),
        key: path("tls.key"),
        client_authorities: Some(path("clients.crt")),
    };
    let exposure = Exposure::Callers(AllowedCallers::new(["clusters-service", "frontend"]));
    let listener = ListenerConfig { tls: Some(tls), exposure, ..ListenerConfig::loopback(0) };
    let config = Config { listener, ..Config::default() };
    let mut cloud = Cloud::start_with(Location::memory(), Keyring::ephemeral().unwrap(), config).await;
    let client = |name: &str| {
        let identity = authority.issue(&LeafRequest::client(subject(name)), &clock).unwrap();
        let builder = ClientBuilder::new(Duration::from_secs(20)).with_authorities(bundle.clone());
        builder.with_identity(identity).build().unwrap()
    };
    cloud.client = client("clusters-service");
    let made = cloud.with_secret(GROUP).await;
    let uri = made["properties"]["secretUri"].as_str().unwrap();
    assert_eq!(cloud.told(uri).await.1["value"], SAID);
    cloud.client = client("frontend");
    assert_eq!(cloud.get(&format!("{GROUP}/{VAULT}/secrets/key")).await, (StatusCode::OK, made.clone()));
    let (status, refusal) = cloud.told(uri).await;
    assert_eq!((status, &refusal["error"]["code"]), (StatusCode::FORBIDDEN, &json!("AuthorizationFailed")));
    assert!(refusal["error"]["message"].as_str().unwrap().contains("`secret_readers`"), "{refusal}");
    cloud.stop().await;
}
