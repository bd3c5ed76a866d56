//! `componentstatuses`: how the parts of the cluster are, for clients that still ask this way. Of the parts this server knows
//! one, its store; it goes by the name that clients look for.

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use crate::answer;
use crate::request::Verb;
use crate::server::Call;
use crate::status::Failure;

const STORE: &str = "etcd-0";

pub(crate) fn handle(call: &Call) -> Result<Response, Failure> {
    let store = store(call.server.storage.writes_work());
    match call.info.verb {
        Verb::List => {
            let objects = [Bytes::from(store.to_string())];
            let list = call.form()?.list(&call.resource, &objects, json!({}), call.server.clock.now());
            Ok(answer::document(StatusCode::OK, list))
        }
        _ if call.name() == STORE => call.show(StatusCode::OK, store),
        _ => Err(Failure::not_found(&call.resource, call.name())),
    }
}

fn store(works: bool) -> Value {
    let condition = match works {
        true => json!({ "type": "Healthy", "status": "True", "message": "ok" }),
        false => {
            json!({ "type": "Healthy", "status": "False", "message": "the store did not take the last write" })
        }
    };
    json!({
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": { "name": STORE },
        "conditions": [condition],
    })
}
