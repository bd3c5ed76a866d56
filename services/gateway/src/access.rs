//! Who may come through a route, as the route itself says.
//!
//! The words are those that routers of OpenShift and HyperShift know. What cannot be understood admits nobody: whoever wrote a
//! list wanted to keep somebody out.

use std::net::IpAddr;

use kube::ResourceExt;
use pilothouse_crds::Route;

use crate::config::Reach;
use crate::egress::Grant;
use crate::range::{NoRange, Range};

/// Who may come, as addresses and ranges with spaces between. The second is what the first was called before.
const ALLOW_LISTS: [&str; 2] =
    ["haproxy.router.openshift.io/ip_allowlist", "haproxy.router.openshift.io/ip_whitelist"];
/// A label: `true` if the route is for private networks only.
const INTERNAL: &str = "hypershift.openshift.io/internal-route";
/// Whether the endpoint is told who the client is: `v2`.
const PROXY_PROTOCOL: &str = "pilothouse.dev/proxy-protocol";

/// Who may come through a route, and what its endpoints are told of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    allowed: Allowed,
    private: bool,
    /// Endpoints expect a PROXY header.
    pub(crate) announce: bool,
    /// The cluster's own way out, or why nobody can tell what that is.
    pub(crate) way_out: Result<Option<Grant>, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Allowed {
    Everybody,
    Only(Vec<Range>),
    /// Nobody, because of this.
    Nobody(String),
}

/// Why a client may not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The route is not there for where the client comes from.
    NotPublic,
    /// The client's address is not on the list.
    NotAllowed,
}

// === impl Access ===

impl Access {
    /// Reads it off a route.
    pub(crate) fn of(route: &Route) -> Self {
        let annotations = route.annotations();
        let list = ALLOW_LISTS.iter().find_map(|name| annotations.get(*name));
        let read = |list: &String| list.split_whitespace().map(str::parse).collect::<Result<_, NoRange>>();
        let mut allowed = match list.map(read) {
            None => Allowed::Everybody,
            Some(Ok(ranges)) => Allowed::Only(ranges),
            Some(Err(error)) => Allowed::Nobody(format!("its list of addresses: {error}")),
        };
        let announce = match annotations.get(PROXY_PROTOCOL).map(String::as_str) {
            None => false,
            Some("v2") => true,
            Some(other) => {
                allowed =
                    Allowed::Nobody(format!("annotation {PROXY_PROTOCOL}: `{other}` is not v2; write that"));
                false
            }
        };
        let private = route.labels().get(INTERNAL).is_some_and(|value| value == "true");
        Self { allowed, private, announce, way_out: Grant::of(route) }
    }

    /// The private link of the cluster.
    pub(crate) fn link(&self) -> Option<u32> {
        self.way_out.as_ref().ok()?.as_ref().map(|grant| grant.link)
    }

    /// What nobody can understand about the route.
    pub(crate) fn trouble(&self) -> Option<&str> {
        match &self.allowed {
            Allowed::Nobody(trouble) => Some(trouble),
            Allowed::Everybody | Allowed::Only(_) => None,
        }
    }

    /// Whether a client of this address, at a listener of that reach, may come.
    pub(crate) fn admit(&self, client: IpAddr, reach: Reach, private: &[Range]) -> Result<(), Denied> {
        if reach == Reach::Internal {
            return Ok(());
        }
        if self.private && reach != Reach::Private && !Range::any(private, client) {
            return Err(Denied::NotPublic);
        }
        match &self.allowed {
            Allowed::Everybody => Ok(()),
            Allowed::Only(ranges) if Range::any(ranges, client) => Ok(()),
            Allowed::Only(_) | Allowed::Nobody(_) => Err(Denied::NotAllowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(annotations: &[(&str, &str)], labels: &[(&str, &str)]) -> Access {
        let owned = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let mut route = Route::default();
        route.metadata.annotations = Some(owned(annotations));
        route.metadata.labels = Some(owned(labels));
        Access::of(&route)
    }

    fn admit(access: &Access, client: &str, reach: Reach) -> Result<(), Denied> {
        access.admit(client.parse().unwrap(), reach, &["10.0.0.0/8".parse().unwrap()])
    }

    #[test]
    fn list_lets_in_whom_it_names_at_every_door_but_the_internal_one() {
        for name in ALLOW_LISTS {
            let listed = access(&[(name, "203.0.113.0/24 198.51.100.7")], &[]);
            assert_eq!(admit(&listed, "203.0.113.9", Reach::Public), Ok(()));
            assert_eq!(admit(&listed, "198.51.100.7", Reach::Private), Ok(()));
            assert_eq!(admit(&listed, "198.51.100.8", Reach::Public), Err(Denied::NotAllowed));
            assert_eq!(admit(&listed, "10.0.0.1", Reach::Private), Err(Denied::NotAllowed));
            assert_eq!(admit(&listed, "127.0.0.1", Reach::Internal), Ok(()));
        }
        assert_eq!(admit(&access(&[], &[]), "203.0.113.9", Reach::Public), Ok(()));
    }

    #[test]
    fn private_route_is_for_private_ranges_and_private_doors() {
        let private = access(&[], &[(INTERNAL, "true")]);
        assert_eq!(admit(&private, "203.0.113.9", Reach::Public), Err(Denied::NotPublic));
        assert_eq!(admit(&private, "10.1.2.3", Reach::Public), Ok(()));
        assert_eq!(admit(&private, "203.0.113.9", Reach::Private), Ok(()));
        assert_eq!(admit(&access(&[], &[(INTERNAL, "false")]), "203.0.113.9", Reach::Public), Ok(()));
    }

    #[test]
    fn what_cannot_be_understood_lets_nobody_in() {
        for annotation in [(ALLOW_LISTS[0], "203.0.113.0/24, everybody"), (PROXY_PROTOCOL, "v3")] {
            let broken = access(&[annotation], &[]);
            assert_eq!(admit(&broken, "203.0.113.9", Reach::Public), Err(Denied::NotAllowed));
            assert!(broken.trouble().is_some());
        }
        // An empty list is a list.
        assert_eq!(
            admit(&access(&[(ALLOW_LISTS[0], "")], &[]), "203.0.113.9", Reach::Public),
            Err(Denied::NotAllowed)
        );
        assert!(access(&[(PROXY_PROTOCOL, "v2")], &[]).announce);
    }
}
