//! Making an object what it should be, without a write when it already is.
//!
//! What is desired names only the fields that matter to us. The API server and other controllers add theirs, so an
//! object is right when everything desired is *in* it. A difference, and nothing but the difference, is written as a merge
//! patch: the fields of others are left alone, and so are ours that are right, some of which may not be written again.

use std::fmt::Debug;
use std::sync::Arc;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tracing::debug;

use crate::error::{Error, has_reason, is_missing};
use crate::names::OPERATOR;

/// Makes sure of an object: creates it, changes it, or finds it as it should be. `cached` is what the cache holds; it may be
/// behind, and then costs a read.
pub(crate) async fn ensure<K>(api: &Api<K>, cached: Option<Arc<K>>, desired: &K) -> Result<Arc<K>, Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    ensure_whole(api, cached, desired, &[]).await
}

/// The same for an object that has `places`, as JSON pointers, where nobody writes but us: what is not desired there goes.
pub(crate) async fn ensure_whole<K>(
    api: &Api<K>,
    cached: Option<Arc<K>>,
    desired: &K,
    places: &[&str],
) -> Result<Arc<K>, Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let observed = match cached {
        Some(cached) => cached,
        None => match create(api, desired).await? {
            Some(created) => return Ok(created),
            None => read(api, desired).await?,
        },
    };
    let (mut wanted, seen) = (to_value(desired), to_value(observed.as_ref()));
    places.iter().for_each(|place| complete(&mut wanted, &seen, place));
    let Some(patch) = difference(&wanted, &seen) else { return Ok(observed) };
    let name = desired.name_any();
    debug!(object = %describe(desired), "changed");
    let patched = api
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map_err(|error| Error::management("change", describe(desired), error))?;
    Ok(Arc::new(patched))
}

/// Creates an object that must not be changed once it exists. Gives back the one that exists.
pub(crate) async fn ensure_exists<K>(api: &Api<K>, desired: &K) -> Result<Arc<K>, Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    match create(api, desired).await? {
        Some(created) => Ok(created),
        None => read(api, desired).await,
    }
}

/// Makes sure that an object is gone or going.
pub(crate) async fn ensure_deleted<K>(
    api: &Api<K>,
    name: &str,
    parameters: &DeleteParams,
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    match api.delete(name, parameters).await {
        Ok(_) => Ok(()),
        Err(error) if is_missing(&error) => Ok(()),
        Err(error) => Err(Error::management("delete", format!("{} {name}", K::kind(&())), error)),
    }
}

/// `None` if it already exists.
async fn create<K>(api: &Api<K>, desired: &K) -> Result<Option<Arc<K>>, Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let parameters = PostParams { field_manager: Some(OPERATOR.to_owned()), ..PostParams::default() };
    match api.create(&parameters, desired).await {
        Ok(created) => Ok(Some(Arc::new(created))),
        Err(error) if has_reason(&error, "AlreadyExists") => Ok(None),
        Err(error) => Err(Error::management("create", describe(desired), error)),
    }
}

async fn read<K>(api: &Api<K>, desired: &K) -> Result<Arc<K>, Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let found = api.get(&desired.name_any()).await;
    found.map(Arc::new).map_err(|error| Error::management("show", describe(desired), error))
}

fn describe<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let metadata = object.meta();
    let namespace =
        metadata.namespace.as_deref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    format!("{} {namespace}{}", K::kind(&()), metadata.name.as_deref().unwrap_or_default())
}

/// Kubernetes objects have string keys and finite numbers, so this cannot fail; `null` would only cost a write.
fn to_value<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// Says of everything at a place that is observed and not desired that it is to be nothing.
fn complete(desired: &mut Value, observed: &Value, place: &str) {
    let (Some(seen), Some((parent, name))) = (observed.pointer(place), place.rsplit_once('/')) else {
        return;
    };
    let Some(parent) = desired.pointer_mut(parent).and_then(Value::as_object_mut) else { return };
    // As pointers write what is a separator to them.
    let name = name.replace("~1", "/").replace("~0", "~");
    let wanted = parent.entry(name).or_insert(Value::Null);
    if let (Value::Object(wanted), Value::Object(seen)) = (wanted, seen) {
        for key in seen.keys() {
            wanted.entry(key).or_insert(Value::Null);
        }
    }
}

/// What has to be merged into the observed so that it holds everything desired; `None` if it does. Lists count as a
/// whole: they are right if they are as long and each element holds its counterpart.
fn difference(desired: &Value, observed: &Value) -> Option<Value> {
    match (desired, observed) {
        (Value::Object(desired), Value::Object(observed)) => {
            let differences = desired.iter().filter_map(|(key, desired)| {
                let observed = observed.get(key).unwrap_or(&Value::Null);
                difference(desired, observed).map(|difference| (key.clone(), difference))
            });
            let differences: Map<_, _> = differences.collect();
            (!differences.is_empty()).then_some(Value::Object(differences))
        }
        (Value::Array(wanted), Value::Array(seen)) => {
            let same = wanted.len() == seen.len()
                && wanted.iter().zip(seen).all(|(wanted, seen)| difference(wanted, seen).is_none());
            (!same).then(|| desired.clone())
        }
        // What is empty may be left out.
        (Value::Object(wanted), Value::Null) if wanted.is_empty() => None,
        (Value::Array(wanted), Value::Null) if wanted.is_empty() => None,
        _ => (desired != observed).then(|| desired.clone()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"a": 1}), json!({"a": 1, "b": 2}), None)]
    #[case(json!({"a": 1, "c": 3}), json!({"a": 2, "c": 3}), Some(json!({"a": 1})))]
    #[case(json!({"a": null}), json!({}), None)]
    #[case(json!({"a": null}), json!({"a": 1}), Some(json!({"a": null})))]
    #[case(json!({"a": {"b": []}}), json!({"a": {"b": [1]}}), Some(json!({"a": {"b": []}})))]
    #[case(json!({"a": {}, "b": []}), json!({}), None)]
    #[case(json!({"a": {"b": 1}}), json!({}), Some(json!({"a": {"b": 1}})))]
    #[case(json!({"a": [{"name": "x"}]}), json!({"a": [{"name": "x", "protocol": "TCP"}]}), None)]
    #[case(json!({"a": [{"name": "x"}]}), json!({"a": [{"name": "y"}]}), Some(json!({"a": [{"name": "x"}]})))]
    fn only_what_differs_is_written(
        #[case] desired: Value,
        #[case] observed: Value,
        #[case] expected: Option<Value>,
    ) {
        assert_eq!(difference(&desired, &observed), expected);
    }

    #[rstest]
    #[case(json!({"a": {"x": "1"}}), json!({"a": {"x": "1", "y": "2"}}), Some(json!({"a": {"y": null}})))]
    #[case(json!({}), json!({"a": {"x": "1"}}), Some(json!({"a": null})))]
    #[case(json!({"a": {"x": "1"}}), json!({}), Some(json!({"a": {"x": "1"}})))]
    #[case(json!({"a": {"x": "1"}}), json!({"a": {"x": "1"}, "b": 2}), None)]
    fn what_is_ours_alone_goes_when_it_is_not_desired(
        #[case] mut desired: Value,
        #[case] observed: Value,
        #[case] expected: Option<Value>,
    ) {
        complete(&mut desired, &observed, "/a");
        assert_eq!(difference(&desired, &observed), expected);
    }

    #[test]
    fn one_annotation_is_ours_among_those_of_others() {
        let mut desired = json!({"annotations": {"a.test/x": "1"}});
        let observed = json!({"annotations": {"a.test/x": "1", "b.test/y": "2", "c.test/z": "3"}});
        complete(&mut desired, &observed, "/annotations/b.test~1y");
        assert_eq!(difference(&desired, &observed), Some(json!({"annotations": {"b.test/y": null}})));
    }
}
