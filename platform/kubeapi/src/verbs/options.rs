//! What lists and watches may be told in the query.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::catalogue::Resource;
use crate::request::Parameters;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{Cause, Failure};

/// Which objects are meant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

/// How fresh an answer has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Everything that was written before.
    Latest,
    /// Whatever is at hand.
    Any,
    /// Not older than a version.
    NotOlderThan(u64),
    /// Of exactly one version.
    Exactly(u64),
}

impl Selection {
    pub(crate) fn parse(resource: &Resource, query: &Parameters) -> Result<Self, Failure> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default(), resource)?;
        Ok(Self { labels, fields })
    }

    /// Whether it selects everything, so that nothing has to be looked into.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The one name that objects may have, if there is one: then nobody else's have to be looked into.
    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.name()
    }

    pub(crate) fn matches(&self, resource: &Resource, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(resource, object)
    }

    pub(crate) fn matches_bytes(&self, resource: &Resource, object: &Bytes) -> bool {
        self.is_everything()
            || serde_json::from_slice(object).is_ok_and(|object| self.matches(resource, &object))
    }
}

impl Freshness {
    /// What `resourceVersion` and `resourceVersionMatch` of a list mean together.
    pub(crate) fn of_list(query: &Parameters) -> Result<Self, Failure> {
        let version =
            version(query).map_err(|why| Failure::bad_request(format!("invalid resource version: {why}")))?;
        let matched = query.get("resourceVersionMatch");
        if query.flag("sendInitialEvents") {
            return Err(refused("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        let continued = query.get("continue").is_some();
        if let Some(matched) = matched {
            const FIELD: &str = "resourceVersionMatch";
            let mut causes = Vec::new();
            if version.is_none() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                causes.push(Cause::forbidden(FIELD, why));
            }
            if continued {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                causes.push(Cause::forbidden(FIELD, why));
            }
            if !matches!(matched, "Exact" | "NotOlderThan") {
                let known = ["Exact", "NotOlderThan", ""];
                causes.push(Cause::not_supported(FIELD, &json!(matched), known));
            }
            if !causes.is_empty() {
                return Err(Failure::invalid_options("ListOptions", causes));
            }
        }
        if continued {
            return match version {
                None | Some(0) => Ok(Self::Any),
                Some(_) => Err(Failure::bad_request(
                    "specifying resource version is not allowed when using continue",
                )),
            };
        }
        Ok(match (version, matched) {
            (None, _) => Self::Latest,
            (Some(0), Some("Exact")) => {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                return Err(refused("resourceVersionMatch", why));
            }
            (Some(0), _) => Self::Any,
            (Some(version), Some("Exact")) => Self::Exactly(version),
            (Some(version), Some(_)) => Self::NotOlderThan(version),
            (Some(version), None) if query.get("limit").is_some_and(|limit| limit != "0") => {
                Self::Exactly(version)
            }
            (Some(version), None) => Self::NotOlderThan(version),
        })
    }

    pub(crate) fn of_get(query: &Parameters) -> Result<Self, Failure> {
        Ok(match version(query).map_err(Failure::unexpected)? {
            None => Self::Latest,
            Some(0) => Self::Any,
            Some(version) => Self::NotOlderThan(version),
        })
    }
}

/// The version a query names.
pub(crate) fn version(query: &Parameters) -> Result<Option<u64>, String> {
    let parsed = |text: &str| {
        text.parse()
            .map_err(|_| format!("resourceVersion: Invalid value: {text:?}: {}", no_number("Uint", text)))
    };
    query.get("resourceVersion").map(parsed).transpose()
}

/// A number of the query.
pub(crate) fn number(query: &Parameters, name: &str) -> Result<Option<i64>, Failure> {
    let parsed = |text: &str| text.parse().map_err(|_| Failure::bad_request(no_number("Int", text)));
    query.get(name).map(parsed).transpose()
}

/// In the words in which every client of the real server is told.
pub(crate) fn no_number(kind: &str, text: &str) -> String {
    format!("strconv.Parse{kind}: parsing {text:?}: invalid syntax")
}

/// Whether everything is done but the writing. `kind` names the options that the values are part of.
pub(crate) fn dry_run<'a>(kind: &str, values: impl Iterator<Item = &'a str>) -> Result<bool, Failure> {
    let values: Vec<_> = values.collect();
    match values.iter().all(|value| *value == "All") {
        true => Ok(!values.is_empty()),
        false => {
            let cause = Cause::not_supported("dryRun", &json!(values), ["All"]);
            Err(Failure::invalid_options(kind, vec![cause]))
        }
    }
}

pub(crate) fn refused(field: &str, why: &str) -> Failure {
    Failure::invalid_options("ListOptions", vec![Cause::forbidden(field, why)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::RequestInfo;

    fn of_list(query: &str) -> Result<Freshness, u16> {
        let info = RequestInfo::parse(&http::Method::GET, "/api/v1/pods", Some(query));
        Freshness::of_list(&info.query).map_err(|failure| failure.code)
    }

    #[test]
    fn version_and_match_mean_together_what_the_table_says() {
        for (query, expected) in [
            ("", Ok(Freshness::Latest)),
            ("resourceVersion=0", Ok(Freshness::Any)),
            ("resourceVersion=7", Ok(Freshness::NotOlderThan(7))),
            ("resourceVersion=7&limit=2", Ok(Freshness::Exactly(7))),
            ("resourceVersion=7&resourceVersionMatch=NotOlderThan&limit=2", Ok(Freshness::NotOlderThan(7))),
            ("resourceVersion=7&resourceVersionMatch=Exact", Ok(Freshness::Exactly(7))),
            ("resourceVersion=0&resourceVersionMatch=Exact", Err(422)),
            ("resourceVersionMatch=Exact", Err(422)),
            ("resourceVersion=x", Err(400)),
            ("continue=abc&resourceVersion=7", Err(400)),
            ("continue=abc&resourceVersion=7&resourceVersionMatch=Exact", Err(422)),
            ("sendInitialEvents=true", Err(422)),
        ] {
            assert_eq!(of_list(query), expected, "{query}");
        }
    }
}
