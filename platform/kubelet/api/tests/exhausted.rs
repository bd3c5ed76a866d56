//! What happens when there are no descriptors left. By itself, for the limit is that of a whole process.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pilothouse_kubelet_api::{Acceptor, Dialer, Places};
use pilothouse_runtime::{OnExit, Shutdown, Tasks};

#[tokio::test]
async fn descriptors_that_run_out_stop_nobody_and_are_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node.sock");
    let shutdown = Shutdown::new();
    let tasks = Tasks::new("node", shutdown.clone());
    let acceptor = Acceptor::bind(&path).unwrap();
    let serving = tasks.clone();
    tasks.spawn(
        "socket",
        OnExit::StopProcess,
        async move { Ok(acceptor.serve(serving, Places::new()).await?) },
    );
    // In the queue, since nothing was awaited yet.
    let _queued = UnixStream::connect(&path).unwrap();
    let next = u64::try_from(File::open("/dev/null").unwrap().as_raw_fd()).unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, next, hard).unwrap();
    let stopped = tokio::time::timeout(Duration::from_millis(300), shutdown.requested()).await;
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    assert!(stopped.is_err(), "{:?}", shutdown.reason());

    let dialer = Dialer::new(path);
    let asked = dialer.connect("127.0.0.1:1".parse().unwrap());
    let error = tokio::time::timeout(Duration::from_secs(20), asked).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("not on offer"), "{error}");
}
