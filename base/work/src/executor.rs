//! On whose behalf a work is applied.
//!
//! The agent may do everything in its cluster; who sends a work need not. So a work can name a service account, and then
//! nothing is written, or even read back, that this account could not do itself. It is asked anew in every pass: rights come and
//! go.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::core::{DynamicObject, Request};
use kube::{Api, Resource};
use pilothouse_crds::ManifestWorkSpec;
use serde::Deserialize;
use serde_json::Value;

use crate::engine::Inner;
use crate::object::{ObjectId, Served};

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executor {
    namespace: String,
    name: String,
}

/// Why a manifest is not applied on somebody's behalf.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Objection {
    #[error("the executor `{executor}` may not {verb} {object}; grant it that, or leave it out")]
    Denied { executor: String, verb: &'static str, object: Box<ObjectId> },
    #[error("the executor `{executor}` would grant with {object} what it may not do itself")]
    Escalation { executor: String, object: Box<ObjectId> },
    #[error("the API server does not say what the executor `{executor}` may do")]
    Unknown { executor: String, source: Box<kube::Error> },
}

/// As a work writes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subject {
    #[serde(default, rename = "type")]
    type_: String,
    #[serde(default)]
    service_account: Option<Account>,
}

#[derive(Debug, Deserialize)]
struct Account {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

impl Executor {
    /// Whom a work names, if anybody; what is wrong with that, if something is.
    pub(crate) fn of(spec: &ManifestWorkSpec) -> Result<Option<Self>, &'static str> {
        let Some(executor) = spec.other.get("executor").filter(|executor| !executor.is_null()) else {
            return Ok(None);
        };
        let subject = executor.get("subject").cloned().unwrap_or(Value::Null);
        let subject: Subject =
            serde_json::from_value(subject).map_err(|_| "the executor's subject cannot be read")?;
        if subject.type_ != "ServiceAccount" {
            return Err("an executor has to be a ServiceAccount");
        }
        match subject.service_account {
            Some(Account { namespace, name }) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Some(Self { namespace, name }))
            }
            _ => Err("the executor's serviceAccount needs a namespace and a name"),
        }
    }

    fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    fn groups(&self) -> [String; 3] {
        [
            "system:serviceaccounts".to_owned(),
            "system:authenticated".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
        ]
    }

    /// Whether it may do with an object what applying it, and deleting it if it is `owned`, comes to.
    pub(crate) async fn check(
        &self,
        inner: &Inner,
        served: &Served,
        object: &ObjectId,
        owned: bool,
        desired: &DynamicObject,
    ) -> Result<(), Objection> {
        let unknown = |source| Objection::Unknown { executor: self.user(), source: Box::new(source) };
        let reviews: Api<SubjectAccessReview> = Api::all(inner.client.clone());
        let verbs = ["get", "create", "update", "patch", "delete"];
        for verb in verbs.into_iter().filter(|verb| owned || *verb != "delete") {
            let review = SubjectAccessReview {
                spec: SubjectAccessReviewSpec {
                    user: Some(self.user()),
                    groups: Some(self.groups().into()),
                    resource_attributes: Some(ResourceAttributes {
                        group: Some(object.resource.group.clone()),
                        version: Some(object.resource.version.clone()),
                        resource: Some(object.resource.resource.clone()),
                        namespace: object.key.namespace.clone(),
                        name: Some(object.key.name.clone()),
                        verb: Some(verb.to_owned()),
                        ..ResourceAttributes::default()
                    }),
                    ..SubjectAccessReviewSpec::default()
                },
                ..SubjectAccessReview::default()
            };
            let review = reviews.create(&PostParams::default(), &review).await.map_err(unknown)?;
            if !review.status.is_some_and(|status| status.allowed) {
                return Err(Objection::Denied {
                    executor: self.user(),
                    verb,
                    object: Box::new(object.clone()),
                });
            }
        }
        self.check_escalation(inner, served, object, desired).await
    }

    /// A right to write roles is no right to write any role: only the API server knows, so it is asked to make believe.
    async fn check_escalation(
        &self,
        inner: &Inner,
        served: &Served,
        object: &ObjectId,
        desired: &DynamicObject,
    ) -> Result<(), Objection> {
        let grants = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
        let resource = &object.resource;
        if resource.group != "rbac.authorization.k8s.io" || !grants.contains(&resource.resource.as_str()) {
            return Ok(());
        }
        let unknown = |source| Objection::Unknown { executor: self.user(), source: Box::new(source) };
        let body = serde_json::to_vec(desired).map_err(|error| unknown(kube::Error::SerdeError(error)))?;
        let path = DynamicObject::url_path(&served.resource, object.key.namespace.as_deref());
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let request = Request::new(path).create(&parameters, body);
        let mut request = request.map_err(|error| unknown(kube::Error::BuildRequest(error)))?;
        let denied = || Objection::Escalation { executor: self.user(), object: Box::new(object.clone()) };
        let headers = request.headers_mut();
        headers.insert("impersonate-user", self.user().parse().map_err(|_| denied())?);
        for group in self.groups() {
            headers.append("impersonate-group", group.parse().map_err(|_| denied())?);
        }
        match inner.client.request::<Value>(request).await {
            // What is there already was checked for this all the same.
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 403 => Err(denied()),
            Err(error) => Err(unknown(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn executor(value: Value) -> Result<Option<Executor>, &'static str> {
        let spec: ManifestWorkSpec =
            serde_json::from_value(json!({"workload": {}, "executor": value})).unwrap();
        Executor::of(&spec)
    }

    #[test]
    fn executor_is_a_service_account_or_nobody() {
        let account =
            json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "n", "name": "a"}}});
        let found = executor(account).unwrap().unwrap();
        assert_eq!(found.user(), "system:serviceaccount:n:a");
        assert_eq!(executor(Value::Null), Ok(None));
        assert_eq!(Executor::of(&ManifestWorkSpec::default()), Ok(None));
        for odd in [
            json!({}),
            json!("a"),
            json!({"subject": {"type": "User"}}),
            json!({"subject": {"type": "ServiceAccount"}}),
            json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"name": "a"}}}),
        ] {
            assert!(executor(odd.clone()).is_err(), "{odd}");
        }
    }
}
