//! A node that an administrator starts by itself: what leads to its API server is lost, and in the end it is taken away.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::management::Management;

/// The processes that were started with these words, and have this path among them.
fn processes(word: &str, path: &Path) -> Vec<Pid> {
    let of = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let command = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let mut words = command.split('\0');
        let concerned =
            words.clone().any(|one| one == word) && words.any(|one| Path::new(one).starts_with(path));
        concerned.then(|| Pid::from_raw(pid))
    };
    fs::read_dir("/proc").unwrap().filter_map(|entry| of(entry.unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_outlives_its_way_to_the_server_and_goes_when_told() {
    let Some(mut management) = Management::ours().await else { return };
    let steady = ["run", "steady", "--image=busybox", "--restart=Never", "--", "sleep", "infinity"];
    management.kubectl(&steady).unwrap();
    management.kubectl(&["wait", "pod/steady", "--for=condition=Ready", "--timeout=100s"]).unwrap();
    let status = ".status.containerStatuses[0]";
    let form = ["containerID", "restartCount", "state.running.startedAt"];
    let form = form.map(|field| format!("{{{status}.{field}}}")).join(" ");
    let form = format!("jsonpath={form}");
    let identity = |management: &Management| management.kubectl(&["get", "pod/steady", "-o", &form]).unwrap();
    let before = identity(&management);

    let root = management.root();
    let relays = processes("node-relay", &root);
    assert_eq!(relays.len(), 1, "{relays:?}");
    kill(relays[0], Signal::SIGKILL).unwrap();
    let (status, said) = management.ended("kubelet");
    assert!(!status.success(), "{status}");
    assert!(said.contains("the way to the API server has ended"), "{said}");
    management.start("kubelet");
    let later = ["run", "later", "--image=busybox", "--restart=Never", "--", "true"];
    management.kubectl(&later).unwrap();
    let done = ["wait", "pod/later", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=100s"];
    management.kubectl(&done).unwrap();
    assert_eq!(identity(&management), before, "the pod noticed nothing");

    let remove = ["kubelet", "--root", root.to_str().unwrap(), "--remove"];
    let refused = management.pilothouse(&remove).unwrap_err();
    assert!(refused.contains("another kubelet runs on"), "{refused}");
    assert_eq!(identity(&management), before);
    management.kill("kubelet");
    let said = management.pilothouse(&remove).unwrap();
    assert!(said.contains("with 1 running pod"), "{said}");
    assert!(!root.join("pods").exists());
    for word in ["node-relay", "node-anchor", "shim"] {
        assert!(processes(word, &root).is_empty(), "{word}");
    }
    // It can be said twice.
    management.pilothouse(&remove).unwrap();
    management.stop().await;
}
