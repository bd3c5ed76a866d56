//! `upstream install --download`, as somebody meets it whose network is bad: a host on the loopback that has other files.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;

/// What is served instead of a release.
const FILE: &[u8] = &[7; 4096];

/// A host that stops in the middle of its first answer, and notes what it is asked for.
struct Host {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Host {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut hanging = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let request: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
                let first = noted.lock().unwrap().is_empty();
                noted.lock().unwrap().push(request);
                if first {
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", FILE.len());
                    let _ = stream.write_all(&[head.as_bytes(), &FILE[..1000]].concat());
                    hanging.push(stream);
                } else {
                    let range = format!("bytes 1000-{}/{}", FILE.len() - 1, FILE.len());
                    let length = FILE.len() - 1000;
                    let head = format!(
                        "HTTP/1.1 206 Partial Content\r\ncontent-length: {length}\r\ncontent-range: {range}\r\n\r\n"
                    );
                    let _ = stream.write_all(&[head.as_bytes(), &FILE[1000..]].concat());
                }
            }
        });
        Self { address, asked }
    }
}

fn install(cache: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin!("pilothouse"));
    command.env("PATH", "/nonexistent").args(["upstream", "install", "--download", "--cache"]).arg(cache);
    command.args(arguments);
    command
}

fn told(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"");
    String::from_utf8(output.stderr).unwrap()
}

/// For a minute at most.
fn wait_until(mut holds: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    panic!("it did not come to be within a minute");
}

#[test]
fn whoever_is_killed_goes_on_and_what_is_not_the_release_is_not_taken() {
    let host = Host::start();
    let cache = tempfile::tempdir().unwrap();
    let from = ["--from", &format!("http://{}", host.address)];
    let fetched =
        cache.path().join("v1.34.1").join(format!("etcd-v3.6.4-linux-{}.tar.gz.fetched", machine()));
    let mut killed = install(cache.path(), &from).stderr(Stdio::null()).spawn().unwrap();
    wait_until(|| {
        assert!(killed.try_wait().unwrap().is_none(), "it waits for the other half");
        fs::metadata(&fetched).is_ok_and(|file| file.len() == 1000)
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(!cache.path().join("v1.34.1/etcd").exists(), "nothing is in its place by half");

    let said = told(&mut install(cache.path(), &from));
    assert!(said.contains("going on after 1 MiB") && said.contains("its SHA-256 is "), "{said}");
    assert!(said.contains("hint: without `--download` it is built with Go"), "{said}");
    assert!(!fetched.exists(), "what is not the release is not kept");
    let asked = host.asked.lock().unwrap();
    assert!(asked[1].iter().any(|line| line.eq_ignore_ascii_case("range: bytes=1000-")), "{asked:?}");
}

#[test]
fn what_cannot_be_downloaded_is_told_with_what_to_do() {
    let cache = tempfile::tempdir().unwrap();
    let said = told(&mut install(cache.path(), &["--version", "1.33", "--from", "http://127.0.0.1:9"]));
    assert!(said.contains("no checksum of Kubernetes v1.33.13") && said.contains("hint: without"), "{said}");
    let said = told(&mut install(cache.path(), &["--from", "http://mirror.example"]));
    assert!(said.contains("is no place to download from") && said.contains("hint: such as"), "{said}");
}

fn machine() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}
