//! Connections through this server: to programs in pods, to their ports, and to what they serve.
//!
//! `exec`, `attach` and `portforward` are the kubelet's: a request for one becomes a request to the kubelet of the pod's node, and
//! once that has agreed to switch protocols, bytes go both ways untouched. So whatever a client and a kubelet agree on works,
//! websockets and what came before them. `proxy` is the same with a pod, a service or a node at the other end, and with ordinary
//! requests, too.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderName, LOCATION, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING,
    UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use serde_json::Value;

use crate::catalogue::Resource;
use crate::request::{Address, Parameters, RequestInfo};
use crate::server::Server;
use crate::status::Failure;

mod exchange;
mod target;

use exchange::{Link, exchange};

/// Whether a request is for one of these.
pub(crate) fn is_wanted(address: &Address) -> bool {
    address.group.is_empty()
        && matches!(
            (address.plural.as_str(), address.subresource.as_deref()),
            ("pods", Some("attach" | "exec" | "portforward" | "proxy"))
                | ("services" | "nodes", Some("proxy"))
        )
}

/// Where a request is, and what it is about.
struct Wanted<'a> {
    server: &'a Arc<Server>,
    info: &'a RequestInfo,
    address: &'a Address,
    resource: &'a Resource,
}

pub(crate) async fn handle(
    server: &Arc<Server>,
    info: &RequestInfo,
    address: &Address,
    resource: &Resource,
    (parts, body): (Parts, Body),
) -> Result<Response, Failure> {
    let subresource = address.subresource.as_deref().unwrap_or_default();
    let offered = resource.subresource(subresource).ok_or_else(Failure::no_such_path)?;
    if !offered.verbs.contains(&info.verb.as_str()) {
        return Err(Failure::method_not_allowed());
    }
    if resource.namespaced && address.namespace.is_none() {
        return Err(Failure::method_not_allowed());
    }
    let wanted = Wanted { server, info, address, resource };
    match subresource {
        "proxy" => wanted.proxy(parts, body).await,
        _ => wanted.visit(subresource, parts, body).await,
    }
}

impl Wanted<'_> {
    fn name(&self) -> &str {
        self.address.name.as_deref().unwrap_or_default()
    }

    async fn stored(&self, plural: &str, name: &str) -> Result<Value, Failure> {
        let resource = self.server.built_in("", plural)?;
        let namespace = if resource.namespaced { self.address.namespace.as_deref() } else { None };
        let found = self.server.storage.get(&resource, namespace.unwrap_or_default(), name).await?;
        Ok(found.ok_or_else(|| Failure::not_found(&resource, name))?.value)
    }

    /// To a program of a pod, or to its ports: the kubelet's business.
    async fn visit(&self, subresource: &str, parts: Parts, body: Body) -> Result<Response, Failure> {
        let pod = self.stored("pods", self.name()).await?;
        let path = path(&pod, self.name(), subresource, &self.info.query)?;
        let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
        let node = node.ok_or_else(|| {
            Failure::bad_request(format!("pod {} does not have a host assigned", self.name()))
        })?;
        let node = self.stored("nodes", node).await?;
        let (stream, host) = self.server.kubelets.open(&node).await?;
        let request = request(&parts, &path, &host, body)?;
        exchange(self.server, Link::Kubelet(Box::new(stream)), parts, request).await
    }

    async fn proxy(&self, parts: Parts, body: Body) -> Result<Response, Failure> {
        let Some(rest) = rest(parts.uri.path(), self.resource.namespaced) else {
            return redirect(&parts);
        };
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = format!("{rest}{query}");
        let (link, host) = self.target().await?;
        let request = request(&parts, &path, &host, body)?;
        exchange(self.server, link, parts, request).await
    }
}

/// What a kubelet is asked for.
fn path(pod: &Value, name: &str, subresource: &str, query: &Parameters) -> Result<String, Failure> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let mut options = url::form_urlencoded::Serializer::new(String::new());
    if subresource == "portforward" {
        for port in query.all("ports").flat_map(|ports| ports.split(',')) {
            options.append_pair("port", port);
        }
        return Ok(format!("/portForward/{namespace}/{name}?{}", options.finish()));
    }
    let container = container(pod, name, query.get("container"))?;
    // Output is given unless it is refused, input and a terminal if they are asked for.
    let is_on = |option: &str, unsaid: bool| match query.get(option) {
        None => unsaid,
        Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    };
    for (option, unsaid, asked) in [
        ("stdin", false, "input"),
        ("stdout", true, "output"),
        ("stderr", true, "error"),
        ("tty", false, "tty"),
    ] {
        if is_on(option, unsaid) {
            options.append_pair(asked, "1");
        }
    }
    for word in query.all("command") {
        options.append_pair("command", word);
    }
    Ok(format!("/{subresource}/{namespace}/{name}/{container}?{}", options.finish()))
}

fn container(pod: &Value, name: &str, wanted: Option<&str>) -> Result<String, Failure> {
    let names = |list: &str| -> Vec<String> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str().map(str::to_owned)).collect()
    };
    let (containers, init, ephemeral) =
        (names("containers"), names("initContainers"), names("ephemeralContainers"));
    match (wanted, containers.as_slice()) {
        (Some(wanted), _) => {
            let known =
                [&containers, &init, &ephemeral].iter().any(|list| list.iter().any(|one| one == wanted));
            let refused = || Failure::bad_request(format!("container {wanted} is not valid for pod {name}"));
            if known { Ok(wanted.to_owned()) } else { Err(refused()) }
        }
        (None, [only]) => Ok(only.clone()),
        (None, several) => {
            let mut why = format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                several.join(" ")
            );
            if !init.is_empty() {
                why.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            Err(Failure::bad_request(why))
        }
    }
}

/// What follows `…/proxy` in a path; nothing where not even a slash does.
fn rest(path: &str, namespaced: bool) -> Option<&str> {
    // `/api/v1/namespaces/a/pods/b/proxy` or `/api/v1/nodes/a/proxy`
    let segments = if namespaced { 8 } else { 6 };
    let (index, _) = path.match_indices('/').nth(segments - 1)?;
    Some(&path[index..])
}

fn redirect(parts: &Parts) -> Result<Response, Failure> {
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    let location = HeaderValue::from_str(&format!("{}/{query}", parts.uri.path()));
    let location = location.map_err(|_| Failure::bad_request("the path cannot be completed"))?;
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// The request as it goes on: without what was meant for us, and with what belongs to the connection only where the
/// connection is to become another.
fn request(parts: &Parts, path: &str, host: &str, body: Body) -> Result<Request<Body>, Failure> {
    let upgrades = wants_upgrade(&parts.headers);
    let mut request = Request::new(if upgrades { Body::empty() } else { body });
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() =
        path.parse().map_err(|_| Failure::bad_request(format!("`{path}` cannot be asked for")))?;
    let headers = request.headers_mut();
    for (name, value) in &parts.headers {
        let hidden = *name == AUTHORIZATION
            || *name == HOST
            || *name == PROXY_AUTHORIZATION
            || name.as_str().starts_with("impersonate-");
        let of_connection = [CONNECTION, UPGRADE, TE, TRANSFER_ENCODING].contains(name);
        if !hidden && (!of_connection || (upgrades && *name != TRANSFER_ENCODING)) {
            headers.append(name.clone(), value.clone());
        }
    }
    if let Ok(host) = HeaderValue::from_str(host) {
        headers.insert(HOST, host);
    }
    if upgrades && parts.method == Method::POST {
        headers.insert(HeaderName::from_static("content-length"), HeaderValue::from_static("0"));
    }
    Ok(request)
}

fn wants_upgrade(headers: &HeaderMap) -> bool {
    let words = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    words.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
}

#[cfg(test)]
mod tests;
