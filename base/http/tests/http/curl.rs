//! `curl` as a client we did not write.

use axum::Router;
use axum::routing::get;
use pilothouse_http::{AllowedCallers, Exposure, Limits};
use pilothouse_test_support::requirement::Requirement;
use tokio::process::Command;

use crate::support::{Certificates, Running};

#[tokio::test]
async fn curl_speaks_mutual_tls_and_http_2() {
    let Some(program) = Requirement::new("curl", "curl").find() else { return };
    let certificates = Certificates::new();
    let exposure = Exposure::Callers(AllowedCallers::new(["ada"]));
    let app = Router::new().route("/", get(async || "hello"));
    let running = Running::with(app, &certificates.config(true, exposure), Limits::default()).await;
    certificates.bundle().write(&certificates.path("ca.crt")).unwrap();
    let curl = async |name: &str| {
        let (certificate, key) = (certificates.path("curl.crt"), certificates.path("curl.key"));
        certificates.client(name).write(&certificate, &key).unwrap();
        let output = Command::new(&program)
            .args(["--silent", "--show-error", "--max-time", "20", "--noproxy", "*"])
            .args(["--write-out", " %{http_code} %{http_version}"])
            .arg("--cacert")
            .arg(certificates.path("ca.crt"))
            .arg("--cert")
            .arg(certificate)
            .arg("--key")
            .arg(key)
            .arg(format!("https://127.0.0.1:{}/", running.address.port()))
            .output()
            .await
            .unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    assert_eq!(curl("ada").await, "hello 200 2");
    let refused = curl("eve").await;
    assert!(
        refused.contains("`eve` is not among the allowed callers") && refused.ends_with(" 403 2"),
        "{refused}"
    );
    running.stopped().await;
}
