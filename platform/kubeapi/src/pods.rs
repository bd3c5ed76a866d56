//! What only pods have: they are bound to a node, evicted from it, and have logs there.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use pilothouse_http::CertificateSource;
use pilothouse_pki::{Bundle, Identity};
use rustls::client::WantsClientCert;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tracing::debug;

use crate::answer;
use crate::catalogue::Resource;
use crate::error::Error;
use crate::request::Parameters;
use crate::server::{Call, Server};
use crate::status::Failure;
use crate::storage::{Cache, WriteError};
use crate::strategy::{self, names};
use crate::verbs;

/// How the server reaches the kubelet of a node: directly, or into a network of the node's own.
pub trait NodeDialer: Send + Sync {
    /// Connects to an address of the node's network.
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;
}

/// How long a kubelet may take to begin an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
const KUBELET_PORT: u16 = 10250;
const DEFAULT_ACCOUNT: &str = "default";
/// How long a pod waits for the `default` account of its namespace.
const DEFAULT_ACCOUNT_PATIENCE: Duration = Duration::from_secs(5);

/// The way to the kubelets, and what they are shown.
pub(crate) struct Kubelets {
    nodes: Arc<dyn NodeDialer>,
    authorities: Bundle,
    tls: Arc<ClientConfig>,
}

impl Kubelets {
    pub(crate) fn new(
        nodes: Arc<dyn NodeDialer>,
        client: Option<Identity>,
        authorities: Bundle,
    ) -> Result<Self, Error> {
        let builder = trusting(&authorities)?;
        let tls = match client {
            Some(identity) => builder
                .with_client_auth_cert(identity.chain_der(), identity.key().to_der())
                .map_err(Error::KubeletClient)?,
            None => builder.with_no_client_auth(),
        };
        Ok(Self { nodes, authorities, tls: Arc::new(tls) })
    }

    /// The same, and kubelets are shown whatever this source has at that moment.
    pub(crate) fn showing(self, client: CertificateSource) -> Result<Self, Error> {
        let tls = trusting(&self.authorities)?.with_client_cert_resolver(Arc::new(client));
        Ok(Self { tls: Arc::new(tls), ..self })
    }

    /// A connection into a node's network.
    pub(crate) async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.nodes.dial(address).await
    }

    /// A connection to a node's kubelet, and what that is called.
    pub(crate) async fn open(&self, node: &Value) -> Result<(TlsStream<TcpStream>, String), Failure> {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let unreachable = |why: String| Failure::internal(format!("the kubelet of node \"{name}\": {why}"));
        let address = kubelet_address(node).ok_or_else(|| unreachable("it has no address".to_owned()))?;
        // By the node's name and not by its address: addresses of nodes in private networks repeat.
        let server_name = ServerName::try_from(name.to_owned())
            .unwrap_or_else(|_| ServerName::IpAddress(address.ip().into()));
        let connect = async {
            let stream = self.nodes.dial(address).await?;
            TlsConnector::from(Arc::clone(&self.tls)).connect(server_name, stream).await
        };
        let stream = tokio::time::timeout(PATIENCE, connect)
            .await
            .map_err(|_| unreachable("connecting took too long".to_owned()))?
            .map_err(|error| unreachable(error.to_string()))?;
        Ok((stream, name.to_owned()))
    }

    /// Asks a node's kubelet. The answer is passed on as it comes.
    pub(crate) async fn get(&self, node: &Value, path: &str) -> Result<Answered, Failure> {
        let (stream, name) = self.open(node).await?;
        let unreachable = |why: String| Failure::internal(format!("the kubelet of node \"{name}\": {why}"));
        let failed = |error: hyper::Error| unreachable(error.to_string());
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let mut connection: BoxFuture<'static, Result<(), hyper::Error>> = Box::pin(connection);
        let request = Request::get(path)
            .header(http::header::HOST, &name)
            .body(Empty::<Bytes>::new())
            .map_err(|error| unreachable(error.to_string()))?;
        let driven = async {
            tokio::select! {
                response = sender.send_request(request) => response.map_err(failed),
                ended = &mut connection => {
                    ended.map_err(failed)?;
                    Err(unreachable("it hung up".to_owned()))
                }
            }
        };
        let response = tokio::time::timeout(PATIENCE, driven)
            .await
            .map_err(|_| unreachable("no answer in time".to_owned()))??;
        let (parts, body) = response.into_parts();
        Ok(Answered { status: parts.status, headers: parts.headers, body, connection: Some(connection) })
    }
}

fn trusting(authorities: &Bundle) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.der().cloned());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::KubeletClient)?;
    Ok(builder.with_root_certificates(roots))
}

/// A kubelet's answer, and the connection that has to be driven for more of it to come.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    connection: Option<BoxFuture<'static, Result<(), hyper::Error>>>,
}

impl Answered {
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        loop {
            let Some(connection) = &mut self.connection else {
                let frame = self.body.frame().await?;
                return Some(frame.map(|frame| frame.into_data().unwrap_or_default()));
            };
            tokio::select! {
                biased;
                frame = self.body.frame() => {
                    return Some(frame?.map(|frame| frame.into_data().unwrap_or_default()));
                }
                _ = connection => self.connection = None,
            }
        }
    }
}

impl std::fmt::Debug for Kubelets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Kubelets").finish_non_exhaustive()
    }
}

fn kubelet_address(node: &Value) -> Option<SocketAddr> {
    let addresses = node["status"]["addresses"].as_array()?;
    let of = |kind: &str| {
        addresses
            .iter()
            .filter(|one| one["type"] == kind)
            .find_map(|one| one["address"].as_str()?.parse().ok())
    };
    let address: IpAddr = of("InternalIP").or_else(|| of("ExternalIP"))?;
    let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64();
    let port =
        port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0).unwrap_or(KUBELET_PORT);
    Some(SocketAddr::new(address, port))
}

/// `pods/log`: the kubelet's answer, passed through.
pub(crate) async fn log(call: &Call) -> Result<Response, Failure> {
    let pod = verbs::existing(call).await?.value;
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let container = match call.info.query.get("container") {
        Some(container) => container.to_owned(),
        None => only_container(&pod, name)?,
    };
    let Some(node_name) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) else {
        return Err(Failure::bad_request(format!("pod {name} does not have a host assigned")));
    };
    let nodes = call.server.built_in("", "nodes")?;
    let node = call.server.storage.get(&nodes, "", node_name).await?;
    let node = node.ok_or_else(|| Failure::not_found(&nodes, node_name))?.value;
    let path = format!("/containerLogs/{namespace}/{name}/{container}?{}", log_options(&call.info.query));
    let mut answered = call.server.kubelets.get(&node, &path).await?;
    let status = answered.status;
    if !status.is_success() {
        let mut text = Vec::new();
        while let Some(Ok(bytes)) = answered.next().await {
            text.extend_from_slice(&bytes);
        }
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        debug!(%status, text, "the kubelet refused to show a log");
        return Err(match status {
            StatusCode::NOT_FOUND => Failure::new(404, "NotFound", text),
            StatusCode::BAD_REQUEST => Failure::bad_request(text),
            _ => Failure::internal(text),
        });
    }
    let shutdown = call.server.shutdown.clone();
    let stream = futures::stream::unfold((answered, shutdown), |(mut answered, shutdown)| async move {
        tokio::select! {
            bytes = answered.next() => Some((bytes?, (answered, shutdown))),
            () = shutdown.requested() => None,
        }
    });
    Ok(answer::stream("text/plain; charset=utf-8", Body::from_stream(stream)))
}

fn log_options(query: &Parameters) -> String {
    let mut options = url::form_urlencoded::Serializer::new(String::new());
    for option in
        ["follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes", "stream"]
    {
        if let Some(value) = query.get(option) {
            options.append_pair(option, value);
        }
    }
    options.finish()
}

fn only_container(pod: &Value, name: &str) -> Result<String, Failure> {
    let names: Vec<_> = pod["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|container| container["name"].as_str())
        .collect();
    let annotated = pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"].as_str();
    match (annotated, names.as_slice()) {
        (Some(container), _) => Ok(container.to_owned()),
        (None, [only]) => Ok((*only).to_owned()),
        (None, several) => Err(Failure::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            several.join(" ")
        ))),
    }
}

/// Decides what a pod leaves open: how important it is, how long it stays on a node that went away, and who it is.
pub(crate) async fn admit(
    server: &Server,
    resource: &Resource,
    namespace: &str,
    pod: &mut Value,
) -> Result<(), Failure> {
    prioritize(server, resource, pod).await?;
    strategy::pod::tolerate_lost_nodes(&mut pod["spec"]);
    identify(server, resource, namespace, pod).await
}

/// The priority is that of the class a pod names, or of the default class.
async fn prioritize(server: &Server, resource: &Resource, pod: &mut Value) -> Result<(), Failure> {
    let named = pod["spec"]["priorityClassName"].as_str().filter(|name| !name.is_empty());
    let classes = server.built_in("scheduling.k8s.io", "priorityclasses")?;
    let class = match named {
        Some(name) => match server.storage.get(&classes, "", name).await? {
            Some(class) => Some(class.value),
            None => {
                let why = format!("no PriorityClass with name {name} was found");
                return Err(Failure::forbidden(resource, pod_name(pod), why));
            }
        },
        None => default_class(server.storage.cache()),
    };
    let value = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or_default();
    let policy = class.as_ref().and_then(|class| class["preemptionPolicy"].as_str());
    let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
    let computed = "priority admission controller computed";
    if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != value) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; {computed} {value} from the given PriorityClass name"
        );
        return Err(Failure::forbidden(resource, pod_name(pod), why));
    }
    if let Some(given) = pod["spec"]["preemptionPolicy"].as_str().filter(|given| *given != policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; {computed} {policy} from the given PriorityClass name"
        );
        return Err(Failure::forbidden(resource, pod_name(pod), why));
    }
    if let Some(class) = class {
        pod["spec"]["priorityClassName"] = class["metadata"]["name"].clone();
    }
    pod["spec"]["priority"] = json!(value);
    pod["spec"]["preemptionPolicy"] = json!(policy);
    Ok(())
}

/// Of several classes that say they are the default, the least.
fn default_class(cache: &Cache) -> Option<Value> {
    let classes = cache.snapshot("priorityclasses.scheduling.k8s.io/").objects;
    let parsed = classes.iter().filter_map(|(_, bytes)| serde_json::from_slice::<Value>(bytes).ok());
    parsed.filter(|class| class["globalDefault"] == true).min_by_key(|class| class["value"].as_i64())
}

fn pod_name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

/// Gives a pod its identity: the service account it names, or the namespace's `default`.
async fn identify(
    server: &Server,
    resource: &Resource,
    namespace: &str,
    pod: &mut Value,
) -> Result<(), Failure> {
    if strategy::pod::is_mirror(pod) {
        let borrowed = strategy::pod::borrowed_by_mirror(pod);
        return borrowed.map_or(Ok(()), |why| Err(Failure::forbidden(resource, pod_name(pod), why)));
    }
    let named = pod["spec"]["serviceAccountName"].as_str().filter(|name| !name.is_empty());
    let name = named.unwrap_or(DEFAULT_ACCOUNT).to_owned();
    let Some(account) = account(server, namespace, &name).await? else {
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        );
        return Err(Failure::forbidden(resource, pod_name(pod), why));
    };
    let suffix = names::generated("", rand::random());
    if let Some(why) = strategy::pod::admit(pod, &account, &suffix) {
        return Err(Failure::forbidden(resource, pod_name(pod), why));
    }
    Ok(())
}

/// A service account. A namespace gets its `default` right after it was made, by a controller: whoever is quicker than
/// that waits for it rather than having to ask again.
async fn account(server: &Server, namespace: &str, name: &str) -> Result<Option<Value>, Failure> {
    let accounts = server.built_in("", "serviceaccounts")?;
    let mut known = server.storage.cache().subscribe();
    let deadline = Instant::now() + DEFAULT_ACCOUNT_PATIENCE;
    loop {
        let touched = server.storage.cache().touched("serviceaccounts");
        if let Some(found) = server.storage.get(&accounts, namespace, name).await? {
            return Ok(Some(found.value));
        }
        if name != DEFAULT_ACCOUNT {
            return Ok(None);
        }
        let another = async {
            // The sender is the server's, so waiting cannot fail.
            while server.storage.cache().touched("serviceaccounts") == touched
                && known.changed().await.is_ok()
            {}
        };
        if timeout_at(deadline, another).await.is_err() {
            return Ok(None);
        }
    }
}

/// `pods/binding`: the scheduler's decision, made once.
pub(crate) async fn bind(call: &Call) -> Result<Response, Failure> {
    let binding = call.body_value()?;
    let node = binding["target"]["name"].as_str().filter(|name| !name.is_empty());
    let node = node.ok_or_else(|| Failure::unexpected("target.name: Required value"))?.to_owned();
    if binding["target"]["kind"].as_str().is_some_and(|kind| !kind.is_empty() && kind != "Node") {
        return Err(Failure::bad_request("target.kind: a pod is bound to a Node"));
    }
    let name = call.name().to_owned();
    loop {
        let stored = verbs::existing(call).await?;
        let mut pod = stored.value.clone();
        let expected = &binding["metadata"]["uid"];
        if expected.as_str().is_some_and(|uid| !uid.is_empty() && pod["metadata"]["uid"] != uid) {
            return Err(Failure::conflict_of_part(
                &call.resource,
                "binding",
                &name,
                "the pod has another uid",
            ));
        }
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            let why = format!("pod {name} is being deleted, cannot be assigned to a host");
            return Err(Failure::conflict_of_part(&call.resource, "binding", &name, why));
        }
        if let Some(assigned) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
            let why = format!("pod {name} is already assigned to node \"{assigned}\"");
            return Err(Failure::conflict_of_part(&call.resource, "binding", &name, why));
        }
        pod["spec"]["nodeName"] = json!(node);
        scheduled(&mut pod, &strategy::timestamp(call.server.clock.now()));
        if let Some(annotations) = binding["metadata"]["annotations"].as_object() {
            for (key, value) in annotations {
                pod["metadata"]["annotations"][key] = value.clone();
            }
        }
        if call.dry_run()? {
            break;
        }
        match call.server.storage.replace(&call.resource, &stored, &pod).await {
            Ok(_) => break,
            Err(WriteError::Failed(failure)) => return Err(failure),
            Err(_) => {}
        }
    }
    let status =
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    Ok(answer::json(StatusCode::CREATED, &status))
}

fn scheduled(pod: &mut Value, now: &str) {
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    set_condition(pod, condition);
}

/// Puts a condition in the place of the one of its type, or behind all others.
pub(crate) fn set_condition(object: &mut Value, condition: Value) {
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    match object["status"]["conditions"].as_array_mut() {
        Some(conditions) => match conditions.iter_mut().find(|one| one["type"] == condition["type"]) {
            Some(former) => *former = condition,
            None => conditions.push(condition),
        },
        None => object["status"]["conditions"] = json!([condition]),
    }
}
