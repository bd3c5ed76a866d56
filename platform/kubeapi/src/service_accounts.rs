//! Tokens for service accounts.

use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::server::Call;
use crate::status::{Cause, Failure};
use crate::tokens::{Claims, LONGEST, Reference, SHORTEST};
use crate::{admission, answer, strategy, verbs};

/// An hour, if nobody says otherwise.
const LIFETIME: u64 = 3600;

/// `serviceaccounts/token`: a token for the account, bound to an object if one is named.
pub(crate) async fn token(call: &Call) -> Result<Response, Failure> {
    let account = verbs::existing(call).await?.value;
    let mut request = call.body_value()?;
    let whose = (call.namespace(), call.name());
    admission::nodes::admit_token(&call.server, &call.user, &call.resource, whose, &request)?;
    let spec = &request["spec"];
    let lifetime = spec["expirationSeconds"].as_u64().unwrap_or(LIFETIME);
    if !(SHORTEST.as_secs()..=LONGEST.as_secs()).contains(&lifetime) {
        let why = match lifetime < SHORTEST.as_secs() {
            true => "may not specify a duration less than 10 minutes",
            false => "may not specify a duration larger than 2^32 seconds",
        };
        let cause = Cause::invalid("spec.expirationSeconds", &json!(lifetime), why);
        return Err(Failure::invalid_kind("authentication.k8s.io", "TokenRequest", "", vec![cause]));
    }
    let audiences: Vec<String> = spec["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|audience| audience.as_str().map(str::to_owned))
        .collect();
    let audiences =
        if audiences.is_empty() { vec![call.server.tokens.issuer().to_owned()] } else { audiences };
    let bound = match &spec["boundObjectRef"] {
        Value::Null => None,
        reference => Some(bound(call, reference).await?),
    };
    let now = call.server.clock.now();
    let lifetime =
        SignedDuration::try_from(Duration::from_secs(lifetime)).unwrap_or(SignedDuration::from_secs(600));
    let expires_at = now.saturating_add(lifetime).map_err(Failure::internal)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let claims = Claims {
        namespace: call.namespace().to_owned(),
        service_account: Reference { name: call.name().to_owned(), uid: text(&account["metadata"]["uid"]) },
        bound,
        audiences: audiences.clone(),
        expires_at,
    };
    let token = call
        .server
        .tokens
        .sign(&claims, now)
        .map_err(|_| Failure::internal("the token could not be signed"))?;
    request["kind"] = json!("TokenRequest");
    request["apiVersion"] = json!("authentication.k8s.io/v1");
    request["spec"]["expirationSeconds"] = json!(lifetime.as_secs());
    let manager = call.manager()?;
    let mut entry = json!({
        "manager": manager,
        "operation": "Update",
        "apiVersion": "authentication.k8s.io/v1",
        "subresource": "token",
        "time": strategy::timestamp(now),
        "fieldsType": "FieldsV1",
        "fieldsV1": { "f:spec": { "f:expirationSeconds": {} } },
    });
    if request["spec"]["audiences"].is_array() {
        entry["fieldsV1"]["f:spec"]["f:audiences"] = json!({});
    }
    request["metadata"] = json!({
        "name": call.name(),
        "namespace": call.namespace(),
        "uid": account["metadata"]["uid"],
        "creationTimestamp": strategy::timestamp(now),
        "managedFields": [entry],
    });
    if request["spec"]["boundObjectRef"].is_null() {
        request["spec"]["boundObjectRef"] = Value::Null;
    }
    request["spec"]["audiences"] = json!(audiences);
    let expires = strategy::timestamp(expires_at);
    request["status"] = json!({ "token": token, "expirationTimestamp": expires });
    Ok(answer::json(StatusCode::CREATED, &request))
}

/// The object that a token is to die with.
async fn bound(call: &Call, reference: &Value) -> Result<(String, Reference), Failure> {
    let kind = reference["kind"].as_str().unwrap_or_default();
    let name = reference["name"].as_str().unwrap_or_default();
    let (plural, namespace) = match kind {
        "Pod" => ("pods", call.namespace()),
        "Secret" => ("secrets", call.namespace()),
        "Node" => ("nodes", ""),
        _ => {
            let known = ["Node", "Pod", "Secret"];
            let cause = Cause::not_supported("spec.boundObjectRef.kind", &json!(kind), known);
            return Err(Failure::invalid(&call.resource, call.name(), vec![cause]));
        }
    };
    let resource = call.server.built_in("", plural)?;
    let object = call.server.storage.get(&resource, namespace, name).await?;
    let object = object.ok_or_else(|| Failure::not_found(&resource, name))?.value;
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let asked = reference["uid"].as_str().filter(|uid| !uid.is_empty());
    if asked.is_some_and(|asked| asked != uid) {
        let why = "the UID in the bound object reference does not match the UID in record";
        return Err(Failure::conflict(&resource, name, why));
    }
    Ok((kind.to_owned(), Reference { name: name.to_owned(), uid }))
}
