//! `kubectl exec`, `cp`, `attach` and `port-forward`, with the real kubectl.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::pty::{Winsize, openpty};
use pilothouse_test_support::process::Running;
use pilothouse_test_support::upstream::Upstream;
use serde_json::json;

use crate::kubectl::{Kubectl, Speaks};
use crate::support::{Cluster, NODE, processes_with, program, run, shell, until};

pub(crate) fn programs_in_pods_are_visited() {
    run(async {
        let Some(upstream) = Upstream::find() else { return };
        let cluster = Cluster::start().await;
        visit(&cluster, &upstream, Speaks::WebSockets).await;
        visit(&cluster, &upstream, Speaks::Spdy).await;
    });
}

pub(crate) fn programs_in_pods_are_visited_through_a_real_server() {
    run(async {
        let Some(upstream) = Upstream::find() else { return };
        let cluster = Cluster::start_on(Some(&upstream), |_| {}).await;
        visit(&cluster, &upstream, Speaks::WebSockets).await;
    });
}

async fn visit(cluster: &Cluster, upstream: &Upstream, speaks: Speaks) {
    let folder = cluster.folder.path();
    let kubectl = Kubectl {
        program: upstream.program("kubectl"),
        kubeconfig: folder.join("admin.kubeconfig"),
        home: folder.join("home"),
        speaks,
    };
    let mut main = program(&["serve", "8080", "hello"]);
    main["env"] = json!([{"name": "GREETING", "value": "good morning"}]);
    main["workingDir"] = json!("/var/tmp");
    let mut other = shell("exit 0");
    other["name"] = json!("other");
    cluster.create("web", json!({"restartPolicy": "Never", "containers": [main, other]})).await;
    cluster.until_phase("web", "Running").await;
    programs_run(&kubectl).await;
    a_terminal_has_a_size(&kubectl).await;
    who_leaves_takes_the_program_along(&kubectl).await;
    files_are_copied(&kubectl).await;
    ports_are_forwarded(&kubectl).await;
    what_pods_serve_is_proxied(&kubectl).await;
    cluster.delete("web").await;
    input_reaches_the_container(cluster, &kubectl).await;
}

async fn programs_run(kubectl: &Kubectl) {
    let exec = |rest: &[&'static str]| [&["exec", "web", "-c", "main"], rest].concat();
    let ends = exec(&["--", "sh", "-c", "echo out; echo err >&2; exit 3"]);
    let output = kubectl.run(&ends, "").await;
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("err\n") && said.contains("command terminated with exit code 3"), "{said}");
    let killed = exec(&["--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(kubectl.run(&killed, "").await.status.code(), Some(137));

    let inside = exec(&["--", "sh", "-c", "echo $GREETING; pwd; test -d /proc/1 && hostname"]);
    assert_eq!(kubectl.printed(&inside, "").await, "good morning\n/var/tmp\nweb\n");
    let long = "0123456789abcdef".repeat(100_000);
    assert_eq!(kubectl.printed(&exec(&["-i", "--", "cat"]), &long).await, long);
    // Without its input a program sees the end of it at once.
    assert_eq!(kubectl.printed(&exec(&["--", "cat"]), "ignored").await, "");

    let missing = kubectl.run(&exec(&["--", "no-such-program"]), "").await;
    let said = String::from_utf8_lossy(&missing.stderr);
    assert!(said.contains("exec: \"no-such-program\": executable file not found in $PATH"), "{said}");
    assert!(said.contains("Internal error occurred: error executing command in container"), "{said}");
    assert!(!missing.status.success());
    let ended = kubectl.run(&["exec", "web", "-c", "other", "--", "true"], "").await;
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("container not found (\"other\")"), "{said}");
    let unknown = kubectl.run(&["exec", "web", "-c", "third", "--", "true"], "").await;
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(
        said.contains("container third is not valid for pod web")
            || said.contains("container third not found"),
        "{said}"
    );
}

/// In front of a real terminal.
async fn a_terminal_has_a_size(kubectl: &Kubectl) {
    let size = Winsize { ws_row: 37, ws_col: 91, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(&size, None).unwrap();
    // The size arrives a moment after the program has begun.
    let line = "tty; while test \"$(stty size)\" != '37 91'; do sleep 0.1; done; echo $TERM resized; exit 5";
    let mut command = kubectl.command(&["exec", "-it", "web", "-c", "main", "--", "sh", "-c", line]);
    let end = || Stdio::from(terminal.slave.as_fd().try_clone_to_owned().unwrap());
    command.stdin(end()).stdout(end()).stderr(end());
    let mut child = command.spawn().unwrap();
    drop((command, terminal.slave));
    let watching = tokio::task::spawn_blocking(move || {
        let (mut seen, mut screen) = (Vec::new(), File::from(terminal.master));
        // The end of a terminal is an error.
        let _ = screen.read_to_end(&mut seen);
        (String::from_utf8_lossy(&seen).into_owned(), child.wait().unwrap())
    });
    let (seen, ended) = watching.await.unwrap();
    assert!(seen.contains("/dev/pts/0\r\n") && seen.contains("xterm resized\r\n"), "{seen:?}");
    assert_eq!(ended.code(), Some(5), "{seen:?}");
}

async fn who_leaves_takes_the_program_along(kubectl: &Kubectl) {
    // Nobody else's, not even the same test's on another server at the same time.
    static VISITS: AtomicUsize = AtomicUsize::new(0);
    let mark = format!("86{}.{}", std::process::id(), VISITS.fetch_add(1, Ordering::Relaxed));
    let client =
        Running::spawn(kubectl.command(&["exec", "web", "-c", "main", "--", "sleep", &mark])).unwrap();
    let inside = || {
        // The client itself carries the same words.
        let own = i32::try_from(client.id()).unwrap();
        let mut found = processes_with(&format!("sleep\0{mark}"));
        found.remove(&own);
        found
    };
    until(|| async { !inside().is_empty() }).await;
    let found = inside();
    client.kill();
    until(|| async { processes_with(&format!("sleep\0{mark}")).is_disjoint(&found) }).await;
}

async fn files_are_copied(kubectl: &Kubectl) {
    let here = kubectl.home.with_extension("copied");
    std::fs::create_dir_all(here.join("folder")).unwrap();
    std::fs::write(here.join("folder/a"), "first").unwrap();
    std::fs::write(here.join("folder/b"), "x".repeat(300_000)).unwrap();
    let text = |name: &str| here.join(name).to_str().unwrap().to_owned();
    kubectl.printed(&["cp", "-c", "main", &text("folder"), "web:/tmp/there"], "").await;
    let sizes = ["exec", "web", "-c", "main", "--", "sh", "-c", "cat /tmp/there/a; wc -c < /tmp/there/b"];
    assert_eq!(kubectl.printed(&sizes, "").await.split_whitespace().collect::<String>(), "first300000");
    kubectl.printed(&["cp", "-c", "main", "web:/tmp/there", &text("back")], "").await;
    assert_eq!(std::fs::read(here.join("back/b")).unwrap().len(), 300_000);
    assert_eq!(std::fs::read_to_string(here.join("back/a")).unwrap(), "first");
    std::fs::remove_dir_all(here).unwrap();
}

/// A port-forward, and where it listens.
async fn forward(kubectl: &Kubectl, port: &str) -> (Running, SocketAddr, std::process::ChildStderr) {
    let mut client = Running::spawn(kubectl.command(&["port-forward", "pod/web", port])).unwrap();
    let (mut stdout, stderr) = (client.child().stdout.take().unwrap(), client.child().stderr.take().unwrap());
    let reading = tokio::task::spawn_blocking(move || {
        let mut said = Vec::new();
        let mut byte = [0];
        while !said.ends_with(b"\n") && stdout.read(&mut byte).unwrap() == 1 {
            said.extend(byte);
        }
        // Its pipe stays open: it says something about every connection.
        (String::from_utf8(said).unwrap(), stdout)
    });
    let (said, stdout) = reading.await.unwrap();
    std::thread::spawn(move || std::io::copy(&mut { stdout }, &mut std::io::sink()));
    let address = said.split_whitespace().nth(2).and_then(|address| address.parse().ok());
    (client, address.unwrap_or_else(|| panic!("{said:?}")), stderr)
}

async fn ports_are_forwarded(kubectl: &Kubectl) {
    let (client, address, _stderr) = forward(kubectl, ":8080").await;
    let fetching = (0..8).map(|_| tokio::task::spawn_blocking(move || fetch(address)));
    for answer in futures::future::join_all(fetching).await {
        assert!(answer.unwrap().ends_with("hello"));
    }
    client.kill();
    let (client, address, mut stderr) = forward(kubectl, ":9").await;
    let (answer, said) = tokio::task::spawn_blocking(move || {
        let answer = fetch(address);
        client.kill();
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        (answer, said)
    })
    .await
    .unwrap();
    assert_eq!(answer, "");
    assert!(said.contains("error forwarding port 9 to pod") && said.contains("connection refused"), "{said}");
}

async fn what_pods_serve_is_proxied(kubectl: &Kubectl) {
    let raw = async |path: &str| kubectl.run(&["get", "--raw", path], "").await;
    let pod = raw("/api/v1/namespaces/default/pods/web:8080/proxy/any/where?x=1").await;
    assert_eq!(String::from_utf8_lossy(&pod.stdout), "hello", "{pod:?}");
    let node = raw(&format!("/api/v1/nodes/{NODE}/proxy/healthz")).await;
    assert_eq!(String::from_utf8_lossy(&node.stdout), "ok", "{node:?}");
    let nobody = raw("/api/v1/namespaces/default/services/nobody/proxy/").await;
    let said = String::from_utf8_lossy(&nobody.stderr);
    assert!(said.contains("services \"nobody\" not found"), "{said}");
}

fn fetch(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut answer = String::new();
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let _ = stream.read_to_string(&mut answer);
    answer
}

async fn input_reaches_the_container(cluster: &Cluster, kubectl: &Kubectl) {
    let mut main = shell("while read line; do echo got $line; done; exit 4");
    main["stdin"] = json!(true);
    main["stdinOnce"] = json!(true);
    cluster.create("listens", json!({"restartPolicy": "Never", "containers": [main]})).await;
    cluster.until_phase("listens", "Running").await;
    let seen = kubectl.printed(&["attach", "-i", "listens"], "one\ntwo\n").await;
    assert_eq!(seen, "got one\ngot two\n");
    cluster.until_phase("listens", "Failed").await;
    assert_eq!(kubectl.printed(&["logs", "listens"], "").await, "got one\ngot two\n");
    cluster.delete("listens").await;
}

/// A kubelet serves the API server, and of others it asks whether they may.
pub(crate) fn strangers_are_asked_about() {
    run(async {
        let cluster = Cluster::start().await;
        let node = SocketAddr::new("10.200.0.1".parse().unwrap(), 10250);
        let ask = async |user: &str, groups: &[&str]| {
            let stream = cluster.dialer().connect(node).await.unwrap();
            cluster.ask_node(stream, user, groups, "/containerLogs/default/web/main").await
        };
        // What the kubelet does not have is not found, by whoever may look.
        assert!(ask("kube-apiserver", &[]).await.starts_with("HTTP/1.1 404"));
        assert!(ask("somebody", &["system:masters"]).await.starts_with("HTTP/1.1 404"));
        let refused = ask("somebody", &["painters"]).await;
        assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
        assert!(
            refused.contains("Forbidden (user=somebody, verb=get, resource=nodes, subresource=proxy)"),
            "{refused}"
        );
    });
}
