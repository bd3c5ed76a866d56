//! Services in processes of their own, tokens, and the administrators' commands, as their users meet them.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_test_support::requirement::Requirement;
use serde_json::{Value, json};
use tempfile::TempDir;

const CURL: Requirement = Requirement::new("curl", "curl");
const TENANT: &str = "11111111-1111-1111-1111-111111111111";
const SUBSCRIPTION: &str = "0b1f6471-1bf0-4dda-aec3-cb9272f09590";

fn pilothouse() -> Command {
    let mut command = Command::new(cargo_bin!("pilothouse"));
    command.env_remove("PILOTHOUSE_DATA_DIR").env("USER", "ada");
    command
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn data(output: &Output) -> String {
    assert!(output.status.success(), "{}", told(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A frontend process that believes the issuer in its folder.
struct Frontend {
    folder: TempDir,
    child: Child,
    /// Where it listens, by the listeners' names.
    addresses: BTreeMap<String, String>,
}

impl Frontend {
    fn issuer(folder: &Path) -> PathBuf {
        folder.join("issuer")
    }

    fn config(folder: &Path) -> PathBuf {
        // Asking for a token makes the issuer.
        data(&pilothouse().arg("token").arg("--issuer-dir").arg(Self::issuer(folder)).output().unwrap());
        let keys = Self::issuer(folder).join("keys.json");
        let jwt = format!(
            "issuer = \"https://issuer.pilothouse.test/local\"\naudience = \"https://pilothouse.test\"\nkeys_file = {:?}\n",
            keys.to_str().unwrap()
        );
        let text = format!(
            "store = {:?}\n[clusters_service]\nurl = \"http://127.0.0.1:1\"\n[metrics]\naddress = \"127.0.0.1:0\"\n\
             [service]\nlocation = \"here\"\nlistener = {{ address = \"127.0.0.1:0\" }}\n\
             [service.audit]\nfile = {:?}\n\
             [service.access.jwt]\n{jwt}\
             [service.access.arm]\napp_ids = [\"00000000-0000-0000-0000-0000000000a1\"]\n\
             [service.admin]\nlistener = {{ address = \"127.0.0.1:0\" }}\n\
             [service.admin.access.jwt]\n{jwt}\
             [service.admin.access.administrators]\napp_ids = [\"00000000-0000-0000-0000-0000000000ad\"]\n",
            folder.join("rp.db").to_str().unwrap(),
            folder.join("audit.log").to_str().unwrap(),
        );
        let path = folder.join("frontend.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = Self::config(folder.path());
        let mut child = pilothouse()
            .args(["frontend", "--log", "info", "--log-format", "json", "--config"])
            .arg(config)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut addresses = BTreeMap::new();
        while addresses.len() < 3 {
            let line = lines.next().expect("it listens before it ends").unwrap();
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if event["message"] == "listening" {
                let text = |name: &str| event[name].as_str().unwrap().to_owned();
                addresses.insert(text("listener"), format!("http://{}", text("address")));
            }
        }
        // Somebody has to read on, or it would wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Self { folder, child, addresses }
    }

    fn at(&self, listener: &str) -> &str {
        &self.addresses[listener]
    }

    fn token(&self, arguments: &[&str]) -> String {
        let mut command = pilothouse();
        command.arg("token").args(arguments).arg("--issuer-dir").arg(Self::issuer(self.folder.path()));
        data(&command.output().unwrap()).trim().to_owned()
    }

    /// Status and body, as curl sees them.
    fn curl(&self, token: Option<&str>, arguments: &[&str]) -> (u16, String) {
        let mut command = Command::new("curl");
        command.args(["-s", "-w", "\n%{http_code}"]).args(arguments);
        if let Some(token) = token {
            command.args(["-H", &format!("Authorization: Bearer {token}")]);
        }
        let text = data(&command.output().unwrap());
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), body.to_owned())
    }

    fn stop(&mut self) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Frontend {
    fn drop(&mut self) {
        // Only after a failed assertion; otherwise it has ended.
        let _ = self.child.kill();
    }
}

#[test]
fn a_frontend_runs_alone_and_lets_those_in_who_have_a_token() {
    if CURL.find().is_none() {
        return;
    }
    let mut frontend = Frontend::start();
    let public = frontend.at("the frontend's public listener");
    let subscription = format!("{public}/subscriptions/{SUBSCRIPTION}?api-version=2.0");
    let list = format!(
        "{public}/subscriptions/{SUBSCRIPTION}/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters?api-version=2026-10-01"
    );
    let registered =
        json!({"state": "Registered", "registrationDate": "now", "properties": {"tenantId": TENANT}});
    let put =
        ["-X", "PUT", "-H", "Content-Type: application/json", "-d", &registered.to_string(), &subscription];
    let user = frontend.token(&["--name", "ada", "--tenant", TENANT]);
    let arm = frontend.token(&["--role", "arm"]);
    let foreigner = frontend.token(&["--name", "eve", "--lifetime", "5m"]);
    assert_eq!(frontend.curl(None, &[&list]).0, 401);
    assert_eq!(frontend.curl(Some(&user), &put).0, 403, "only ARM tells of subscriptions");
    assert_eq!(frontend.curl(Some(&arm), &put).0, 200);
    assert_eq!(frontend.curl(Some(&user), &[&list]), (200, r#"{"value":[]}"#.to_owned()));
    assert_eq!(frontend.curl(Some(&foreigner), &[&list]).0, 403);
    assert_eq!(frontend.curl(None, &[&format!("{public}/healthz")]).0, 200);
    assert_eq!(frontend.curl(None, &[&format!("{}/livez", frontend.at("the metrics' listener"))]).0, 200);
    let (_, metrics) = frontend.curl(None, &[&format!("{}/metrics", frontend.at("the metrics' listener"))]);
    assert!(metrics.contains("frontend_audit_records_total 5"), "{metrics}");

    // The administrators' surface has credentials of its own, and the commands find their way with a token in a file.
    let admin = frontend.at("the frontend's admin listener");
    let token_file = frontend.folder.path().join("token");
    let operations = |token: &str, arguments: &[&str]| {
        std::fs::write(&token_file, token).unwrap();
        let mut command = pilothouse();
        command
            .arg("operations")
            .args(arguments)
            .args(["--endpoint", admin, "--token-file"])
            .arg(&token_file);
        command.output().unwrap()
    };
    let administrator = frontend.token(&["--role", "administrator", "--name", "root"]);
    let table = data(&operations(&administrator, &["list", "--active"]));
    assert_eq!(table.split_whitespace().next(), Some("SUBSCRIPTION"), "{table}");
    let json = data(&operations(&administrator, &["list", "--output", "json"]));
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), json!({"operations": []}));
    let refused = operations(&user, &["list"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(told(&refused).contains("'ada' is not an administrator"), "{}", told(&refused));
    assert!(told(&refused).contains("hint: `--token-file FILE`"), "{}", told(&refused));
    let unknown = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa";
    let refused = operations(&administrator, &["cancel", SUBSCRIPTION, unknown, "--reason", "r"]);
    assert!(told(&refused).contains("was not found"), "{}", told(&refused));

    // Records are written behind the answers, and all of them before it ends.
    frontend.stop();
    let audit = std::fs::read_to_string(frontend.folder.path().join("audit.log")).unwrap();
    assert!(audit.lines().count() >= 9 && !audit.contains(&user), "{audit}");
}

#[test]
fn a_configuration_is_shown_and_its_mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = Frontend::config(folder.path());
    let frontend = |path: &Path, arguments: &[&str]| {
        pilothouse().args(["frontend", "--config"]).arg(path).args(arguments).output().unwrap()
    };
    let dump = data(&frontend(&config, &["--dump-config"]));
    assert!(dump.contains("clock_skew = \"1m\"") && dump.contains("page_size = 20"), "{dump}");
    let again = folder.path().join("again.toml");
    std::fs::write(&again, &dump).unwrap();
    assert_eq!(data(&frontend(&again, &["--dump-config"])), dump, "what is shown can be read");

    let text = std::fs::read_to_string(&config).unwrap();
    let with = |from: &str, to: &str| {
        let path = folder.path().join("wrong.toml");
        std::fs::write(&path, text.replace(from, to)).unwrap();
        let output = frontend(&path, &[]);
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        told(&output)
    };
    let said = with("location = ", "loction = ");
    assert!(
        said.contains("unknown key `service.loction`") && said.contains("did you mean `service.location`?"),
        "{said}"
    );
    let said =
        with("address = \"127.0.0.1:0\" }\n[service.audit]", "address = \"0.0.0.0:0\" }\n[service.audit]");
    assert!(said.contains("may not listen on 0.0.0.0:0"), "{said}");
    let said = with("keys_file", "keys_url = \"http://issuer.test\"\nallowed_app_ids = []\n#");
    assert!(said.contains("must begin with `https`"), "{said}");
    let store = text.lines().next().unwrap();
    let said = with(store, "store = \"postgres://ada:hunter2@db/region\"");
    assert!(said.contains("store_password_file") && !said.contains("hunter2"), "{said}");
}

#[test]
fn a_backend_needs_to_know_its_store_and_clusters_service() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backend.toml");
    let backend = |text: &str, arguments: &[&str]| {
        std::fs::write(&path, text).unwrap();
        pilothouse().args(["backend", "--config"]).arg(&path).args(arguments).output().unwrap()
    };
    let output = backend("store = \"rp.db\"\n", &[]);
    assert!(told(&output).contains("`clusters_service` is not set"), "{}", told(&output));
    let good = "store = \"rp.db\"\n[clusters_service]\nurl = \"http://127.0.0.1:8001\"\n";
    let dump = data(&backend(good, &["--dump-config"]));
    assert!(dump.contains("[service.deadlines]"), "{dump}");
}

#[test]
fn commands_without_a_region_say_how_to_get_one() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["operations", "list"][..], &["hold", "/subscriptions/s", "--reason", "r"]] {
        let output = pilothouse().args(arguments).arg("--data-dir").arg(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(told(&output).contains("no region runs here"), "{}", told(&output));
        assert!(told(&output).contains("`pilothouse up` starts a region"), "{}", told(&output));
    }
    assert!(!folder.path().join("issuer").exists(), "looking for an issuer does not make one");
}
