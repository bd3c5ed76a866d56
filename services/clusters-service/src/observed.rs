//! What Maestro knows of a bundle, reduced to what decisions are made from.

use std::collections::BTreeMap;

use pilothouse_crds::{
    ConditionStatus, HostedClusterStatus, ManifestCondition, ManifestWorkStatus, find_condition,
    is_condition_true,
};
use pilothouse_maestro_api::{BundleStatus, ManifestBundle, ResourceBundle, feedback};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::manifests::{GENERATION_FEEDBACK, OBSERVED_GENERATION_FEEDBACK, STATUS_FEEDBACK, mark};

/// A bundle as Maestro has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bundle {
    pub(crate) version: i32,
    /// Its deletion was asked for.
    pub(crate) deleting: bool,
    /// What is to be applied.
    pub(crate) content: ManifestBundle,
    /// What the agent reported about this very version.
    pub(crate) status: Option<BundleStatus>,
}

/// What was observed of an object at the bottom of a bundle.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// Whether everything in the bundle was applied, at every level.
    pub(crate) applied: bool,
    /// Why not, in words.
    pub(crate) problem: Option<String>,
    /// The object's conditions.
    pub(crate) conditions: BTreeMap<String, ConditionReport>,
    /// Everything else that was fed back.
    pub(crate) values: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConditionReport {
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Bundle {
    pub(crate) fn of(bundle: ResourceBundle) -> Self {
        let version = bundle.version;
        Self {
            version,
            deleting: bundle.deleted_at.is_some(),
            content: ManifestBundle {
                manifests: bundle.manifests,
                delete_option: typed(&bundle.delete_option),
                manifest_configs: typed(&bundle.manifest_configs),
                executor: None,
            },
            // A report about a former version says nothing about this one.
            status: bundle
                .status
                .filter(|status| status.observed_version == version)
                .map(|status| status.status),
        }
    }

    /// What was observed of the object of `kind` inside the `ManifestWork` that the bundle wraps.
    pub(crate) fn nested_report(&self, kind: &str) -> Report {
        let Some(status) = &self.status else { return Report::default() };
        if let Some(problem) = not_applied(status) {
            return Report { problem: Some(problem), ..Report::default() };
        }
        let Some(work) =
            whole_status(status).and_then(|value| serde_json::from_value::<ManifestWorkStatus>(value).ok())
        else {
            return Report::default();
        };
        let manifests = &work.resource_status.manifests;
        let problem = manifests.iter().find_map(manifest_problem);
        // The outer agent has written the work; the inner one may still be talking about what the work was before.
        let seen = manifests.iter().find_map(|manifest| feedback(manifest, mark::FEEDBACK));
        if mark::read(&self.content).is_some_and(|posted| seen.is_none_or(|seen| seen != posted)) {
            return Report { problem, ..Report::default() };
        }
        let applied = is_condition_true(&work.conditions, "Applied");
        let mut report = Report { applied, problem, ..Report::default() };
        if let Some(object) = manifests.iter().find(|found| found.resource_meta.kind == kind) {
            report.take_values(object);
        }
        report
    }

    /// What was observed of the object that is the bundle's only manifest.
    pub(crate) fn direct_report(&self) -> Report {
        let Some(status) = &self.status else { return Report::default() };
        if let Some(problem) = not_applied(status) {
            return Report { problem: Some(problem), ..Report::default() };
        }
        let mut report = Report { applied: status.is_true("Applied"), ..Report::default() };
        let value = whole_status(status).unwrap_or_default();
        for condition in value["conditions"].as_array().into_iter().flatten() {
            let text = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
            let found =
                ConditionReport { status: text("status"), reason: text("reason"), message: text("message") };
            report.conditions.insert(text("type"), found);
        }
        report
    }
}

impl Report {
    pub(crate) fn is_true(&self, condition: &str) -> bool {
        self.conditions.get(condition).is_some_and(|found| found.status == "True")
    }

    pub(crate) fn is_false(&self, condition: &str) -> bool {
        self.conditions.get(condition).is_some_and(|found| found.status == "False")
    }

    /// Whether a condition says that what is asked for is wrong, which waiting does not mend. That something is not there which is
    /// named is not that: whoever applies the manifests may be in the middle of it, or just have gone on after a fall.
    pub(crate) fn is_refused(&self, condition: &str) -> bool {
        let found = self.conditions.get(condition);
        self.is_false(condition)
            && found.is_some_and(|found| found.reason != HostedClusterStatus::MISSING_REFERENCE)
    }

    /// What a condition says, in words; what to say if it is not there is the caller's.
    pub(crate) fn words(&self, condition: &str) -> Option<String> {
        let found = self.conditions.get(condition)?;
        let ConditionReport { status, reason, message } = found;
        let because = if message.is_empty() { reason } else { message };
        Some(format!("{condition} is {status}: {because}"))
    }

    /// Whether the object's status is about what is asked of it now, as far as that was fed back.
    pub(crate) fn is_current(&self) -> bool {
        let generations = self.number(GENERATION_FEEDBACK).zip(self.number(OBSERVED_GENERATION_FEEDBACK));
        generations.is_none_or(|(asked, seen)| seen >= asked)
    }

    pub(crate) fn text(&self, value: &str) -> Option<&str> {
        self.values.get(value)?.as_str()
    }

    pub(crate) fn number(&self, value: &str) -> Option<i64> {
        self.values.get(value)?.as_i64()
    }

    /// `<Condition>-<Field>` belongs to a condition, everything else stands for itself.
    fn take_values(&mut self, object: &ManifestCondition) {
        for value in &object.status_feedback.values {
            let Some(found) = feedback(object, &value.name) else { continue };
            let text = || found.as_str().unwrap_or_default().to_owned();
            match value.name.rsplit_once('-') {
                Some((condition, "Status")) => self.condition(condition).status = text(),
                Some((condition, "Reason")) => self.condition(condition).reason = text(),
                Some((condition, "Message")) => self.condition(condition).message = text(),
                Some((_, "LastTransitionTime")) => {}
                _ => drop(self.values.insert(value.name.clone(), found)),
            }
        }
    }

    fn condition(&mut self, name: &str) -> &mut ConditionReport {
        self.conditions.entry(name.to_owned()).or_default()
    }
}

/// What Maestro keeps as it was sent, as what it means. What cannot be read differs from whatever was wanted.
fn typed<T: DeserializeOwned + Default>(sent: &impl Serialize) -> T {
    serde_json::to_value(sent).and_then(serde_json::from_value).unwrap_or_default()
}

/// What the rule for a whole status fed back, of the bundle's only manifest.
fn whole_status(status: &BundleStatus) -> Option<Value> {
    feedback(status.resource_status.first()?, STATUS_FEEDBACK)
}

/// What the outer agent could not apply.
fn not_applied(status: &BundleStatus) -> Option<String> {
    let applied = status.condition("Applied")?;
    if applied.status == ConditionStatus::True {
        return None;
    }
    let of_manifest = status.resource_status.iter().find_map(manifest_problem);
    Some(of_manifest.unwrap_or_else(|| applied.message.clone()))
}

/// What an agent could not apply of one manifest.
fn manifest_problem(manifest: &ManifestCondition) -> Option<String> {
    let applied = find_condition(&manifest.conditions, "Applied")?;
    let meta = &manifest.resource_meta;
    (applied.status == ConditionStatus::False)
        .then(|| format!("{} `{}`: {}", meta.kind, meta.name, applied.message))
}
