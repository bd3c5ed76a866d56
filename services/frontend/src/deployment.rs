//! ARM's question before a deployment: would these resources be accepted?
//!
//! Best effort: what cannot be judged before the deployment runs (template expressions, other providers, versions that are
//! not served) is passed over. A cluster is checked as if it were to be made; what is below one, for its form.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{FromRequest as _, FromRequestParts as _, Request, State};
use axum::response::{IntoResponse as _, Response};
use pilothouse_api::{CLUSTERS, EXTERNAL_AUTHS, NODE_POOLS, Target, Version, hub};
use pilothouse_arm::{ApiVersion, ErrorCode, ErrorDetails, PROVIDER, ResourceId};
use serde_json::{Map, Value, json};

use crate::accept;
use crate::answer::Refusal;
use crate::body::Content;
use crate::call::{Call, Unversioned};
use crate::cluster::{Clusters, would_be_made};
use crate::json as form;
use crate::kind::Kind;
use crate::service::App;

/// One resource of a deployment that can be judged.
struct Candidate {
    id: ResourceId,
    kind: Judged,
    version: Version,
    body: Vec<u8>,
    /// As the deployment calls it.
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    Cluster,
    NodePool,
    ExternalAuth,
}

pub(crate) async fn preflight(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let (mut parts, body) = request.into_parts();
    let Content(body) = Content::from_request(Request::from_parts(parts.clone(), body), &app).await?;
    let Unversioned(call) = Unversioned::from_request_parts(&mut parts, &app).await?;
    let answer = match resources(&body) {
        Ok(resources) => judge(&app, &call, &resources).await?,
        Err(details) => Some(details),
    };
    Ok(Json(match answer {
        None => json!({"status": "Succeeded"}),
        Some(error) => json!({"status": "Failed", "error": error}),
    })
    .into_response())
}

fn resources(body: &[u8]) -> Result<Vec<Map<String, Value>>, ErrorDetails> {
    let details = |refusal: Refusal| refusal.shown("").details().clone();
    form::check(body).map_err(|invalid| details(invalid.into()))?;
    let body: Value = serde_json::from_slice(body).map_err(|error| {
        ErrorDetails::new(
            ErrorCode::InvalidRequestContent,
            format!("The request content could not be deserialised: {error}."),
        )
    })?;
    match body.get("resources") {
        Some(Value::Array(resources)) => {
            Ok(resources.iter().filter_map(|one| one.as_object().cloned()).collect())
        }
        _ => Err(ErrorDetails::field("resources", "Required value")),
    }
}

/// What is wrong with the resources, if anything is.
async fn judge(
    app: &App,
    call: &Call,
    resources: &[Map<String, Value>],
) -> Result<Option<ErrorDetails>, Refusal> {
    let mut candidates: Vec<_> = resources.iter().filter_map(|one| candidate(call, one)).collect();
    // Clusters first: those of the same deployment are what node pools are compared with.
    candidates.sort_by_key(|candidate| candidate.kind != Judged::Cluster);
    let mut clusters = BTreeMap::new();
    let mut problems = Vec::new();
    for candidate in candidates {
        let call = call.clone().in_version(candidate.version);
        if let Err(refusal) = checked(app, &call, &candidate, &mut clusters).await {
            problems.extend(problem(&candidate, &refusal));
        }
    }
    Ok(match problems.len() {
        0 => None,
        1 => problems.pop(),
        count => Some(ErrorDetails {
            details: problems,
            ..ErrorDetails::new(ErrorCode::MultipleErrorsOccurred, format!("{count} errors occurred"))
        }),
    })
}

/// What of a refusal is about the resource. Whatever could not be found out is none of it.
fn problem(candidate: &Candidate, refusal: &Refusal) -> Option<ErrorDetails> {
    let error = refusal.shown("");
    if error.status() >= 500 || error.status() == 429 {
        return None;
    }
    let found = error.details();
    let details = if found.details.is_empty() { vec![found.clone()] } else { found.details.clone() };
    Some(ErrorDetails {
        code: found.code.clone(),
        message: format!("Content validation failed for '{}'", candidate.name),
        target: Some(candidate.id.to_string()),
        details,
        additional_info: Vec::new(),
    })
}

async fn checked(
    app: &App,
    call: &Call,
    candidate: &Candidate,
    clusters: &mut BTreeMap<ResourceId, hub::Cluster>,
) -> Result<(), Refusal> {
    let Candidate { id, kind, body, .. } = candidate;
    let location = &app.config.location;
    match kind {
        Judged::Cluster => {
            let stored = app.records.cluster_get(id).await?;
            let existing = stored.as_deref().map(|stored| &stored.resource);
            let target = Target { id: id.clone(), location: location.clone(), existing, rules: call.rules };
            let mut wanted = call.version.cluster_put(body, &target)?;
            clusters.insert(id.clone(), wanted.clone());
            if stored.is_none() {
                Clusters::admit(app, call, None, &mut wanted).await?;
                // Where credentials will be fetched is not said before the deployment runs.
                would_be_made(app, call, &wanted, accept::new_id(), None).await?;
            }
        }
        Judged::NodePool => {
            let Some(cluster) = id.parent() else { return Ok(()) };
            let stored = app.records.cluster_get(&cluster).await?.map(|stored| stored.record.resource);
            let Some(cluster) = clusters.get(&cluster).cloned().or(stored) else { return Ok(()) };
            let stored = app.records.node_pool_get(id).await?;
            let existing = stored.as_deref().map(|stored| &stored.resource);
            let target = Target { id: id.clone(), location: location.clone(), existing, rules: call.rules };
            call.version.node_pool_put(body, &target, &cluster)?;
        }
        Judged::ExternalAuth => {
            let stored = app.records.external_auth_get(id).await?;
            let existing = stored.as_deref().map(|stored| &stored.resource);
            let target = Target { id: id.clone(), location: location.clone(), existing, rules: call.rules };
            call.version.external_auth_put(body, &target)?;
        }
    }
    Ok(())
}

fn candidate(call: &Call, resource: &Map<String, Value>) -> Option<Candidate> {
    const GROUP: usize = 3;
    let text = |member: &str| resource.get(member).and_then(Value::as_str);
    let (name, kind, version) = (text("name")?, text("type")?, text("apiVersion")?);
    let version = Version::of(version.parse::<ApiVersion>().ok()?)?;
    if resource.iter().any(|(name, value)| is_expression(name) || has_expression(value)) {
        return None;
    }
    let (namespace, types) = kind.split_once('/')?;
    let types: Vec<_> = types.split('/').collect();
    let names: Vec<_> = name.split('/').collect();
    let judged = match (namespace.eq_ignore_ascii_case(PROVIDER), types.as_slice()) {
        (true, [clusters]) if clusters.eq_ignore_ascii_case(CLUSTERS) => Judged::Cluster,
        (true, [clusters, child]) if clusters.eq_ignore_ascii_case(CLUSTERS) => {
            if child.eq_ignore_ascii_case(NODE_POOLS) {
                Judged::NodePool
            } else if child.eq_ignore_ascii_case(EXTERNAL_AUTHS) {
                Judged::ExternalAuth
            } else {
                return None;
            }
        }
        _ => return None,
    };
    let group = ResourceId::subscription(call.subscription).resource_group(call.segment(GROUP));
    let id = match (types.as_slice(), names.as_slice()) {
        ([kind], [name]) => group.provider(namespace, kind, name),
        ([kind, below], [name, child]) => group.provider(namespace, kind, name).child(below, child),
        _ => return None,
    };
    // What the names make up must be an id, and one that something can be stored under.
    let id: ResourceId = id.as_str().parse().ok().filter(|id: &ResourceId| id.as_str().len() <= 1000)?;
    let mut body = resource.clone();
    body.insert("name".to_owned(), Value::String((*names.last()?).to_owned()));
    let body = serde_json::to_vec(&body).ok()?;
    Some(Candidate { id, kind: judged, version, body, name: name.to_owned() })
}

fn is_expression(text: &str) -> bool {
    text.starts_with('[') && text.ends_with(']')
}

fn has_expression(value: &Value) -> bool {
    match value {
        Value::String(text) => is_expression(text),
        Value::Array(items) => items.iter().any(has_expression),
        Value::Object(members) => {
            members.iter().any(|(name, value)| is_expression(name) || has_expression(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
