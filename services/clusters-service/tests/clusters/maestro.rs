//! A stand-in for Maestro: the gRPC source API and the REST paths that are used, over memory. What an agent would
//! report is told by the test, or made up by the stand-in itself once [`Maestro::play_agent`] was called.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::{Stream, StreamExt as _, stream};
use http::StatusCode;
use jiff::Timestamp;
use pilothouse_maestro_api::{Action, CloudEvent, EventType, ManifestBundle, Subresource, extension, proto};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tonic_prost::ProstCodec;

use crate::support::PATIENCE;
use crate::switch::Switch;

pub(crate) struct Maestro {
    bundles: Mutex<BTreeMap<String, Bundle>>,
    /// How often each work was created, by name.
    created: Mutex<BTreeMap<String, usize>>,
    /// Every action that arrived, in order.
    log: Mutex<Vec<String>>,
    events: Mutex<broadcast::Sender<proto::CloudEvent>>,
    plays_agent: Mutex<bool>,
    /// Consumers that nothing arrives at, and nothing comes from.
    lost: Mutex<BTreeSet<String>>,
    /// How many further changes come too late, because somebody else changes the bundle first.
    interferences: Mutex<usize>,
    pub(crate) switch: Arc<Switch>,
}

#[derive(Clone)]
pub(crate) struct Bundle {
    pub(crate) id: String,
    pub(crate) consumer: String,
    pub(crate) version: i32,
    pub(crate) metadata: Value,
    pub(crate) bundle: ManifestBundle,
    pub(crate) correlation: Option<String>,
    pub(crate) deleting: bool,
    status: Option<Value>,
}

impl Maestro {
    pub(crate) fn new(switch: Arc<Switch>) -> Arc<Self> {
        Arc::new(Self {
            bundles: Mutex::default(),
            created: Mutex::default(),
            log: Mutex::default(),
            events: Mutex::new(broadcast::Sender::new(1024)),
            plays_agent: Mutex::new(false),
            lost: Mutex::default(),
            interferences: Mutex::default(),
            switch,
        })
    }

    pub(crate) fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route(proto::PUBLISH, post(publish))
            .route(proto::SUBSCRIBE, post(subscribe))
            .route("/api/maestro/v1/resource-bundles", get(bundle_list))
            .route("/api/maestro/v1/resource-bundles/{id}", get(bundle_get).delete(bundle_delete))
            .with_state(self.clone())
    }

    /// From now on everything works at once, and so does what is there already.
    pub(crate) fn play_agent(&self) {
        *self.plays_agent.lock().unwrap() = true;
        self.make_up_for_what_was_missed();
    }

    /// From now on nothing happens unless the test says so.
    pub(crate) fn leave_agent(&self) {
        *self.plays_agent.lock().unwrap() = false;
    }

    /// The agent of a consumer is gone.
    pub(crate) fn lose(&self, consumer: &str) {
        self.lost.lock().unwrap().insert(consumer.to_owned());
    }

    /// It is back, and makes up for what it missed.
    pub(crate) fn find_again(&self, consumer: &str) {
        self.lost.lock().unwrap().remove(consumer);
        self.make_up_for_what_was_missed();
    }

    fn make_up_for_what_was_missed(&self) {
        let all = self.bundles.lock().unwrap().clone();
        for (name, bundle) in all.into_iter().filter(|(_, bundle)| self.plays(&bundle.consumer)) {
            if bundle.deleting { self.finish_delete(&name) } else { self.look_after(&name, &bundle) }
        }
    }

    /// Whether what is sent to a consumer is carried out at once.
    fn plays(&self, consumer: &str) -> bool {
        *self.plays_agent.lock().unwrap() && !self.lost.lock().unwrap().contains(consumer)
    }

    /// Takes a bundle that was on its way for a long time, under a name; the agent reports on it if there is one.
    pub(crate) fn take_late(&self, name: &str, bundle: &Bundle) {
        self.bundles.lock().unwrap().insert(name.to_owned(), Bundle { status: None, ..bundle.clone() });
        if self.plays(&bundle.consumer) {
            self.look_after(name, bundle);
        }
    }

    /// The agent carries out a work and says so, unless the work has gone meanwhile.
    fn look_after(&self, name: &str, bundle: &Bundle) {
        if self.set_status(name, all_is_well(bundle)) {
            self.tell_of(name);
        }
    }

    /// Somebody else changes the next bundle that is to be changed, just before.
    pub(crate) fn interfere(&self) {
        *self.interferences.lock().unwrap() += 1;
    }

    /// The bundle of a work, by the work's name.
    pub(crate) fn bundle(&self, name: &str) -> Option<Bundle> {
        self.bundles.lock().unwrap().get(name).cloned()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.bundles.lock().unwrap().keys().cloned().collect()
    }

    pub(crate) fn created(&self) -> BTreeMap<String, usize> {
        self.created.lock().unwrap().clone()
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Ends every subscription, as a restart of Maestro would.
    pub(crate) fn drop_subscribers(&self) {
        *self.events.lock().unwrap() = broadcast::Sender::new(1024);
    }

    /// The agent reports on a work.
    pub(crate) fn report(&self, name: &str, status: Value) {
        self.report_quietly(name, status);
        self.tell_of(name);
    }

    fn tell_of(&self, name: &str) {
        if let Some(bundle) = self.bundle(name) {
            self.tell(&bundle, bundle.status.clone().unwrap());
        }
    }

    /// The same, but nobody hears of it.
    pub(crate) fn report_quietly(&self, name: &str, status: Value) {
        assert!(self.set_status(name, status), "no work `{name}`");
    }

    /// Whether there is such a work.
    fn set_status(&self, name: &str, status: Value) -> bool {
        let mut bundles = self.bundles.lock().unwrap();
        bundles.get_mut(name).map(|bundle| bundle.status = Some(with_mark(status, bundle))).is_some()
    }

    /// Waits until somebody has asked for a bundle to be deleted.
    pub(crate) async fn until_deleting(&self, name: &str) {
        eventually("its deletion is asked for", PATIENCE, || async {
            match self.bundle(name) {
                Some(bundle) if bundle.deleting => Ok(()),
                other => Err(format!("{:?}", other.map(|bundle| bundle.deleting))),
            }
        })
        .await;
    }

    /// The agent has removed everything of a work whose deletion was asked for.
    pub(crate) fn finish_delete(&self, name: &str) {
        let bundle = self.bundles.lock().unwrap().remove(name);
        let bundle = bundle.unwrap_or_else(|| panic!("no work `{name}`"));
        assert!(bundle.deleting, "nobody asked for `{name}` to be deleted");
        self.tell(&bundle, json!({"conditions": [condition("Deleted", "True", "gone")]}));
    }

    fn tell(&self, bundle: &Bundle, payload: Value) {
        let kind = EventType::new(Subresource::Status, Action::Update);
        let event = CloudEvent::new("agent", &kind, Timestamp::UNIX_EPOCH)
            .with(extension::RESOURCE_ID, bundle.id.as_str())
            .with(extension::RESOURCE_VERSION, bundle.version)
            .with(extension::CLUSTER_NAME, bundle.consumer.as_str())
            .with(extension::ORIGINAL_SOURCE, "maestro")
            .with(extension::METADATA, bundle.metadata.to_string())
            .with_data(payload.to_string());
        // Nobody may be listening.
        let _ = self.events.lock().unwrap().send(event.into());
    }

    fn take(&self, event: CloudEvent) -> Result<(), tonic::Status> {
        let kind = event.event_type().unwrap();
        let metadata = event.metadata().unwrap().unwrap_or_default();
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        self.log.lock().unwrap().push(format!("{:?} {name}", kind.action));
        let mut bundles = self.bundles.lock().unwrap();
        match kind.action {
            Action::Create => {
                if bundles.contains_key(&name) {
                    return Err(tonic::Status::unknown("maestro-6: it exists"));
                }
                let bundle = Bundle {
                    id: event.required(extension::RESOURCE_ID).unwrap(),
                    consumer: event.required(extension::CLUSTER_NAME).unwrap(),
                    version: 1,
                    metadata,
                    bundle: event.payload().unwrap(),
                    correlation: event.text(extension::CORRELATION_ID),
                    deleting: false,
                    status: None,
                };
                bundles.insert(name.clone(), bundle);
                *self.created.lock().unwrap().entry(name.clone()).or_default() += 1;
            }
            Action::Update => {
                let known =
                    bundles.get_mut(&name).ok_or_else(|| tonic::Status::unknown("maestro-7: none"))?;
                let interferences = &mut *self.interferences.lock().unwrap();
                if *interferences > 0 {
                    *interferences -= 1;
                    known.version += 1;
                }
                let asked = event.resource_version().unwrap().unwrap_or_default();
                if asked != 0 && asked != known.version {
                    return Err(tonic::Status::unknown("maestro-6: it changed"));
                }
                known.version += 1;
                known.bundle = event.payload().unwrap();
                known.correlation = event.text(extension::CORRELATION_ID);
                // What the agent said was about another version.
                known.status = None;
            }
            other => panic!("{other:?} is not used"),
        }
        drop(bundles);
        let bundle = self.bundle(&name).unwrap();
        if self.plays(&bundle.consumer) {
            self.look_after(&name, &bundle);
        }
        Ok(())
    }
}

/// What an agent reports once everything in a bundle works.
fn all_is_well(bundle: &Bundle) -> Value {
    let manifest = &bundle.bundle.manifests[0];
    match manifest["kind"].as_str().unwrap() {
        "ManagedCluster" => managed_cluster_report("True"),
        "ConfigMap" => json!({"conditions": [condition("Applied", "True", "done")], "resourceStatus": []}),
        "ManifestWork" => {
            let inner = manifest["spec"]["workload"]["manifests"].as_array().unwrap();
            let last = inner.last().unwrap();
            match last["kind"].as_str().unwrap() {
                "HostedCluster" if last["spec"]["configuration"].is_null() => hosted_cluster_report("True"),
                "HostedCluster" => issuer_report("True", "the API server was told to believe the issuer"),
                // Tests say themselves what becomes of these.
                "CertificateSigningRequestApproval" | "CertificateRevocationRequest" => json!({}),
                _ => {
                    let spec = &last["spec"];
                    // The load asks for as much as there may be.
                    let count = spec["replicas"].as_i64().or_else(|| spec["autoScaling"]["max"].as_i64());
                    node_pool_report("True", count.unwrap())
                }
            }
        }
        other => panic!("{other}"),
    }
}

/// Feeds back the mark of the object that a work is about, as an agent does that has seen the work as it is now.
fn with_mark(mut status: Value, bundle: &Bundle) -> Value {
    let objects = bundle.bundle.manifests[0]["spec"]["workload"]["manifests"].as_array();
    let object = objects.and_then(|objects| objects.last()).unwrap_or(&Value::Null);
    let Some(mark) = object["metadata"]["annotations"]["pilothouse.dev/bundle-version"].as_str() else {
        return status;
    };
    let path = "/resourceStatus/0/statusFeedback/values/0/fieldValue/jsonRaw";
    if let Some(raw) = status.pointer_mut(path) {
        let mut inner: Value = serde_json::from_str(raw.as_str().unwrap()).unwrap();
        let objects = inner["resourceStatus"]["manifests"].as_array_mut().unwrap();
        let values = &mut objects.last_mut().unwrap()["statusFeedback"]["values"];
        values.as_array_mut().unwrap().push(text("BundleVersion", mark));
        *raw = json!(inner.to_string());
    }
    status
}

pub(crate) fn condition(kind: &str, status: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "Reported", "message": message,
           "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn text(name: &str, value: &str) -> Value {
    json!({"name": name, "fieldValue": {"type": "String", "string": value}})
}

fn number(name: &str, value: i64) -> Value {
    json!({"name": name, "fieldValue": {"type": "Integer", "integer": value}})
}

/// A bundle that wraps a work with one object of `kind`, of which this was fed back.
fn nested(kind: &str, values: &[Value]) -> Value {
    wrapped(&[(kind, values)])
}

/// The same with several objects.
fn wrapped(objects: &[(&str, &[Value])]) -> Value {
    let namespace = json!({"resourceMeta": {"kind": "Namespace"}, "statusFeedback": {}, "conditions": []});
    let objects = objects.iter().map(|(kind, values)| {
        json!({"resourceMeta": {"kind": kind}, "statusFeedback": {"values": values}, "conditions": []})
    });
    let manifests: Vec<_> = std::iter::once(namespace).chain(objects).collect();
    let inner = json!({
        "conditions": [condition("Applied", "True", "Apply manifest work complete")],
        "resourceStatus": {"manifests": manifests},
    });
    let raw = json!({"name": "status", "fieldValue": {"type": "JsonRaw", "jsonRaw": inner.to_string()}});
    json!({
        "conditions": [condition("Applied", "True", "Apply manifest work complete")],
        "resourceStatus": [{"resourceMeta": {"kind": "ManifestWork"}, "statusFeedback": {"values": [raw]},
                            "conditions": []}],
    })
}

pub(crate) fn hosted_cluster_report(available: &str) -> Value {
    nested("HostedCluster", &of_hosted_cluster(available))
}

/// The same of one that names an issuer of tokens, and whether its API server was told.
pub(crate) fn issuer_report(believed: &str, message: &str) -> Value {
    let mut values = of_hosted_cluster("True");
    values.push(text("ValidOIDCConfiguration-Status", believed));
    values.push(text("ValidOIDCConfiguration-Message", message));
    nested("HostedCluster", &values)
}

fn of_hosted_cluster(available: &str) -> Vec<Value> {
    let mut values = vec![
        text("Available-Status", available),
        text("Available-Reason", "AsExpected"),
        text("Available-Message", "the hosted control plane was asked"),
        text("ValidReleaseImage-Status", "True"),
    ];
    if available == "True" {
        values.push(text("Endpoint-Host", "api.first.pilothouse.test"));
        values.push(number("Endpoint-Port", 9443));
    }
    values
}

pub(crate) fn refused_release_report() -> Value {
    let values = [
        text("Available-Status", "False"),
        text("ValidReleaseImage-Status", "False"),
        text("ValidReleaseImage-Message", "there is no such release"),
    ];
    nested("HostedCluster", &values)
}

pub(crate) fn node_pool_report(ready: &str, replicas: i64) -> Value {
    let message = text("Ready-Message", "the nodes were counted");
    nested("NodePool", &[text("Ready-Status", ready), message, number("Replicas", replicas)])
}

/// A request that was signed: the certificate as the API writes it, and the authorities of the server.
pub(crate) fn signed_report(certificate: &str, authorities: &str) -> Value {
    let approval = [
        text("Issued-Status", "True"),
        text("Server", "https://127.0.0.1:9443"),
        text("ServerName", "api.first.pilothouse.test"),
        text("Authorities", authorities),
    ];
    wrapped(&[
        ("CertificateSigningRequest", &[text("Approved-Status", "True"), text("Certificate", certificate)]),
        ("CertificateSigningRequestApproval", &approval),
    ])
}

pub(crate) fn denied_report(why: &str) -> Value {
    let values = [text("Denied-Status", "True"), text("Denied-Message", why)];
    wrapped(&[("CertificateSigningRequest", &values), ("CertificateSigningRequestApproval", &[])])
}

pub(crate) fn revocation_report(revoked: &str) -> Value {
    let mut values = vec![
        text("PreviousCertificatesRevoked-Status", revoked),
        text("PreviousCertificatesRevoked-Message", "pod kube-apiserver-1 still lets in"),
    ];
    if revoked == "True" {
        values.push(text("RevocationTimestamp", "2026-01-01T00:00:10Z"));
    }
    nested("CertificateRevocationRequest", &values)
}

pub(crate) fn managed_cluster_report(available: &str) -> Value {
    let status = json!({"conditions": [condition("ManagedClusterConditionAvailable", available, "seen")]});
    let raw = json!({"name": "status", "fieldValue": {"type": "JsonRaw", "jsonRaw": status.to_string()}});
    json!({
        "conditions": [condition("Applied", "True", "Apply manifest work complete")],
        "resourceStatus": [{"resourceMeta": {"kind": "ManagedCluster"}, "statusFeedback": {"values": [raw]},
                            "conditions": []}],
    })
}

async fn publish(State(maestro): State<Arc<Maestro>>, request: Request) -> Response {
    let codec: ProstCodec<(), proto::PublishRequest> = ProstCodec::default();
    let service = tower::service_fn(move |request: tonic::Request<proto::PublishRequest>| {
        let maestro = maestro.clone();
        async move {
            let event = CloudEvent::try_from(request.into_inner().event.unwrap()).unwrap();
            let taken = maestro.take(event);
            maestro.switch.pass().await;
            taken.map(tonic::Response::new)
        }
    });
    tonic::server::Grpc::new(codec).unary(service, request).await.into_response()
}

async fn subscribe(State(maestro): State<Arc<Maestro>>, request: Request) -> Response {
    let codec: ProstCodec<proto::CloudEvent, proto::SubscriptionRequest> = ProstCodec::default();
    let service = tower::service_fn(move |request: tonic::Request<proto::SubscriptionRequest>| {
        assert_eq!(request.get_ref().source, pilothouse_clusters_service::SOURCE_ID);
        let receiver = maestro.events.lock().unwrap().subscribe();
        async move {
            let mut response = tonic::Response::new(events(receiver).boxed());
            response.metadata_mut().insert(proto::SUBSCRIPTION_ID, "1".parse().unwrap());
            Ok::<_, tonic::Status>(response)
        }
    });
    tonic::server::Grpc::new(codec).server_streaming(service, request).await.into_response()
}

fn events(
    receiver: broadcast::Receiver<proto::CloudEvent>,
) -> impl Stream<Item = Result<proto::CloudEvent, tonic::Status>> {
    stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.ok().map(|event| (Ok(event), receiver))
    })
}

async fn bundle_get(State(maestro): State<Arc<Maestro>>, Path(id): Path<String>) -> Response {
    let found = maestro.bundles.lock().unwrap().values().find(|bundle| bundle.id == id).cloned();
    maestro.switch.pass().await;
    let Some(bundle) = found else {
        let body = json!({"kind": "Error", "id": "7", "href": "", "code": "maestro-7", "reason": "none"});
        return (StatusCode::NOT_FOUND, Json(body)).into_response();
    };
    Json(shown(bundle)).into_response()
}

/// Knows one search: by the mark that everything of a cluster carries.
async fn bundle_list(
    State(maestro): State<Arc<Maestro>>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    const SEARCH: &str = "payload->'metadata'->'labels'->>'api.openshift.com/id'=";
    let id = query.get("search").map(|search| search.strip_prefix(SEARCH).unwrap().trim_matches('\''));
    let all = maestro.bundles.lock().unwrap().clone();
    maestro.switch.pass().await;
    let marked =
        |bundle: &Bundle| id.is_none_or(|id| bundle.metadata["labels"]["api.openshift.com/id"] == json!(id));
    let items: Vec<_> = all.into_values().filter(marked).map(shown).collect();
    let count = items.len();
    Json(json!({"kind": "ResourceBundleList", "page": 1, "size": count, "total": count, "items": items}))
        .into_response()
}

fn shown(bundle: Bundle) -> Value {
    let mut status = bundle.status;
    if let Some(status) = &mut status {
        status["ObservedVersion"] = json!(bundle.version);
        if status["SequenceID"].is_null() {
            status["SequenceID"] = json!("1");
        }
    }
    json!({
        "id": bundle.id, "kind": "ResourceBundle", "href": "", "name": bundle.id,
        "consumer_name": bundle.consumer, "version": bundle.version,
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        "deleted_at": bundle.deleting.then_some("2026-01-01T00:00:00Z"),
        "metadata": bundle.metadata,
        "manifests": bundle.bundle.manifests,
        "delete_option": bundle.bundle.delete_option,
        "manifest_configs": bundle.bundle.manifest_configs,
        "status": status,
    })
}

async fn bundle_delete(State(maestro): State<Arc<Maestro>>, Path(id): Path<String>) -> StatusCode {
    let name = {
        let mut bundles = maestro.bundles.lock().unwrap();
        bundles.iter_mut().find(|(_, bundle)| bundle.id == id).map(|(name, bundle)| {
            bundle.deleting = true;
            (name.clone(), bundle.consumer.clone())
        })
    };
    if let Some((name, consumer)) = name {
        maestro.log.lock().unwrap().push(format!("Delete {name}"));
        if maestro.plays(&consumer) {
            maestro.finish_delete(&name);
        }
    }
    maestro.switch.pass().await;
    StatusCode::NO_CONTENT
}
