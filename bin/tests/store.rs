//! `pilothouse store`, as an operator meets it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin_cmd;
use pilothouse_runtime::Shutdown;
use pilothouse_store::{Catalog, Container, DocumentId, Keyring, Location, Options, Partition, Store};
use rstest::rstest;
use serde_json::{Value, json};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn command(&self, verb: &[&str]) -> Command {
        let mut command = cargo_bin_cmd!("pilothouse");
        command.current_dir(self.0.path()).env_remove("PILOTHOUSE_STORE").arg("store").args(verb);
        command
    }

    fn json(&self, verb: &[&str]) -> Value {
        let output = self.command(verb).args(["--output", "json"]).assert().success().get_output().clone();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What a failed command said.
    fn failure(&self, verb: &[&str]) -> String {
        let output = self.command(verb).assert().code(1).get_output().clone();
        String::from_utf8(output.stderr).unwrap()
    }

    /// A store with documents and secrets, still open.
    async fn filled(&self) -> Store {
        let keyring = Keyring::open_or_create(self.path("region.db.key")).unwrap();
        let tokens = Container::new("tokens").with_secret("/token").with_index("owner", "/owner");
        let catalog = Catalog::try_new([tokens.clone()]).unwrap();
        let location = Location::sqlite(self.path("region.db"));
        let options = Options { keyring: Some(keyring), ..Options::new(location, catalog, Shutdown::new()) };
        let store = Store::open(options).await.unwrap();
        let partition = Partition::try_new("ada").unwrap();
        for n in 0..10 {
            let body = json!({"owner": "ada", "token": format!("hunter{n}")});
            store
                .create(&tokens, &partition, DocumentId::try_new(n.to_string()).unwrap(), &body)
                .await
                .unwrap();
        }
        store
    }
}

#[rstest]
#[case("store", &[])]
#[case("store_init", &["init"])]
#[case("store_check", &["check"])]
#[case("store_backup", &["backup"])]
#[case("store_rotate_key", &["rotate-key"])]
fn help_is_as_reviewed(#[case] name: &str, #[case] verb: &[&str]) {
    let folder = Folder::new();
    let output = folder.command(verb).arg("--help").assert().success().get_output().clone();
    insta::assert_snapshot!(name, String::from_utf8(output.stdout).unwrap());
}

#[test]
fn a_new_store_is_sound_and_made_once() {
    let folder = Folder::new();
    let made = folder.json(&["init", "--store", "region.db"]);
    assert_eq!((&made["made"], &made["keyFile"]), (&json!(true), &json!("region.db.key")));
    let checked = folder.json(&["check", "--store", "region.db"]);
    assert_eq!((&checked["documents"], &checked["problems"]), (&json!(0), &json!([])));
    let key = std::fs::read(folder.path("region.db.key")).unwrap();
    assert_eq!(folder.json(&["init", "--store", "region.db"])["made"], json!(false));
    assert_eq!(std::fs::read(folder.path("region.db.key")).unwrap(), key);
}

#[tokio::test]
async fn a_store_in_use_can_be_checked_and_copied_but_not_changed() {
    let folder = Folder::new();
    let store = folder.filled().await;
    let checked = folder.json(&["check", "--store", "region.db"]);
    assert_eq!(checked["containers"], json!({"tokens": 10}));
    assert_eq!((&checked["secretsOpened"], &checked["problems"]), (&json!(true), &json!([])));

    let copied = folder.json(&["backup", "copy.db", "--store", "region.db"]);
    assert!(copied["bytes"].as_u64().unwrap() > 0);
    let told = folder.failure(&["backup", "copy.db", "--store", "region.db"]);
    assert!(told.contains("exists already"), "{told}");
    let told = folder.failure(&["rotate-key", "--store", "region.db"]);
    assert!(told.contains("in use by process") && told.contains("stop the service"), "{told}");
    store.close().await;

    let rotated = folder.json(&["rotate-key", "--retire", "--store", "region.db"]);
    assert_eq!((&rotated["resealed"], rotated["retired"].as_array().unwrap().len()), (&json!(10), 1));
    assert_eq!(folder.json(&["check", "--store", "region.db"])["problems"], json!([]));
    // The copy was sealed with the key that is gone.
    let told = folder.failure(&["check", "--store", "copy.db", "--key-file", "region.db.key"]);
    assert!(told.contains("10 problem(s)"), "{told}");
    let checked = folder.json(&["check", "--store", "copy.db"]);
    assert_eq!((&checked["documents"], &checked["secretsOpened"]), (&json!(10), &json!(false)));
}

#[test]
fn what_is_no_store_is_told_with_what_to_do() {
    let folder = Folder::new();
    for (verb, expected) in [
        (&["check"][..], "--store LOCATION"),
        (&["check", "--store", "missing.db"], "store init --store sqlite:missing.db"),
        (&["check", "--store", "mysql://x/y"], "for example `region.db`"),
        (&["backup", "copy.db", "--store", "missing.db"], "there is no such file"),
    ] {
        let told = folder.failure(verb);
        assert!(
            told.contains(expected) && told.trim_end().lines().last().unwrap().starts_with("hint: "),
            "{told}"
        );
    }
    std::fs::write(
        folder.path("notes.txt"),
        "this is no database, but it is long enough to be one ".repeat(40),
    )
    .unwrap();
    for verb in ["check", "init"] {
        let told = folder.failure(&[verb, "--store", "notes.txt"]);
        assert!(told.contains("not a Pilothouse store"), "{told}");
    }
}
