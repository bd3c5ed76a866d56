//! Questions that are answered and not kept: who am I, may I, what may I, may they, is this token good.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use crate::answer::{self, Form};
use crate::authentication::{self, User};
use crate::authorization::{Attributes, ResourceAttributes, node_name};
use crate::patch::managed_fields;
use crate::server::{Call, Server};
use crate::status::{Cause, Failure};
use crate::strategy;

pub(crate) async fn handle(call: &Call) -> Result<Response, Failure> {
    if matches!(call.form()?, Form::Table(_)) {
        return Err(Failure::not_acceptable());
    }
    let mut review = call.body_object()?;
    strategy::prune(&call.resource, &mut review)?;
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    let (manager, now) = (call.manager()?, call.server.clock.now());
    // The name of an owner of what is not kept is shown where the real server shows it.
    if call.resource.group == "authorization.k8s.io" && call.resource.kind != "SelfSubjectRulesReview" {
        managed_fields::track(&call.resource, None, None, &mut review, &manager, now);
    }
    review["status"] = match call.resource.kind.as_ref() {
        "SelfSubjectReview" => {
            review["metadata"]["creationTimestamp"] = json!(strategy::timestamp(now));
            json!({ "userInfo": call.user.to_value() })
        }
        "SelfSubjectAccessReview" => access(&call.server, &call.user, &review["spec"])?,
        "SelfSubjectRulesReview" => rules(&call.server, &call.user, &review["spec"])?,
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            let spec = &review["spec"];
            if call.resource.namespaced && spec["resourceAttributes"]["namespace"] != call.namespace() {
                let why = "spec.resourceAttributes.namespace must be the namespace of the review";
                return Err(Failure::bad_request(why));
            }
            access(&call.server, &subject(spec)?, spec)?
        }
        "TokenReview" => {
            if review["spec"]["token"].as_str().is_none_or(str::is_empty) {
                return Err(Failure::bad_request("token is required for TokenReview in authentication"));
            }
            token(&call.server, &review["spec"]).await
        }
        _ => return Err(Failure::method_not_allowed()),
    };
    if call.resource.kind == "SelfSubjectRulesReview" {
        review["spec"] = json!({});
    }
    Ok(answer::json(StatusCode::CREATED, &review))
}

fn subject(spec: &Value) -> Result<User, Failure> {
    let texts = |value: &Value| {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one.as_str().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    let name = spec["user"].as_str().unwrap_or_default().to_owned();
    let groups = texts(&spec["groups"]);
    if name.is_empty() && groups.is_empty() {
        return Err(Failure::bad_request("at least one of user or group must be specified"));
    }
    Ok(User { name, groups, ..User::default() })
}

fn access(server: &Server, user: &User, spec: &Value) -> Result<Value, Failure> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let some = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let allowed = match (resource.is_object(), path.is_object()) {
        (true, false) => {
            let (verb, group, plural) =
                (text(&resource["verb"]), text(&resource["group"]), text(&resource["resource"]));
            let (subresource, namespace, name) =
                (some(&resource["subresource"]), some(&resource["namespace"]), some(&resource["name"]));
            let fields = field_selector(&resource["fieldSelector"]);
            let attributes = Attributes::Resource(ResourceAttributes {
                verb: &verb,
                group: &group,
                resource: &plural,
                subresource: subresource.as_deref(),
                namespace: namespace.as_deref(),
                name: name.as_deref(),
                fields: fields.as_deref(),
            });
            server.authorizer.allows(server.storage.cache(), user, &attributes)
        }
        (false, true) => {
            let (verb, path) = (text(&path["verb"]), text(&path["path"]));
            let attributes = Attributes::Path { verb: &verb, path: &path };
            server.authorizer.allows(server.storage.cache(), user, &attributes)
        }
        _ => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let cause = Cause::invalid("spec.resourceAttributes", resource, why);
            return Err(Failure::invalid_kind("authorization.k8s.io", "", "", vec![cause]));
        }
    };
    Ok(json!({ "allowed": allowed }))
}

/// A selector as a query has it, as far as it asks for single values.
fn field_selector(selector: &Value) -> Option<String> {
    if let Some(raw) = selector["rawSelector"].as_str().filter(|raw| !raw.is_empty()) {
        return Some(raw.to_owned());
    }
    let requirements = selector["requirements"].as_array()?;
    let clauses: Vec<_> = requirements
        .iter()
        .filter(|one| one["operator"] == "In")
        .filter_map(|one| match one["values"].as_array().map(Vec::as_slice) {
            Some([value]) => Some(format!("{}={}", one["key"].as_str()?, value.as_str()?)),
            _ => None,
        })
        .collect();
    Some(clauses.join(","))
}

/// Everything a user may do in a namespace, as far as rules decide it. What is a node's is not told.
fn rules(server: &Server, user: &User, spec: &Value) -> Result<Value, Failure> {
    let Some(namespace) = spec["namespace"].as_str().filter(|namespace| !namespace.is_empty()) else {
        return Err(Failure::bad_request("no namespace on request"));
    };
    let rules = server.authorizer.rules(server.storage.cache(), user, namespace);
    let mut status = json!({
        "resourceRules": rules.resources,
        "nonResourceRules": rules.paths,
        "incomplete": false,
    });
    if node_name(user).is_some() {
        status["incomplete"] = json!(true);
        status["evaluationError"] = json!("node authorizer does not support user rule resolution");
    }
    Ok(status)
}

async fn token(server: &Server, spec: &Value) -> Value {
    let token = spec["token"].as_str().unwrap_or_default();
    let asked: Vec<String> = spec["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|audience| audience.as_str().map(str::to_owned))
        .collect();
    let audiences = if asked.is_empty() { vec![server.tokens.issuer().to_owned()] } else { asked };
    if let Some(user) = authentication::by_fixed_token(server, token) {
        return json!({ "authenticated": true, "user": user.to_value(), "audiences": audiences });
    }
    if let Some(outcome) = authentication::by_issued_token(server, token).await {
        // Such a token is for this server, whatever its audience is called; it says nothing to anybody else.
        let own = server.tokens.issuer();
        return match outcome {
            Ok(user) if audiences.iter().any(|audience| audience == own) => {
                json!({ "authenticated": true, "user": user.to_value(), "audiences": [own] })
            }
            Ok(_) | Err(_) => refused(),
        };
    }
    match authentication::by_token(server, token, &audiences) {
        Ok((user, claims)) => {
            let shared: Vec<_> =
                claims.audiences.iter().filter(|audience| audiences.contains(audience)).collect();
            json!({ "authenticated": true, "user": user.to_value(), "audiences": shared })
        }
        Err(_) => refused(),
    }
}

fn refused() -> Value {
    json!({ "user": {}, "error": "the token is not valid" })
}
