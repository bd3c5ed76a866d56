//! One file per verb, and what they have in common.

use axum::response::Response;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, StatusCode};
use serde_json::Value;

use crate::answer::{self, Form};
use crate::catalogue::group_version;
use crate::patch as languages;
use crate::request::Verb;
use crate::server::Call;
use crate::status::{Cause, Failure};
use crate::storage::Stored;
use crate::{
    components, consumption, evictions, namespaces, pods, protobuf, reviews, service_accounts, strategy,
};

pub(crate) mod create;
mod decoding;
pub(crate) mod delete;
mod delete_collection;
mod get;
mod list;
mod options;
mod patch;
mod scale;
mod strict;
mod update;
mod watch;

/// How often a change is tried against others who change the same object.
pub(crate) const ATTEMPTS: usize = 20;
/// The longest name of a field manager.
const LONGEST_MANAGER: usize = 128;

pub(crate) async fn handle(call: Call) -> Result<Response, Failure> {
    let verb = call.info.verb;
    let offered = match &call.address.subresource {
        None => call.resource.offers(verb.as_str()),
        Some(name) => {
            let subresource = call.resource.subresource(name).ok_or_else(|| match call.resource.custom {
                true => Failure::not_found(&call.resource, call.name()),
                false => Failure::no_such_path(),
            })?;
            subresource.verbs.contains(&verb.as_str())
        }
    };
    let placeless = call.resource.namespaced && call.address.namespace.is_none();
    // Objects are made in collections and changed by name.
    let misplaced = match verb {
        Verb::Create => call.address.name.is_some() && call.address.subresource.is_none(),
        Verb::Update | Verb::Patch => call.address.name.is_none(),
        _ => false,
    };
    if !offered || misplaced || (placeless && !matches!(verb, Verb::List | Verb::Watch)) {
        return Err(Failure::method_not_allowed());
    }
    let deprecation = call.resource.deprecation.clone();
    let mut response = dispatch(call, verb).await?;
    if let Some(deprecation) = deprecation {
        answer::warn(&mut response, &[deprecation]);
    }
    Ok(response)
}

async fn dispatch(call: Call, verb: Verb) -> Result<Response, Failure> {
    if call.resource.is("", "componentstatuses") {
        return components::handle(&call);
    }
    if call.resource.is("", "bindings") {
        return pods::bind(&of_pod(call)?).await;
    }
    if call.resource.group == consumption::GROUP {
        return consumption::handle(&call).await;
    }
    if call.resource.is_virtual() {
        return reviews::handle(&call).await;
    }
    match (verb, call.address.subresource.as_deref()) {
        (Verb::Create, Some("binding")) => pods::bind(&call).await,
        (Verb::Create, Some("eviction")) => evictions::evict(&call).await,
        (Verb::Create, Some("token")) => service_accounts::token(&call).await,
        (Verb::Get, Some("log")) => pods::log(&call).await,
        (Verb::Update, Some("finalize")) => namespaces::finalize(&call).await,
        (Verb::Get, Some("scale")) => scale::get(&call).await,
        (Verb::Update | Verb::Patch, Some("scale")) => scale::change(&call).await,
        (Verb::Create, None) => create::handle(&call).await,
        (Verb::Get, None | Some("status" | "approval" | "ephemeralcontainers" | "resize")) => {
            get::handle(&call).await
        }
        (Verb::Update, None | Some(_)) => update::handle(&call).await,
        (Verb::Patch, None | Some(_)) => patch::handle(&call).await,
        (Verb::Delete, None) => delete::handle(&call).await,
        (Verb::DeleteCollection, None) => delete_collection::handle(&call).await,
        (Verb::List, None) => list::handle(&call).await,
        (Verb::Watch, None) => watch::handle(call).await,
        _ => Err(Failure::method_not_allowed()),
    }
}

/// A binding that is sent to the collection is that of the pod of its name.
fn of_pod(mut call: Call) -> Result<Call, Failure> {
    let binding = call.body_value()?;
    call.resource = call.server.built_in("", "pods")?;
    call.address.plural = "pods".to_owned();
    call.address.subresource = Some("binding".to_owned());
    call.address.name = binding["metadata"]["name"].as_str().map(str::to_owned);
    Ok(call)
}

/// The object that a call names, which must be there.
pub(crate) async fn existing(call: &Call) -> Result<Stored, Failure> {
    let found = call.server.storage.get(&call.resource, call.namespace(), call.name()).await?;
    found.ok_or_else(|| Failure::not_found(&call.resource, call.name()))
}

impl Call {
    pub(crate) fn name(&self) -> &str {
        self.address.name.as_deref().unwrap_or_default()
    }

    /// Empty for what lies in no namespace.
    pub(crate) fn namespace(&self) -> &str {
        if self.resource.namespaced { self.address.namespace.as_deref().unwrap_or_default() } else { "" }
    }

    pub(crate) fn form(&self) -> Result<Form, Failure> {
        Form::negotiate(&self.headers, &self.info.query)
    }

    pub(crate) fn media_type(&self) -> &str {
        let media = self.headers.get(CONTENT_TYPE).and_then(|value: &HeaderValue| value.to_str().ok());
        let media = media.unwrap_or(answer::JSON);
        media.split(';').next().unwrap_or(media).trim()
    }

    /// The body as a value.
    pub(crate) fn body_value(&self) -> Result<Value, Failure> {
        match self.media_type() {
            "application/yaml" => {
                let text = std::str::from_utf8(&self.body)
                    .map_err(|_| Failure::bad_request("the body is not valid UTF-8"))?;
                serde_saphyr::from_str(text)
                    .map_err(|error| Failure::bad_request(format!("error converting YAML to JSON: {error}")))
            }
            "" | "*/*" | answer::JSON => serde_json::from_slice(&self.body)
                .map_err(|error| Failure::bad_request(format!("couldn't read the body as JSON: {error}"))),
            // Of a custom resource only what is sent beside it has this form.
            protobuf::MEDIA_TYPE
                if !self.resource.custom
                    || self.info.verb.is_deletion()
                    || self.address.subresource.as_deref() == Some("scale") =>
            {
                let (api_version, kind) = self.expected();
                Ok(protobuf::read(&self.body, (&api_version, &kind))?)
            }
            _ => {
                let known = [answer::JSON, "application/yaml", protobuf::MEDIA_TYPE];
                Err(Failure::unsupported_media_type(&known[..if self.resource.custom { 2 } else { 3 }]))
            }
        }
    }

    /// The version and kind of what is sent here.
    fn expected(&self) -> (String, String) {
        if self.info.verb.is_deletion() {
            return ("v1".to_owned(), "DeleteOptions".to_owned());
        }
        let part = self.address.subresource.as_deref().and_then(|name| self.resource.subresource(name));
        match part {
            Some(part) => (group_version(&part.group, &part.version), part.kind.to_string()),
            None => (self.resource.api_version(), self.resource.kind.to_string()),
        }
    }

    /// The body as an object of this kind.
    pub(crate) fn body_object(&self) -> Result<Value, Failure> {
        let mut value = match matches!(self.media_type(), "" | "*/*" | answer::JSON) {
            true => serde_json::from_slice(&self.body).map_err(|error| {
                decoding::unrecognized(&self.resource, &self.body, &decoding::in_words(&error))
            })?,
            false => self.body_value()?,
        };
        let expected =
            [("apiVersion", self.resource.api_version()), ("kind", self.resource.kind.to_string())];
        let Some(object) = value.as_object_mut() else {
            let why = decoding::no_object(&value);
            return Err(decoding::unrecognized(&self.resource, &self.body, &why));
        };
        for (field, expected) in expected {
            match object.get(field).and_then(Value::as_str) {
                None | Some("") => {
                    object.insert(field.to_owned(), expected.into());
                }
                Some(given) if given == expected => {}
                Some(_) if !self.resource.custom => {
                    return Err(decoding::another_kind(&self.server.built_in, &self.resource, object));
                }
                Some(given) => {
                    return Err(Failure::bad_request(format!(
                        "the {field} in the data ({given}) does not match the expected {field} ({expected})"
                    )));
                }
            }
        }
        Ok(value)
    }

    /// Takes out what the kind does not know. What was there is an error, a warning or nothing, as the client asks.
    pub(crate) fn unknown_fields(&self, object: &mut Value) -> Result<Vec<String>, Failure> {
        let unknown = strategy::prune(&self.resource, object)?;
        let complaints = || match self.media_type() {
            protobuf::MEDIA_TYPE => Vec::new(),
            _ => strict::complaints(&self.body, &unknown),
        };
        match self.info.query.get("fieldValidation") {
            None | Some("" | "Warn") => Ok(complaints()),
            Some("Ignore") => Ok(Vec::new()),
            Some("Strict") => match complaints() {
                none if none.is_empty() => Ok(none),
                some if self.info.verb == Verb::Patch => {
                    let why = format!("strict decoding error: {}", some.join(", "));
                    Err(Failure::invalid_patch(
                        &languages::quoted(self.media_type(), &self.body, object),
                        why,
                    ))
                }
                some => Err(Failure::bad_request(format!(
                    "{kind} in version \"{}\" cannot be handled as a {kind}: strict decoding error: {}",
                    self.resource.version,
                    some.join(", "),
                    kind = self.resource.kind,
                ))),
            },
            Some(other) => {
                let known = ["", "Ignore", "Strict", "Warn"];
                let cause = Cause::not_supported("fieldValidation", &Value::from(other), known);
                Err(Failure::invalid_options(self.options_kind(), vec![cause]))
            }
        }
    }

    /// Whether everything is done but the writing.
    pub(crate) fn dry_run(&self) -> Result<bool, Failure> {
        options::dry_run(self.options_kind(), self.info.query.all("dryRun"))
    }

    /// What the query of this call is called as an object.
    pub(crate) fn options_kind(&self) -> &'static str {
        match self.info.verb {
            Verb::Create => "CreateOptions",
            Verb::Update => "UpdateOptions",
            Verb::Patch => "PatchOptions",
            Verb::Delete | Verb::DeleteCollection => "DeleteOptions",
            Verb::Get => "GetOptions",
            Verb::List | Verb::Watch => "ListOptions",
        }
    }

    /// Who is recorded as the owner of the fields that this call sets.
    pub(crate) fn manager(&self) -> Result<String, Failure> {
        if let Some(manager) = self.info.query.get("fieldManager") {
            if manager.len() > LONGEST_MANAGER || manager.chars().any(char::is_control) {
                let cause = Cause::too_long("fieldManager", LONGEST_MANAGER as u64);
                return Err(Failure::invalid_options(self.options_kind(), vec![cause]));
            }
            return Ok(manager.to_owned());
        }
        let agent = self.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or("unknown");
        Ok(agent.split('/').next().unwrap_or(agent).chars().take(LONGEST_MANAGER).collect())
    }

    /// Answers with one object.
    pub(crate) fn show(&self, status: StatusCode, object: Value) -> Result<Response, Failure> {
        let shown = self.form()?.show(&self.resource, object, self.server.clock.now());
        Ok(answer::json(status, &shown))
    }
}
