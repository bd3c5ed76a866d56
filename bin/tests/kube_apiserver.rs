//! `pilothouse kube-apiserver`, as somebody with kubectl meets it.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_test_support::eventually;
use pilothouse_test_support::requirement::Requirement;

const KUBECTL: Requirement = Requirement::new("kubectl", "kubernetes-client");
const PATIENCE: Duration = Duration::from_secs(60);

struct Server {
    child: Child,
    url: String,
    kubeconfig: PathBuf,
}

impl Server {
    /// Starts one on a free port, and reads where it is.
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(cargo_bin!("pilothouse"))
            .args(["kube-apiserver", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder)
            .args(arguments)
            .env_remove("PILOTHOUSE_LOG")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let rows: Vec<String> = lines.take(4).map(Result::unwrap).collect();
        let place = |what: &str| {
            let row = rows.iter().find_map(|row| row.strip_prefix(what));
            row.unwrap_or_else(|| panic!("no {what} in {rows:?}")).trim().to_owned()
        };
        Self { url: place("server"), kubeconfig: place("kubeconfig").into(), child }
    }

    fn kubectl(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new("kubectl");
        command
            .env_clear()
            .env("HOME", self.home())
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    /// Where kubectl may keep what it has discovered.
    fn home(&self) -> &Path {
        self.kubeconfig.parent().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let (done, text) = self.kubectl(arguments);
        assert!(done, "{arguments:?}: {text}");
        text
    }

    /// Its administrator, at another server's door.
    fn kubectl_at(&self, other: &Self, arguments: &[&str]) -> (bool, String) {
        let authority = other.kubeconfig.with_file_name("pki").join("authority.crt");
        let door = ["--server", &other.url, "--certificate-authority", authority.to_str().unwrap()];
        self.kubectl(&[&door[..], arguments].concat())
    }

    fn stop(mut self) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Only after a failed assertion; otherwise it has ended.
        let _ = self.child.kill();
    }
}

#[tokio::test]
async fn a_deployment_has_its_pods_and_is_there_again_after_a_stop() {
    if KUBECTL.find().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.done(&["create", "deployment", "web", "--image", "web", "--replicas", "2"]);
    eventually("the deployment has its pods", PATIENCE, || async {
        let pods = server.done(&["get", "pods", "-l", "app=web", "-o", "name"]);
        if pods.lines().count() == 2 { Ok(()) } else { Err(pods) }
    })
    .await;
    server.stop();

    // Without controllers nobody makes what is missing.
    let server = Server::start(folder.path(), &["--with-controllers=false"]);
    server.done(&["get", "deployment", "web"]);
    server.done(&["create", "deployment", "alone", "--image", "web"]);
    server.done(&["delete", "pods", "-l", "app=web", "--force", "--grace-period=0"]);
    assert_eq!(server.done(&["get", "replicasets", "-l", "app=alone", "-o", "name"]), "");
    assert_eq!(server.done(&["get", "pods", "-o", "name"]), "");
    server.stop();
}

#[tokio::test]
async fn claims_get_volumes_in_the_folder_that_nodes_have_for_them() {
    if KUBECTL.find().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let volumes = folder.path().join("volumes");
    let server = Server::start(folder.path(), &["--volume-root", volumes.to_str().unwrap()]);
    let claim = folder.path().join("claim.yaml");
    let manifest = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n\
                    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";
    std::fs::write(&claim, manifest).unwrap();
    server.done(&["apply", "-f", claim.to_str().unwrap()]);
    eventually("the claim is bound", PATIENCE, || async {
        let phase = server.done(&["get", "pvc", "data", "-o", "jsonpath={.status.phase}"]);
        if phase == "Bound" { Ok(()) } else { Err(phase) }
    })
    .await;
    let path = server.done(&["get", "pv", "-o", "jsonpath={.items[*].spec.hostPath.path}"]);
    assert!(Path::new(&path).starts_with(&volumes), "{path}");
    // The folder is the node's: whoever serves the API does not make it.
    assert!(!volumes.exists());
    server.stop();
}

#[test]
fn tokens_of_a_file_and_certificates_of_another_authority_are_believed() {
    if KUBECTL.find().is_none() {
        return;
    }
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "letmein,ada,1,\"system:masters\"\nonlylook,bob,2\n").unwrap();
    // Whose administrator this is does not matter: his authority is what is believed.
    let stranger = Server::start(other.path(), &["--with-controllers=false"]);
    let authority = other.path().join("pki/authority.crt");
    let arguments = [
        "--with-controllers=false",
        "--token-auth-file",
        tokens.to_str().unwrap(),
        "--client-ca-file",
        authority.to_str().unwrap(),
    ];
    let server = Server::start(folder.path(), &arguments);

    let with_token = |token: &str, arguments: &[&str]| {
        let authority = folder.path().join("pki/authority.crt");
        let mut command = Command::new("kubectl");
        command.env_clear().env("HOME", server.home()).args([
            "--kubeconfig",
            "/dev/null",
            "--server",
            &server.url,
            "--token",
            token,
        ]);
        let output = command.arg("--certificate-authority").arg(authority).args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    let (done, text) = with_token("letmein", &["auth", "can-i", "*", "*"]);
    assert!(done && text.contains("yes"), "{text}");
    let (done, text) = with_token("onlylook", &["get", "secrets"]);
    assert!(!done && text.contains("User \"bob\" cannot list resource \"secrets\""), "{text}");
    let (done, text) = with_token("wrong", &["get", "secrets"]);
    assert!(!done && text.contains("Unauthorized"), "{text}");

    let (done, text) = stranger.kubectl_at(&server, &["get", "namespaces"]);
    assert!(done && text.contains("default"), "{text}");
    stranger.stop();
    server.stop();
}

#[test]
fn what_is_wrong_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "letmein,ada\n").unwrap();
    let told = |arguments: &[&str], code: i32| {
        let mut command = Command::new(cargo_bin!("pilothouse"));
        command.args(["kube-apiserver", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path());
        let output = command.args(arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        text
    };
    let text = told(&["--token-auth-file", tokens.to_str().unwrap()], 1);
    assert!(text.contains("line 1 of the token file") && !text.contains("letmein"), "{text}");
    let issuers = folder.path().join("issuers.yaml");
    std::fs::write(&issuers, "apiVersion: v1\nkind: AuthenticationConfiguration\n").unwrap();
    let text = told(&["--authentication-config", issuers.to_str().unwrap()], 1);
    assert!(text.contains("apiVersion: `v1` is not known"), "{text}");
    let text = told(&["--store", "postgres://ada:hunter2@db/region"], 1);
    assert!(text.contains("--store-password-file") && !text.contains("hunter2"), "{text}");
    let text = told(&["--tls-cert-file", "tls.crt"], 2);
    assert!(text.contains("--tls-private-key-file"), "{text}");
    let text = told(&["--kubernetes-version", "2.0"], 1);
    assert!(text.contains("use one such as"), "{text}");
}
