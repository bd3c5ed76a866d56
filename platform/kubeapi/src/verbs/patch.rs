//! Patches are applied to whatever is there, and again if somebody was faster; so they conflict only where the patch
//! itself names a version.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::create::{self, Fields};
use super::update::{self, Change};
use crate::answer;
use crate::authorization::{Attributes, ResourceAttributes};
use crate::patch::{self, Patch, PatchKind};
use crate::server::Call;
use crate::status::{Cause, Failure};
use crate::strategy;

pub(super) async fn handle(call: &Call) -> Result<Response, Failure> {
    let kind = PatchKind::from_media_type(call.media_type()).ok_or_else(Failure::unknown_patch_type)?;
    let (resource, name) = (&call.resource, call.name());
    let applies = kind == PatchKind::Apply;
    if !applies && call.info.query.get("force").is_some() {
        let cause = Cause::forbidden("force", "may not be specified for non-apply patch");
        return Err(Failure::invalid_options("PatchOptions", vec![cause]));
    }
    // Server-side apply wants to be told who applies; anybody else is known well enough by the program's name.
    let manager = match call.info.query.get("fieldManager") {
        None if applies => String::new(),
        _ => call.manager()?,
    };
    let subresource = call.address.subresource.as_deref();
    let patch = Patch {
        kind,
        body: &call.body,
        subresource,
        manager: &manager,
        name,
        force: call.info.query.flag("force"),
        now: call.server.clock.now(),
    };
    let fields = if applies { Fields::Recorded } else { Fields::Of(&manager) };
    let change = Change { resource, subresource, fields, dry_run: call.dry_run()?, user: &call.user };
    for _ in 0..super::ATTEMPTS {
        let Some(stored) = call.server.storage.get(resource, call.namespace(), name).await? else {
            if !applies || subresource.is_some() {
                return Err(Failure::not_found(resource, name));
            }
            may_create(call)?;
            let mut object = patch::apply(resource, None, &patch)?;
            call.unknown_fields(&mut object)?;
            object["metadata"]["name"] = json!(name);
            let namespace = call.namespace();
            create::permitted(call, &mut object)?;
            match create::new(&call.server, resource, namespace, object, fields, change.dry_run).await {
                Ok(created) => return call.show(StatusCode::CREATED, created),
                Err(failure) if failure.reason == "AlreadyExists" => continue,
                Err(failure) => return Err(failure),
            }
        };
        let mut new = patch::apply(resource, Some(&stored.value), &patch)?;
        same_kind(call, &new)?;
        let read = call.unknown_fields(&mut new);
        let mut warnings = read.map_err(|failure| unreadable(call, &new, failure))?;
        warnings.extend(strategy::warnings(resource, &mut new));
        unmoved(call, &stored.value, &new)?;
        if let Some(written) = update::write(&call.server, &change, &stored, new).await? {
            let mut response = call.show(StatusCode::OK, written)?;
            answer::warn(&mut response, &warnings);
            return Ok(response);
        }
    }
    Err(Failure::modified(resource, name))
}

/// What a patch may not turn an object into.
fn same_kind(call: &Call, new: &Value) -> Result<(), Failure> {
    let expected = [("apiVersion", call.resource.api_version()), ("kind", call.resource.kind.to_string())];
    match expected.iter().all(|(field, expected)| new[field] == expected.as_str()) {
        true => Ok(()),
        false => {
            let quoted = patch::quoted(call.media_type(), &call.body, new);
            let why =
                format!("unable to decode {} {} as {}", new["apiVersion"], new["kind"], call.resource.kind);
            Err(Failure::invalid_patch(&quoted, why))
        }
    }
}

/// A patch that leaves something of the wrong type is to blame, not the request.
fn unreadable(call: &Call, new: &Value, failure: Failure) -> Failure {
    match failure.code {
        400 if PatchKind::from_media_type(call.media_type()) != Some(PatchKind::Apply) => {
            let quoted = patch::quoted(call.media_type(), &call.body, new);
            Failure::invalid_patch(&quoted, failure.message)
        }
        _ => failure,
    }
}

/// A patch may name the version and the identity it is for, and nothing else of the kind.
fn unmoved(call: &Call, old: &Value, new: &Value) -> Result<(), Failure> {
    let (old, new) = (&old["metadata"], &new["metadata"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if !text(&new["resourceVersion"]).is_empty() && new["resourceVersion"] != old["resourceVersion"] {
        return Err(Failure::modified(&call.resource, call.name()));
    }
    if !text(&new["uid"]).is_empty() && new["uid"] != old["uid"] {
        let why = format!(
            "Precondition failed: UID in precondition: {}, UID in object meta: {}",
            text(&new["uid"]),
            text(&old["uid"])
        );
        return Err(Failure::conflict(&call.resource, call.name(), why));
    }
    for field in ["name", "namespace"] {
        if new[field] != old[field] {
            return Err(Failure::bad_request(format!(
                "the {field} of the object ({}) does not match the {field} on the URL ({})",
                text(&new[field]),
                text(&old[field])
            )));
        }
    }
    Ok(())
}

/// Whoever applies what is not there creates it, and has to be allowed to.
fn may_create(call: &Call) -> Result<(), Failure> {
    let attributes = Attributes::Resource(ResourceAttributes {
        verb: "create",
        group: &call.address.group,
        resource: &call.address.plural,
        subresource: None,
        namespace: call.address.namespace.as_deref(),
        name: Some(call.name()),
        fields: None,
    });
    let server = &call.server;
    if server.authorizer.allows(server.storage.cache(), &call.user, &attributes) {
        return Ok(());
    }
    let why = format!("User \"{}\" cannot create it", call.user.name);
    Err(Failure::forbidden(&call.resource, call.name(), why))
}
