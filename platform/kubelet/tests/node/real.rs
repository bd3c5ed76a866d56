//! A real kube-apiserver, which reaches the node as ours does: through its socket.

use std::net::SocketAddr;
use std::path::Path;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use pilothouse_runtime::{OnExit, Tasks};
use pilothouse_test_support::upstream::{Cluster, Setup, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use crate::support::{Certificates, ToNodes, connect};

/// Starts etcd and the server, with a way to the nodes. They are asked by an `admin` when they are ready.
pub(crate) async fn start(
    upstream: &Upstream,
    certificates: &Certificates,
    folder: &Path,
    tasks: &Tasks,
    nodes: ToNodes,
    with_service_accounts: bool,
) -> Cluster {
    let path = |name: &str| folder.join(name);
    let listener = UnixListener::bind(path("egress.sock")).unwrap();
    let relaying = tasks.clone();
    tasks.spawn("egress", OnExit::StopProcess, async move {
        loop {
            let (stream, _) = listener.accept().await?;
            let nodes = nodes.clone();
            relaying.spawn("relay", OnExit::Expendable, async move { Ok(relay(stream, &nodes).await?) });
        }
    });
    let egress = format!(
        "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n\
         - {{name: cluster, connection: {{proxyProtocol: HTTPConnect, transport: {{uds: {{udsName: {}}}}}}}}}\n",
        path("egress.sock").display()
    );
    std::fs::write(path("egress.yaml"), egress).unwrap();

    let identity = certificates.client("kube-apiserver-kubelet-client", &[]);
    identity.write(&path("to-kubelet.crt"), &path("to-kubelet.key")).unwrap();
    let setup = Setup {
        folder: folder.to_owned(),
        certificate: path("apiserver.crt"),
        key: path("apiserver.key"),
        client_authorities: path("ca.crt"),
        arguments: Vec::new(),
    };
    let mut setup = setup
        .with("--kubelet-preferred-address-types", "InternalIP")
        .with("--kubelet-certificate-authority", path("ca.crt"))
        .with("--kubelet-client-certificate", path("to-kubelet.crt"))
        .with("--kubelet-client-key", path("to-kubelet.key"))
        .with("--egress-selector-config-file", path("egress.yaml"));
    setup.arguments.push("--enable-bootstrap-token-auth".into());
    if !with_service_accounts {
        // Nobody makes them.
        setup = setup.with("--disable-admission-plugins", "ServiceAccount");
    }
    let admin = certificates.client("admin", &["system:masters"]);
    Cluster::start(upstream, setup, |address| {
        let kubeconfig = certificates.kubeconfig(&admin, &format!("https://{address}"), None);
        async move {
            let namespaces: Api<Namespace> = Api::all(connect(&kubeconfig).await);
            namespaces.get("default").await.map(drop).map_err(|error| error.to_string())
        }
    })
    .await
}

/// Starts those parts of a real controller manager that answer nodes which ask for certificates.
pub(crate) fn signers(servers: &mut Cluster, certificates: &Certificates, folder: &Path) {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (path("ca.crt"), path("ca.key"));
    certificates.authority().identity().write(Path::new(&certificate), Path::new(&key)).unwrap();
    let arguments = [
        ["--controllers", "certificatesigningrequest-approving-controller"],
        ["--controllers", "certificatesigningrequest-signing-controller"],
        ["--cluster-signing-cert-file", &certificate],
        ["--cluster-signing-key-file", &key],
    ];
    servers.start_controller_manager(Path::new(&path("admin.kubeconfig")), arguments.as_flattened());
}

/// One connection for the server, which says where to.
async fn relay(mut near: UnixStream, nodes: &ToNodes) -> std::io::Result<()> {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        asked.push(near.read_u8().await?);
    }
    let asked = String::from_utf8_lossy(&asked);
    let address = asked.split_whitespace().nth(1).and_then(|address| address.parse().ok());
    let address: SocketAddr = address.ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut far = nodes.connect(address).await?;
    near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    tokio::io::copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}
