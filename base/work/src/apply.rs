//! Bringing a work about.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use pilothouse_crds::{
    AppliedResource, ManifestConfig, ManifestWorkSpec, ManifestWorkStatus, PropagationPolicy, UpdateStrategy,
    UpdateStrategyType,
};
use pilothouse_informer::ObjectKey;
use serde_json::{Value, json};
use tracing::{debug, info};

use crate::engine::{Inner, Work};
use crate::executor::Executor;
use crate::ignore::{HASH, Ignored};
use crate::object::{Named, ObjectId, Served};
use crate::status::{Outcome, Presence, assemble};
use crate::written::Newest;
use crate::{Error, feedback, merge, owner, remove, rule};

/// How often a write is tried against others who change the same object.
const ATTEMPTS: usize = 5;

/// A manifest whose resource is known.
struct Target<'a> {
    manifest: &'a Value,
    /// The same, as it was last applied by an agent before this one.
    before: Option<&'a Value>,
    served: Served,
    object: ObjectId,
    strategy: UpdateStrategy,
    /// Fields that are left to others.
    ignored: Ignored,
    /// Whether the object goes with the work.
    owned: bool,
}

pub(crate) async fn apply(
    inner: &Inner,
    work: &Work,
    before: &ManifestWorkStatus,
) -> Result<ManifestWorkStatus, Error> {
    let record = inner.ensure_record(work).await?;
    let reference = owner::reference(&record.name_any(), &record.uid().unwrap_or_default());

    // All of them first: what is watched before it is written cannot change unseen.
    let mut found = Vec::new();
    for (ordinal, manifest) in work.spec.workload.manifests.iter().enumerate() {
        found.push(resolve(inner, work, ordinal, manifest).await);
    }
    let known = record.status.as_ref().map(|status| status.applied_resources.clone()).unwrap_or_default();
    let mut watched: BTreeSet<_> = known.iter().map(ObjectId::of_applied).collect();
    watched.extend(found.iter().flatten().map(|(_, target)| target.object.clone()));
    inner.watches.register(&work.name, watched);
    for (_, target) in found.iter().flatten() {
        inner.watches.ensure(&target.served);
    }

    let executor = Executor::of(&work.spec);
    let mut outcomes = Vec::new();
    let mut applied = Vec::new();
    let mut wanted = BTreeSet::new();
    for entry in found {
        let (meta, target) = match entry {
            Ok(entry) => entry,
            Err(outcome) => {
                outcomes.push(*outcome);
                continue;
            }
        };
        if target.owned {
            wanted.insert(target.object.clone());
        }
        let (applied_now, found) = match allowed(inner, &executor, &target, &reference).await {
            Ok(()) => match one(inner, &target, &reference).await {
                Ok(object) => (Ok(()), Ok(object)),
                Err(error) => {
                    // What is there is told all the same: that it cannot be changed is no reason not to say how it is.
                    let problem = describe(&meta.kind, &error);
                    let found = read(inner, &target).await.map_err(|error| describe(&meta.kind, &error));
                    (Err(problem), found)
                }
            },
            // Who may not have it changed may not be allowed to see it either.
            Err(problem) => (Err(problem.clone()), Err(problem)),
        };
        if applied_now.is_err() {
            debug!(work = work.name, object = %target.object, "a manifest could not be applied");
        }
        let rules = config(&work.spec, &target.object, |config| !config.feedback_rules.is_empty())
            .map(|config| config.feedback_rules.as_slice());
        let conditions = config(&work.spec, &target.object, |config| !rule::rules(config).is_empty())
            .map_or(&[][..], rule::rules);
        let judge = |object: Option<&Value>| {
            let kind = target.manifest["apiVersion"].as_str().unwrap_or_default();
            rule::evaluate(conditions, kind, &meta.kind, object)
        };
        let (presence, feedback, verdicts) = match found {
            Ok(Some(object)) => {
                if target.owned && applied_now.is_ok() {
                    applied.push(target.object.applied(object.uid().unwrap_or_default()));
                }
                // Only if somebody looks at it: it may be large.
                let is_looked_at = rules.is_some() || !conditions.is_empty();
                let value = if is_looked_at {
                    serde_json::to_value(&*object).unwrap_or_default()
                } else {
                    Value::Null
                };
                let collect = |rules| {
                    let version = &target.object.resource.version;
                    feedback::collect(rules, version, &meta.kind, &value, inner.json_raw_limit)
                };
                (Presence::Present, rules.map(collect), judge(Some(&value)))
            }
            Ok(None) => (Presence::Absent, None, judge(None)),
            Err(problem) => (Presence::Unknown(problem), None, judge(None)),
        };
        outcomes.push(Outcome { meta, applied: applied_now, presence, feedback, verdicts });
    }

    // What could not be applied, or looked at, this time is still the work's if it was before.
    let kept = known.iter().filter(|entry| {
        let object = ObjectId::of_applied(entry);
        wanted.contains(&object) && !applied.iter().any(|applied| ObjectId::of_applied(applied) == object)
    });
    applied.extend(kept.cloned().collect::<Vec<_>>());
    let obsolete: Vec<AppliedResource> =
        known.into_iter().filter(|entry| !wanted.contains(&ObjectId::of_applied(entry))).collect();
    // Written down before anything is deleted: whatever happens, nothing that exists is missing from the record.
    inner.record_applied(&work.name, &record, applied.iter().chain(&obsolete).cloned().collect()).await?;
    if !obsolete.is_empty() {
        let pending = remove::delete_all(inner, &obsolete, &reference.uid).await?;
        let record = inner.ensure_record(work).await?;
        applied.extend(pending);
        inner.record_applied(&work.name, &record, applied).await?;
    }
    Ok(assemble(before, work.generation, outcomes, inner.clock.now()))
}

/// Finds out what a manifest is; otherwise what has become of it.
async fn resolve<'a>(
    inner: &Inner,
    work: &'a Work,
    ordinal: usize,
    manifest: &'a Value,
) -> Result<(pilothouse_crds::ManifestResourceMeta, Target<'a>), Box<Outcome>> {
    let spec = &work.spec;
    let failed = |meta, problem: String| {
        let presence = Presence::NoResource;
        Box::new(Outcome { meta, applied: Err(problem), presence, feedback: None, verdicts: Vec::new() })
    };
    let named = match Named::of(manifest) {
        Ok(named) => named,
        Err(problem) => {
            let meta = pilothouse_crds::ManifestResourceMeta {
                ordinal: i32::try_from(ordinal).unwrap_or(i32::MAX),
                ..Default::default()
            };
            return Err(failed(meta, problem.to_owned()));
        }
    };
    let mut meta = named.meta(ordinal);
    let served = match inner.mapper.by_kind(&inner.client, &named.kind).await {
        Ok(served) => served,
        Err(error) => {
            let problem = format!("the API server does not serve it: {}", describe("", &error));
            return Err(failed(meta, problem));
        }
    };
    meta.resource = served.resource.plural.clone();
    let object = served.object(&named);
    meta.namespace = object.key.namespace_or_empty().to_owned();
    let strategy = config(spec, &object, |config| config.update_strategy.is_some())
        .and_then(|config| config.update_strategy.clone())
        .unwrap_or_default();
    let owned = strategy.type_ != UpdateStrategyType::ReadOnly && !is_orphaned(spec, &object);
    let ignored = match strategy.server_side_apply.as_ref().map(Ignored::of) {
        Some(Err(problem)) => return Err(failed(meta, problem)),
        Some(Ok(ignored)) if strategy.type_ == UpdateStrategyType::ServerSideApply => ignored,
        _ => Ignored::default(),
    };
    let before = work.previous.iter().flat_map(|previous| &previous.workload.manifests).find(|before| {
        let before = Named::of(before).ok().filter(|before| before.kind == named.kind);
        before.is_some_and(|before| served.object(&before) == object)
    });
    Ok((meta, Target { manifest, before, served, object, strategy, ignored, owned }))
}

/// The first configuration that is about an object and says something of the kind asked for.
fn config<'a>(
    spec: &'a ManifestWorkSpec,
    object: &ObjectId,
    says: impl Fn(&ManifestConfig) -> bool,
) -> Option<&'a ManifestConfig> {
    spec.manifest_configs.iter().filter(|config| says(config)).find(|config| {
        let id = &config.resource_identifier;
        id.group == object.resource.group
            && id.resource == object.resource.resource
            && matches_pattern(&id.name, &object.key.name)
            && matches_pattern(&id.namespace, object.key.namespace_or_empty())
    })
}

/// Whether a text is what a pattern describes, in which `*` stands for anything.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    (0..=text.len())
        .filter(|start| text.is_char_boundary(*start))
        .any(|start| matches_pattern(rest, &text[start..]))
}

fn is_orphaned(spec: &ManifestWorkSpec, object: &ObjectId) -> bool {
    let Some(option) = &spec.delete_option else { return false };
    match option.propagation_policy {
        PropagationPolicy::Foreground => false,
        PropagationPolicy::Orphan => true,
        PropagationPolicy::SelectivelyOrphan => {
            let mut rules = option.selectively_orphans.iter().flat_map(|rules| &rules.orphaning_rules);
            rules.any(|rule| {
                (rule.group.as_str(), rule.resource.as_str())
                    == (object.resource.group.as_str(), object.resource.resource.as_str())
                    && rule.name == object.key.name
                    && rule.namespace == object.key.namespace_or_empty()
            })
        }
    }
}

/// Whether a work may do with an object what it wants to, as far as it names somebody who has to be allowed to.
async fn allowed(
    inner: &Inner,
    executor: &Result<Option<Executor>, &'static str>,
    target: &Target<'_>,
    reference: &OwnerReference,
) -> Result<(), String> {
    let Some(executor) = executor.as_ref().map_err(|problem| (*problem).to_owned())? else { return Ok(()) };
    let desired = desired(target, target.manifest, reference).map_err(|error| error.to_string())?;
    executor
        .check(inner, &target.served, &target.object, target.owned, &desired)
        .await
        .map_err(|objection| objection.to_string())
}

/// Applies one manifest. Answers the object as it is now, if it is there.
async fn one(
    inner: &Inner,
    target: &Target<'_>,
    reference: &OwnerReference,
) -> Result<Option<Arc<DynamicObject>>, kube::Error> {
    let mut live = read(inner, target).await?;
    for attempt in 1.. {
        match write(inner, target, reference, live).await {
            Err(kube::Error::Api(status))
                if status.code == 409 && attempt < ATTEMPTS && !is_of_fields(&status) =>
            {
                // Somebody else was faster, or the cache was behind.
                live = fetch(inner, target).await?;
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                inner.mapper.forget(&kind(&target.served));
                return Err(kube::Error::Api(status));
            }
            outcome => return outcome,
        }
    }
    Ok(None)
}

async fn write(
    inner: &Inner,
    target: &Target<'_>,
    reference: &OwnerReference,
    live: Option<Arc<DynamicObject>>,
) -> Result<Option<Arc<DynamicObject>>, kube::Error> {
    let api = target.served.api(&inner.client, &target.object.key);
    let strategy = target.strategy.type_;
    let Some(live) = live else {
        if strategy == UpdateStrategyType::ReadOnly {
            return Ok(None);
        }
        if strategy != UpdateStrategyType::ServerSideApply {
            let desired = desired(target, target.manifest, reference)?;
            let made = api.create(&PostParams::default(), &desired).await?;
            return Ok(Some(keep(inner, target, made, "made an object")));
        }
        let made = server_side_apply(inner, target, reference, None).await?;
        return Ok(Some(keep(inner, target, made, "made an object")));
    };
    let references = owner::changed(live.metadata.owner_references.as_ref(), reference, target.owned);
    match strategy {
        UpdateStrategyType::ReadOnly => Ok(Some(live)),
        UpdateStrategyType::CreateOnly => {
            let Some(references) = references else { return Ok(Some(live)) };
            let patch = json!({"metadata": {
                "ownerReferences": references, "resourceVersion": live.metadata.resource_version}});
            let name = &target.object.key.name;
            let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            Ok(Some(keep(inner, target, patched, "took over an object")))
        }
        UpdateStrategyType::Update | UpdateStrategyType::ServerSideApply => {
            let present = serde_json::to_value(&*live).map_err(kube::Error::SerdeError)?;
            let written = inner.written.manifest(&target.object);
            let (is_known, is_satisfied) = if target.ignored.is_empty() {
                let is_known = match &written {
                    Some(written) => written.is(target.manifest),
                    None => target.before == Some(target.manifest),
                };
                (is_known, merge::is_satisfied(target.manifest, &present))
            } else {
                // The object itself says what was applied last.
                let known = live.annotations().get(HASH);
                let is_known = known == Some(&target.ignored.hash(target.manifest));
                (is_known, merge::is_satisfied(&target.ignored.compared(target.manifest), &present))
            };
            if is_known && is_satisfied && references.is_none() {
                return Ok(Some(live));
            }
            if strategy == UpdateStrategyType::ServerSideApply {
                let applied = server_side_apply(inner, target, reference, Some(&live)).await?;
                return Ok(Some(keep(inner, target, applied, "applied an object")));
            }
            let written = written.and_then(|written| written.read());
            let merged = merge::overlay(target.manifest, written.as_ref().or(target.before), &present);
            if references.is_none() && merged == present {
                return Ok(Some(keep(inner, target, (*live).clone(), "found an object as it should be")));
            }
            let mut merged: DynamicObject =
                serde_json::from_value(merged).map_err(kube::Error::SerdeError)?;
            if let Some(references) = references {
                merged.metadata.owner_references = Some(references);
            }
            let replaced = api.replace(&target.object.key.name, &PostParams::default(), &merged).await?;
            Ok(Some(keep(inner, target, replaced, "updated an object")))
        }
    }
}

async fn server_side_apply(
    inner: &Inner,
    target: &Target<'_>,
    reference: &OwnerReference,
    live: Option<&DynamicObject>,
) -> Result<DynamicObject, kube::Error> {
    let options = target.strategy.server_side_apply.clone().unwrap_or_default();
    let parameters = PatchParams { force: options.force, ..PatchParams::apply(&options.field_manager) };
    let desired = if target.ignored.is_empty() {
        desired(target, target.manifest, reference)?
    } else {
        let applied = target.ignored.applied(target.manifest, live, &options.field_manager);
        desired(target, &applied, reference)?
    };
    let api = target.served.api(&inner.client, &target.object.key);
    api.patch(&target.object.key.name, &parameters, &Patch::Apply(&desired)).await
}

/// Whether somebody else has a field: trying again at once would not help.
fn is_of_fields(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "FieldManagerConflict")
}

/// The manifest as an object to be sent.
fn desired(
    target: &Target<'_>,
    manifest: &Value,
    reference: &OwnerReference,
) -> Result<DynamicObject, kube::Error> {
    let mut desired: DynamicObject =
        serde_json::from_value(manifest.clone()).map_err(kube::Error::SerdeError)?;
    let ObjectKey { namespace, name } = target.object.key.clone();
    let metadata = &mut desired.metadata;
    (metadata.namespace, metadata.name) = (namespace, Some(name));
    // Those are the server's.
    (metadata.uid, metadata.resource_version, metadata.creation_timestamp) = (None, None, None);
    for map in [&mut metadata.labels, &mut metadata.annotations].into_iter().flatten() {
        map.retain(|key, _| !key.ends_with('-'));
    }
    if target.owned {
        metadata.owner_references.get_or_insert_default().push(reference.clone());
    }
    Ok(desired)
}

fn keep(inner: &Inner, target: &Target<'_>, object: DynamicObject, done: &'static str) -> Arc<DynamicObject> {
    info!(object = %target.object, version = object.metadata.resource_version, "{done}");
    let object = Arc::new(object);
    inner.written.put(&target.object, target.manifest, &object);
    object
}

/// The object as it is, from the cache if that is not behind what was written last.
async fn read(inner: &Inner, target: &Target<'_>) -> Result<Option<Arc<DynamicObject>>, kube::Error> {
    let heard = inner.watches.get(&target.object);
    match inner.written.newest(&target.object, heard) {
        Newest::Known(object) => Ok(Some(object)),
        Newest::Unknown => fetch(inner, target).await,
    }
}

async fn fetch(inner: &Inner, target: &Target<'_>) -> Result<Option<Arc<DynamicObject>>, kube::Error> {
    let api = target.served.api(&inner.client, &target.object.key);
    Ok(api.get_opt(&target.object.key.name).await?.map(Arc::new))
}

fn kind(served: &Served) -> kube::core::GroupVersionKind {
    let resource = &served.resource;
    kube::core::GroupVersionKind::gvk(&resource.group, &resource.version, &resource.kind)
}

/// What may be said of a failure. A server's complaint may quote what it complains about: of secrets, and of works, which
/// contain some, only the fields are named.
fn describe(kind: &str, error: &kube::Error) -> String {
    let is_confidential = matches!(kind, "Secret" | "ManifestWork");
    match error {
        kube::Error::Api(status) if is_confidential => {
            let details = status.details.iter().flat_map(|details| &details.causes);
            let fields: Vec<_> = details.map(|cause| cause.field.as_str()).collect();
            let fields = if fields.is_empty() { String::new() } else { format!(": {}", fields.join(", ")) };
            format!("{} ({}){fields}", status.reason, status.code)
        }
        kube::Error::Api(status) => status.message.clone(),
        _ if is_confidential => "the request failed before there was an answer".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c*e", "abcde", true),
            ("a*x", "abc", false),
            ("", "", true),
        ] {
            assert_eq!(matches_pattern(pattern, text), expected, "{pattern} {text}");
        }
    }
}
