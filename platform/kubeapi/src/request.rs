//! What a request asks for, read from its method, path and query. Authorization and the verbs go by this and by
//! nothing else, so that both see the same thing.

use std::borrow::Cow;
use std::fmt;

use http::Method;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// What it is done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Discovery, health and everything else that is no object.
    Path,
    /// An object, a collection or something below an object.
    Resource(Address),
}

/// Where a resource is, by the words of its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// A request as it was understood.
#[derive(Clone, Debug)]
pub(crate) struct RequestInfo {
    pub(crate) verb: Verb,
    pub(crate) path: String,
    pub(crate) target: Target,
    pub(crate) query: Parameters,
}

/// The query, in the order it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl RequestInfo {
    pub(crate) fn parse(method: &Method, path: &str, query: Option<&str>) -> Self {
        let query = Parameters::parse(query.unwrap_or_default());
        let mut segments: Vec<Cow<'_, str>> =
            path.split('/').filter(|segment| !segment.is_empty()).map(decoded).collect();
        let old_way = take_watch(&mut segments);
        let target = Address::parse(&mut segments);
        let mut query = query;
        let watched = query.flag("watch") || old_way;
        if old_way && let Target::Resource(Address { name: Some(name), .. }) = &target {
            query.0.push(("fieldSelector".to_owned(), format!("metadata.name={name}")));
        }
        let verb = match (method, &target) {
            (&Method::POST, _) => Verb::Create,
            (&Method::PUT, _) => Verb::Update,
            (&Method::PATCH, _) => Verb::Patch,
            (&Method::DELETE, Target::Resource(Address { name: None, .. })) => Verb::DeleteCollection,
            (&Method::DELETE, _) => Verb::Delete,
            (_, Target::Resource(Address { name: None, .. })) if watched => Verb::Watch,
            (_, Target::Resource(_)) if old_way => Verb::Watch,
            (_, Target::Resource(Address { name: None, .. })) => Verb::List,
            _ => Verb::Get,
        };
        let mut info = Self { verb, path: path.to_owned(), target, query };
        info.pin_name();
        info
    }

    /// A list or watch of exactly one name is about that name, also to authorization.
    fn pin_name(&mut self) {
        let Target::Resource(address) = &mut self.target else { return };
        if address.name.is_none()
            && matches!(self.verb, Verb::List | Verb::Watch)
            && let Some(selector) = self.query.get("fieldSelector")
        {
            address.name = pinned_name(selector);
        }
    }
}

impl Address {
    fn parse(segments: &mut Vec<Cow<'_, str>>) -> Target {
        let group = match segments.first().map(Cow::as_ref) {
            Some("api") if segments.len() > 2 => String::new(),
            Some("apis") if segments.len() > 3 => segments.remove(1).into_owned(),
            _ => return Target::Path,
        };
        let version = segments[1].clone().into_owned();
        let mut rest = segments.drain(2..).map(Cow::into_owned).peekable();
        let mut address = Self { group, version, ..Self::default() };
        let Some(first) = rest.next() else { return Target::Path };
        if first == "namespaces" && address.group.is_empty() {
            address.namespace = rest.next();
            match rest.next() {
                Some(below) if !matches!(below.as_str(), "status" | "finalize") => {
                    address.plural = below;
                    address.name = rest.next();
                    address.subresource = rest.next();
                }
                // A namespace lies in itself, as far as authorization goes.
                subresource => {
                    address.plural = first;
                    address.name = address.namespace.clone();
                    address.subresource = subresource;
                }
            }
        } else if first == "namespaces" {
            address.namespace = rest.next();
            let Some(plural) = rest.next() else { return Target::Path };
            address.plural = plural;
            address.name = rest.next();
            address.subresource = rest.next();
        } else {
            address.plural = first;
            address.name = rest.next();
            address.subresource = rest.next();
        }
        // Deeper paths exist only below proxies, which take the rest as theirs.
        if let Some(subresource) = address.subresource.as_mut().filter(|one| *one != "proxy") {
            for segment in rest {
                subresource.push('/');
                subresource.push_str(&segment);
            }
        }
        Target::Resource(address)
    }
}

impl Verb {
    /// What is sent along is then no object but how to go about it.
    pub(crate) fn is_deletion(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteCollection)
    }

    /// As RBAC spells it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Parameters {
    fn parse(query: &str) -> Self {
        Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The first value under a name, unless it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(key, _)| key == name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// Every value under a name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether a name is there and not switched off.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0.iter().any(|(key, value)| key == name && !matches!(value.as_str(), "false" | "0"))
    }
}

/// `/api/v1/watch/…` is how a watch was asked for before there was a parameter for it. Some clients never learned.
fn take_watch(segments: &mut Vec<Cow<'_, str>>) -> bool {
    let place = match segments.first().map(Cow::as_ref) {
        Some("api") => 2,
        Some("apis") => 3,
        _ => return false,
    };
    let found = segments.len() > place + 1 && segments[place] == "watch";
    if found {
        segments.remove(place);
    }
    found
}

/// The one name that a field selector leaves possible.
fn pinned_name(selector: &str) -> Option<String> {
    selector.split(',').find_map(|clause| {
        let (field, value) = clause.split_once('=')?;
        let value = value.strip_prefix('=').unwrap_or(value);
        (field == "metadata.name" && !value.is_empty()).then(|| value.to_owned())
    })
}

/// Percent signs resolved; names such as `system:node` come either way.
fn decoded(segment: &str) -> Cow<'_, str> {
    if !segment.contains('%') {
        return Cow::Borrowed(segment);
    }
    let bytes = segment.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        let hexadecimal = (byte == b'%').then(|| segment.get(index + 1..index + 3)).flatten();
        match hexadecimal.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                plain.push(value);
                index += 3;
            }
            None => {
                plain.push(byte);
                index += 1;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: Method, path: &str) -> (Verb, String) {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let info = RequestInfo::parse(&method, path, query);
        let text = match info.target {
            Target::Path => "path".to_owned(),
            Target::Resource(address) => {
                let Address { group, version, plural, namespace, name, subresource } = address;
                let dash = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
                format!("{group}/{version} {plural} {} {} {}", dash(namespace), dash(name), dash(subresource))
            }
        };
        (info.verb, text)
    }

    #[test]
    fn paths_say_what_is_asked_for() {
        for (method, path, verb, text) in [
            (Method::GET, "/api/v1/pods", Verb::List, "/v1 pods - - -"),
            (Method::GET, "/api/v1/namespaces/a/pods?watch=true", Verb::Watch, "/v1 pods a - -"),
            (Method::GET, "/api/v1/namespaces/a/pods/b/log", Verb::Get, "/v1 pods a b log"),
            (Method::POST, "/api/v1/namespaces/a/pods/b:1/proxy/c/d", Verb::Create, "/v1 pods a b:1 proxy"),
            (Method::GET, "/api/v1/namespaces", Verb::List, "/v1 namespaces - - -"),
            (Method::GET, "/api/v1/namespaces/a", Verb::Get, "/v1 namespaces a a -"),
            (Method::PUT, "/api/v1/namespaces/a/finalize", Verb::Update, "/v1 namespaces a a finalize"),
            (
                Method::DELETE,
                "/apis/apps/v1/namespaces/a/deployments",
                Verb::DeleteCollection,
                "apps/v1 deployments a - -",
            ),
            (Method::PATCH, "/apis/x.io/v1/things/b/status", Verb::Patch, "x.io/v1 things - b status"),
            (
                Method::GET,
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                Verb::Get,
                "rbac.authorization.k8s.io/v1 clusterroles - system:node -",
            ),
            (
                Method::GET,
                "/api/v1/nodes?watch=1&fieldSelector=metadata.name%3Dn",
                Verb::Watch,
                "/v1 nodes - n -",
            ),
            (Method::GET, "/apis/apps", Verb::Get, "path"),
            (Method::GET, "/apis/apps/v1", Verb::Get, "path"),
            (Method::GET, "/healthz", Verb::Get, "path"),
        ] {
            assert_eq!(parse(method, path), (verb, text.to_owned()), "{path}");
        }
    }
}
