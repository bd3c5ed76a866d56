//! Links lead below the base that was asked.
//!
//! Everything is there below both bases, and stored with links below the first: which base a reader uses is known only when
//! the answer is made. So that is where links are put below another one. What is the caller's own, such as properties,
//! stays as it is, and so do links to credentials, which the first base alone has.

use std::future::Future;

use pilothouse_clusters_service_api::BASES;
use serde::Serialize;
use serde_json::Value;

/// Members whose content is the caller's own.
const FREE_FORM: [&str; 2] = ["properties", "labels"];
const CREDENTIALS: &str = "/break_glass_credentials";

tokio::task_local! {
    /// The base of the request that is being answered.
    static BASE: &'static str;
}

/// Answers a request to this path with links below its base.
pub(crate) async fn below<T>(path: &str, answer: impl Future<Output = T>) -> T {
    let base = BASES.into_iter().find(|base| is_below(path, base)).unwrap_or(BASES[0]);
    BASE.scope(base, answer).await
}

/// The base of the request that is being answered.
pub(crate) fn base() -> &'static str {
    BASE.try_with(|base| *base).unwrap_or(BASES[0])
}

/// A value as JSON, with links below a base.
pub(crate) fn written(value: &impl Serialize, base: &str) -> Result<Vec<u8>, serde_json::Error> {
    if base == BASES[0] {
        return serde_json::to_vec(value);
    }
    let mut value = serde_json::to_value(value)?;
    lead_below(&mut value, base);
    serde_json::to_vec(&value)
}

fn lead_below(value: &mut Value, base: &str) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(link) if name == "href" => {
                        let rest = link.strip_prefix(BASES[0]).filter(|rest| !rest.contains(CREDENTIALS));
                        if let Some(rest) = rest {
                            *link = format!("{base}{rest}");
                        }
                    }
                    _ if FREE_FORM.contains(&name.as_str()) => {}
                    member => lead_below(member, base),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| lead_below(item, base)),
        _ => {}
    }
}

fn is_below(path: &str, base: &str) -> bool {
    path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn links_of_ours_are_led_below_a_base_and_what_is_the_callers_stays() {
        let own = json!({"href": "/api/clusters_mgmt/v1/mine"});
        let shown = json!({"href": "/api/clusters_mgmt/v1/clusters/x", "properties": own,
                           "items": [{"href": "/api/clusters_mgmt/v1/clusters/x/break_glass_credentials/y"}]});
        let led: Value = serde_json::from_slice(&written(&shown, BASES[1]).unwrap()).unwrap();
        assert_eq!(led["href"], "/api/aro_hcp/v1alpha1/clusters/x");
        assert_eq!((&led["properties"], &led["items"]), (&own, &shown["items"]));
        let same: Value = serde_json::from_slice(&written(&shown, BASES[0]).unwrap()).unwrap();
        assert_eq!(same, shown);
        assert!(!is_below("/api/clusters_mgmt/v10", BASES[0]) && is_below(BASES[1], BASES[1]));
    }
}
