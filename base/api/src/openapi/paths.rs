//! What can be called, and how it answers.

use serde_json::{Map, Value, json};

use crate::version::Version;

const SUBSCRIPTION: &str = "/subscriptions/{subscriptionId}";
const GROUP: &str = "/resourceGroups/{resourceGroupName}";
const PROVIDER: &str = "/providers/Microsoft.RedHatOpenShift";

/// A resource that can be made, changed and deleted.
struct Kind {
    model: &'static str,
    /// Behind the resource group's provider.
    collection: &'static str,
    parameter: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind {
        model: "HcpOpenShiftCluster",
        collection: "/hcpOpenShiftClusters",
        parameter: "hcpOpenShiftClusterName",
    },
    Kind {
        model: "NodePool",
        collection: "/hcpOpenShiftClusters/{hcpOpenShiftClusterName}/nodePools",
        parameter: "nodePoolName",
    },
    Kind {
        model: "ExternalAuth",
        collection: "/hcpOpenShiftClusters/{hcpOpenShiftClusterName}/externalAuths",
        parameter: "externalAuthName",
    },
];

/// What is only looked at, below a location.
const CATALOGUE: [(&str, &str, &str); 2] = [
    ("HcpOpenShiftVersion", "hcpOpenShiftVersions", "openShiftVersionName"),
    ("HcpOperatorIdentityRoleSet", "hcpOperatorIdentityRoleSets", "operatorIdentityRoleSetName"),
];

/// Parameters of paths: name, pattern, longest, what it is.
const IN_PATHS: [(&str, &str, usize, &str); 9] = [
    ("subscriptionId", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", 36, "The subscription."),
    ("resourceGroupName", r"^[-\w.()]{0,89}[-\w()]$", 90, "The resource group."),
    ("hcpOpenShiftClusterName", "^[a-zA-Z]([-a-zA-Z0-9]{0,52}[a-zA-Z0-9])?$", 54, "The cluster."),
    ("nodePoolName", "^[a-zA-Z]([-a-zA-Z0-9]{0,13}[a-zA-Z0-9])?$", 15, "The node pool."),
    ("externalAuthName", "^[a-zA-Z]([-a-zA-Z0-9]{0,13}[a-zA-Z0-9])?$", 15, "The external authentication."),
    ("location", "^[a-zA-Z0-9-]{1,64}$", 64, "The region."),
    ("openShiftVersionName", r"^[a-zA-Z0-9.-]{3,24}$", 24, "The version."),
    ("operatorIdentityRoleSetName", r"^[a-zA-Z0-9.-]{3,24}$", 24, "The version whose operators it is about."),
    ("operationId", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", 36, "The operation."),
];

/// Parameters beside the path.
pub(super) fn parameters(version: Version) -> Value {
    let mut parameters = Map::new();
    for (name, pattern, most, what) in IN_PATHS {
        parameters.insert(
            name.to_owned(),
            json!({
                "name": name, "in": "path", "required": true, "description": what,
                "schema": {"type": "string", "minLength": 1, "maxLength": most, "pattern": pattern},
            }),
        );
    }
    let mut add = |key: &str, name: &str, place: &str, required: bool, what: &str, schema: Value| {
        parameters.insert(
            key.to_owned(),
            json!({"name": name, "in": place, "required": required, "description": what, "schema": schema}),
        );
    };
    let text = || json!({"type": "string"});
    let date = json!({"type": "string", "enum": [version.api_version().to_string()]});
    add("apiVersion", "api-version", "query", true, "The version of the contract.", date);
    add("skipToken", "$skipToken", "query", false, "From where on, as a next link has it.", text());
    let most = json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": i32::MAX});
    add("top", "$top", "query", false, "How many at most; a page may have fewer.", most);
    add("ifMatch", "If-Match", "header", false, "Only if the resource is still in this state.", text());
    add("ifNoneMatch", "If-None-Match", "header", false, "With `*`: only if there is none yet.", text());
    Value::Object(parameters)
}

/// Headers of answers.
pub(super) fn headers() -> Value {
    let header = |what: &str, schema: Value| json!({"description": what, "schema": schema});
    let text = || json!({"type": "string"});
    json!({
        "azureAsyncOperation": header("Where the state of the operation is.", text()),
        "location": header("Where the result of the operation will be.", text()),
        "retryAfter": header("Seconds to wait before asking.", json!({"type": "integer", "format": "int32"})),
        "etag": header("Which state of the resource this is.", text()),
        "errorCode": header("The code of the error.", text()),
    })
}

/// Answers that many have.
pub(super) fn responses() -> Value {
    json!({
        "error": {
            "description": "What went wrong.",
            "headers": {"x-ms-error-code": header("errorCode")},
            "content": content("ErrorResponse"),
        },
        "begun": {
            "description": "Accepted; the headers lead to what comes of it.",
            "headers": async_headers(true),
        },
        "gone": {"description": "There is nothing here, or nothing any more."},
    })
}

/// All paths of a version.
pub(super) fn all(version: Version) -> Value {
    let mut paths = Map::new();
    paths.insert(
        format!("{PROVIDER}/operations"),
        json!({"get": call("Operations_List", &[], None, json!({"200": shown("OperationList", false)}))}),
    );
    for kind in &KINDS {
        add_kind(kind, &mut paths);
    }
    let everywhere = format!("{SUBSCRIPTION}{PROVIDER}/hcpOpenShiftClusters");
    paths.insert(
        everywhere,
        list("HcpOpenShiftClusters_ListBySubscription", "HcpOpenShiftCluster", &["subscriptionId"]),
    );
    add_actions(version, &mut paths);
    for (model, collection, parameter) in CATALOGUE {
        let place = ["subscriptionId", "location"];
        let path = format!("{SUBSCRIPTION}{PROVIDER}/locations/{{location}}/{collection}");
        paths.insert(path.clone(), whole_list(&format!("{model}s_List"), model, &place));
        let get = call(
            &format!("{model}s_Get"),
            &["subscriptionId", "location", parameter],
            None,
            json!({"200": shown(model, false)}),
        );
        paths.insert(format!("{path}/{{{parameter}}}"), json!({"get": get}));
    }
    add_operations(&mut paths);
    Value::Object(paths)
}

fn add_kind(kind: &Kind, paths: &mut Map<String, Value>) {
    let Kind { model, collection, parameter } = *kind;
    let collection = format!("{SUBSCRIPTION}{GROUP}{PROVIDER}{collection}");
    let above = named_in(&collection);
    paths.insert(collection.clone(), list(&format!("{model}s_List"), model, &above));
    let path = format!("{collection}/{{{parameter}}}");
    let named = named_in(&path);
    let begun = |finish: &str, operation: Value| {
        let mut operation = operation;
        operation["x-ms-long-running-operation"] = true.into();
        operation["x-ms-long-running-operation-options"] = json!({"final-state-via": finish});
        operation
    };
    let conditional: Vec<_> = named.iter().copied().chain(["ifMatch", "ifNoneMatch"]).collect();
    let matched: Vec<_> = named.iter().copied().chain(["ifMatch"]).collect();
    paths.insert(
        path,
        json!({
            "get": call(&format!("{model}s_Get"), &named, None, json!({"200": shown(model, true)})),
            "put": begun("azure-async-operation", call(
                &format!("{model}s_CreateOrUpdate"),
                &conditional,
                Some((&format!("{model}CreateOrUpdate"), true)),
                json!({"200": accepted(model, false), "201": accepted(model, false)}),
            )),
            "patch": begun("location", call(
                &format!("{model}s_Update"),
                &matched,
                Some((&format!("{model}Update"), true)),
                json!({"202": accepted(model, true)}),
            )),
            "delete": begun("location", call(
                &format!("{model}s_Delete"),
                &matched,
                None,
                json!({"202": response("begun"), "204": response("gone")}),
            )),
        }),
    );
}

fn add_actions(version: Version, paths: &mut Map<String, Value>) {
    let cluster = format!("{SUBSCRIPTION}{GROUP}{PROVIDER}/hcpOpenShiftClusters/{{hcpOpenShiftClusterName}}");
    let named = named_in(&cluster);
    let request =
        (version >= Version::V20260901Preview).then_some(("HcpOpenShiftClusterAdminCredentialRequest", true));
    for (action, name, body) in [
        ("requestAdminCredential", "HcpOpenShiftClusters_RequestAdminCredential", request),
        ("revokeCredentials", "HcpOpenShiftClusters_RevokeCredentials", None),
    ] {
        let mut post = call(name, &named, body, json!({"202": response("begun")}));
        post["x-ms-long-running-operation"] = true.into();
        post["x-ms-long-running-operation-options"] = json!({"final-state-via": "location"});
        paths.insert(format!("{cluster}/{action}"), json!({"post": post}));
    }
}

fn add_operations(paths: &mut Map<String, Value>) {
    let named = ["subscriptionId", "location", "operationId"];
    let place = format!("{SUBSCRIPTION}{PROVIDER}/locations/{{location}}");
    let status = json!({
        "200": {
            "description": "What the operation is at.",
            "headers": {"Retry-After": header("retryAfter")},
            "content": content("OperationStatus"),
        },
        // Nothing is said of operations that are somebody else's.
        "404": response("gone"),
    });
    let anything = |what: &str| json!({"description": what, "content": {"application/json": {"schema": {"type": "object"}}}});
    let result = json!({
        "200": anything("The changed resource, or the credential."),
        "201": anything("The resource that was made."),
        "202": {
            "description": "It has not ended.",
            "headers": {"Location": header("location"), "Retry-After": header("retryAfter")},
        },
        "204": response("gone"),
    });
    for (kind, name, answers) in [
        ("hcpOperationStatuses", "HcpOperationStatuses_Get", status),
        ("hcpOperationResults", "HcpOperationResults_Get", result),
    ] {
        paths.insert(
            format!("{place}/{kind}/{{operationId}}"),
            json!({"get": call(name, &named, None, answers)}),
        );
    }
}

/// One method of a path.
fn call(name: &str, parameters: &[&str], body: Option<(&str, bool)>, mut answers: Value) -> Value {
    answers["default"] = response("error");
    let reference = |name: &&str| json!({"$ref": format!("#/components/parameters/{name}")});
    let parameters: Vec<_> = parameters.iter().chain(&["apiVersion"]).map(reference).collect();
    let mut call = json!({"operationId": name, "parameters": parameters, "responses": answers});
    if let Some((model, required)) = body {
        call["requestBody"] = json!({"required": required, "content": content(model)});
    }
    call
}

/// A list that comes in pages.
fn list(name: &str, model: &str, parameters: &[&str]) -> Value {
    let parameters: Vec<_> = parameters.iter().copied().chain(["skipToken", "top"]).collect();
    whole_list(name, model, &parameters)
}

/// A list that is always short enough to come at once.
fn whole_list(name: &str, model: &str, parameters: &[&str]) -> Value {
    let mut get = call(name, parameters, None, json!({"200": shown(&format!("{model}List"), false)}));
    get["x-ms-pageable"] = json!({"nextLinkName": "nextLink"});
    json!({"get": get})
}

fn shown(model: &str, has_etag: bool) -> Value {
    let mut answer = json!({"description": "As it is.", "content": content(model)});
    if has_etag {
        answer["headers"] = json!({"ETag": header("etag")});
    }
    answer
}

fn accepted(model: &str, has_location: bool) -> Value {
    let mut answer = json!({
        "description": "As it will be; the headers lead to what comes of it.",
        "headers": async_headers(has_location),
        "content": content(model),
    });
    answer["headers"]["ETag"] = header("etag");
    answer
}

fn async_headers(has_location: bool) -> Value {
    let mut headers =
        json!({"Azure-AsyncOperation": header("azureAsyncOperation"), "Retry-After": header("retryAfter")});
    if has_location {
        headers["Location"] = header("location");
    }
    headers
}

fn content(model: &str) -> Value {
    json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{model}")}}})
}

fn header(name: &str) -> Value {
    json!({"$ref": format!("#/components/headers/{name}")})
}

fn response(name: &str) -> Value {
    json!({"$ref": format!("#/components/responses/{name}")})
}

/// The parameters that a path names.
fn named_in(path: &str) -> Vec<&'static str> {
    let is_in = |name: &str| path.contains(&format!("{{{name}}}"));
    IN_PATHS.iter().map(|(name, ..)| *name).filter(|name| is_in(name)).collect()
}
