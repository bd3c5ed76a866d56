//! `pilothouse kubeconfig` of a region on other machines: Clusters Service lets in whom it knows by a certificate.

use std::fs;
use std::path::PathBuf;

use pilothouse_pki::{Authority, AuthorityRequest, LeafRequest, Subject};
use pilothouse_runtime::Clock;

use crate::first_light::cluster_body;
use crate::region::Region;
use crate::spread::Spread;

/// Whoever asks for a kubeconfig from outside.
struct Caller<'a> {
    spread: &'a Spread,
    etc: PathBuf,
}

impl Caller<'_> {
    /// What is asked for by somebody with this certificate, or with none.
    fn kubeconfig(&self, cluster: &str, certificate: Option<&str>) -> Result<String, String> {
        let file = |name: String| self.etc.join(name).to_str().unwrap().to_owned();
        let (address, authorities) =
            (&self.spread.provider.clusters_service, file("authority.crt".to_owned()));
        let mut arguments =
            vec!["kubeconfig", cluster, "--clusters-service", address, "--authorities", &authorities];
        let files = certificate.map(|name| ["crt", "key"].map(|kind| file(format!("{name}.{kind}"))));
        if let Some([certificate, key]) = &files {
            arguments.extend(["--certificate", certificate, "--key", key]);
        }
        self.spread.management.pilothouse(&arguments)
    }

    /// A certificate of that name by an authority that nobody knows.
    fn certify_elsewhere(&self, name: &str, file: &str) {
        let clock = Clock::system();
        let request = AuthorityRequest::new(Subject::try_new("another region").unwrap());
        let authority = Authority::self_signed(&request, &clock).unwrap();
        let leaf = authority.issue(&LeafRequest::client(Subject::try_new(name).unwrap()), &clock).unwrap();
        let [certificate, key] = ["crt", "key"].map(|kind| self.etc.join(format!("{file}.{kind}")));
        leaf.write(&certificate, &key).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_known_gets_a_kubeconfig_that_works_and_others_are_told_why_not() {
    let Some(spread) = Spread::start().await else { return };
    let first = Region::cluster_id("first");
    let (status, answer) = spread.provider.arm("PUT", &first, Some(&cluster_body()));
    assert_eq!(status, 201, "{answer}");
    spread.provider.reaches(&first, "Succeeded").await;
    let caller = Caller { spread: &spread, etc: spread.management.path("etc") };

    let kubeconfig = caller.kubeconfig("first", Some("backend")).unwrap();
    let file = spread.management.path("first-from-elsewhere.kubeconfig");
    fs::write(&file, &kubeconfig).unwrap();
    let who = spread.management.kubectl_on(&file, &["auth", "whoami"]).unwrap();
    assert!(who.contains("system:customer-break-glass:system-admin"), "{who}");
    let allowed = spread.management.kubectl_on(&file, &["auth", "can-i", "*", "*"]).unwrap();
    assert_eq!(allowed.trim(), "yes");
    let again = caller.kubeconfig("first", Some("frontend")).unwrap();
    assert_eq!(again, kubeconfig, "one that is good for a while is given out again");

    let unknown = caller.kubeconfig("second", Some("backend")).unwrap_err();
    assert!(unknown.contains("there is no cluster `second`; there are: first"), "{unknown}");
    // Each is told what it is, and what to do about it.
    let stranger = caller.kubeconfig("first", Some("cloud")).unwrap_err();
    assert!(stranger.contains("`cloud` is not among the allowed callers of Clusters Service"), "{stranger}");
    assert!(stranger.contains("hint: `--certificate` has to be of one of its `callers`"), "{stranger}");
    assert!(!stranger.contains("unreadable"), "{stranger}");
    // Whether it hears why it is turned away, or just that it is, depends on whose message comes first. What to do is told anyway.
    let nobody = caller.kubeconfig("first", None).unwrap_err();
    assert!(nobody.contains("Clusters Service could not be asked"), "{nobody}");
    assert!(nobody.contains("hint: it was shown no certificate"), "{nobody}");
    caller.certify_elsewhere("backend", "impostor");
    let impostor = caller.kubeconfig("first", Some("impostor")).unwrap_err();
    assert!(impostor.contains("hint: see that `--clusters-service` is where it listens"), "{impostor}");

    let (status, answer) = spread.provider.arm("DELETE", &first, None);
    assert_eq!(status, 202, "{answer}");
    spread.provider.is_gone(&first).await;
    spread.management.stop().await;
}
