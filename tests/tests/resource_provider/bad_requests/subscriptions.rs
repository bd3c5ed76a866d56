//! Subscriptions that are not known, or not allowed to do what they ask for.

use http::Method;
use serde_json::{Value, json};

use super::row::{Row, bare, request};
use crate::bodies::{GROUP, SUBSCRIPTION, cluster};
use crate::provider::{DELETED, SUSPENDED, UNKNOWN, UNREGISTERED, WARNED};

pub(super) fn rows() -> Vec<Row> {
    [registration(), gates()].concat()
}

fn registration() -> Vec<Row> {
    let put = |what: &str, body: &Value| {
        bare(what, Method::PUT, &format!("/subscriptions/{UNKNOWN}?api-version=2.0")).json(body)
    };
    let right = json!({"state": "Registered", "registrationDate": "Sun, 15 Nov 2026 10:00:00 GMT"});
    let with = |name: &str, value: Value| crate::bodies::with(right.clone(), name, value);
    vec![
        put("no state", &json!({"registrationDate": "now"})).wrong("state"),
        put("a state that there is not", &with("state", json!("Expired"))).wrong("state"),
        put("a state in another case", &with("state", json!("registered"))).wrong("state"),
        put("a state that is a number", &with("state", json!(1))).wrong("state"),
        put("no date", &json!({"state": "Registered"})).wrong("registrationDate"),
        put("an empty date", &with("registrationDate", json!(""))).wrong("registrationDate"),
        put("a date with blanks around it", &with("registrationDate", json!(" now ")))
            .wrong("registrationDate"),
        put("neither state nor date", &json!({})).all_wrong(&["registrationDate", "state"]),
        put("not an object", &json!([])).is(400, "InvalidRequestContent"),
        put("not JSON", &json!({})).raw("{").is(400, "InvalidRequestContent"),
        bare("an unknown subscription", Method::GET, &format!("/subscriptions/{UNKNOWN}?api-version=2.0"))
            .is(404, "SubscriptionNotFound"),
        bare("an id that is none", Method::GET, "/subscriptions/one?api-version=2.0")
            .is(404, "SubscriptionNotFound"),
    ]
}

fn gates() -> Vec<Row> {
    let mut rows = Vec::new();
    let states = [
        ("unknown", UNKNOWN, 400, 400),
        ("unregistered", UNREGISTERED, 400, 400),
        ("warned", WARNED, 0, 409),
        ("suspended", SUSPENDED, 0, 409),
        ("deleted", DELETED, 400, 400),
    ];
    for (state, id, looking, changing) in states {
        let base = format!("/subscriptions/{id}/resourceGroups/{GROUP}/providers/Microsoft.RedHatOpenShift");
        let path = format!("{base}/hcpOpenShiftClusters/fresh");
        let body: Value =
            serde_json::from_str(&cluster("fresh").to_string().replace(SUBSCRIPTION, id)).unwrap();
        let all = [
            (Method::GET, looking, path.clone(), None),
            (Method::DELETE, looking, path.clone(), None),
            (Method::PUT, changing, path.clone(), Some(body)),
            (Method::PATCH, changing, path.clone(), Some(json!({"tags": {}}))),
            (Method::POST, changing, format!("{path}/revokeCredentials"), None),
            (
                Method::POST,
                changing,
                format!("{base}/deployments/one/preflight"),
                Some(json!({"resources": []})),
            ),
        ];
        for (method, status, path, body) in all {
            if status == 0 {
                continue;
            }
            let what = format!("{method} of {} while {state}", path.rsplit('/').next().unwrap());
            let row = request(&what, method, &path).is(status, "InvalidSubscriptionState");
            rows.push(match body {
                Some(body) => row.json(&body),
                None => row,
            });
        }
    }
    rows
}
