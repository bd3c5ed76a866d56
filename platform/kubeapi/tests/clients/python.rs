//! The Python client. What it does, and what has to come of it, is in `tests/python/kubernetes_client.py`.

use std::path::Path;
use std::process::Output;

use pilothouse_kubeapi::testing::{Cluster, Options};
use pilothouse_store::Location;
use pilothouse_test_support::python::Python;

/// The folder of all programs in Python.
fn programs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_client_lists_watches_resumes_and_discovers() {
    let Some(python) = Python::find("kubernetes", &programs()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("objects.db").to_str().unwrap().to_owned();
    let start = || Cluster::start(Options { store: Location::sqlite(file.clone()), ..Options::default() });
    // What came before is forgotten by the store, and a new server has nothing in memory.
    let former = start().await.unwrap();
    // It answers when it has made what every cluster has.
    former.admin().await.unwrap().apiserver_version().await.unwrap();
    former.store().compact(former.store().revision().await.unwrap()).await.unwrap();
    former.stop().await.unwrap();
    let cluster = start().await.unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, cluster.kubeconfig("ada", &["system:masters"]).unwrap()).unwrap();
    let run = tokio::task::spawn_blocking(move || {
        python.program("kubernetes_client.py").arg(kubeconfig).output().unwrap()
    });
    let Output { status, stdout, stderr } = run.await.unwrap();
    let said = format!("{}\n{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{said}");
    assert!(said.contains("12 checks"), "{said}");
    cluster.stop().await.unwrap();
}
