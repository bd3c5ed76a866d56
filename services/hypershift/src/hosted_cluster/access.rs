//! From where a hosted cluster's API server may be reached, and where the cluster may go.
//!
//! The gateway reads it off the Route, in the words that routers of OpenShift and HyperShift know: a list of addresses in an
//! annotation, and a label on Routes that are not for everybody. A balancer reads it off the Service. For the way out there are
//! no words of others; the HostedCluster's annotations are handed on as they are, for the gateway to understand.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kube::ResourceExt;
use pilothouse_crds::HostedCluster;
use serde_json::Value;

use super::refusal::{Refusal, Refusals};

/// On a Route: who may come, as addresses and ranges with spaces between; everybody if absent.
pub(crate) const ALLOW_LIST: &str = "haproxy.router.openshift.io/ip_allowlist";
/// On a Route: `true` if it is for private networks only.
pub(crate) const INTERNAL_ROUTE: &str = "hypershift.openshift.io/internal-route";

/// On a HostedCluster, and from there on its Routes: the number of its private link, and where it may go, with spaces between.
pub(crate) const WAY_OUT: [&str; 2] = ["pilothouse.dev/egress-link", "pilothouse.dev/egress-allow"];

/// Where nobody writes on a Route but us.
pub(crate) const OURS_ON_ROUTES: [&str; 4] = [
    "/metadata/annotations/pilothouse.dev~1egress-link",
    "/metadata/annotations/pilothouse.dev~1egress-allow",
    "/metadata/annotations/haproxy.router.openshift.io~1ip_allowlist",
    "/metadata/labels/hypershift.openshift.io~1internal-route",
];
/// Where nobody writes on a Service but us.
pub(crate) const OURS_ON_SERVICES: [&str; 1] = ["/spec/loadBalancerSourceRanges"];

/// From where an API server may be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// Addresses and ranges; everywhere if empty.
    allowed: Vec<String>,
    /// From private networks only.
    private: bool,
    /// What the gateway is to be told of its way out.
    way_out: BTreeMap<String, String>,
}

impl Access {
    /// Reads it off a specification, and adds what is wrong with it to the refusals.
    pub(crate) fn read(cluster: &HostedCluster, refusals: &mut Refusals) -> Self {
        let blocks = cluster.spec.networking.api_server.iter().flat_map(|server| &server.allowed_cidr_blocks);
        let mut allowed = Vec::new();
        for block in blocks {
            if is_block(block) {
                allowed.push(block.clone());
            } else {
                refusals.add(Refusal::invalid(format!(
                    "spec.networking.apiServer.allowedCIDRBlocks: `{block}` is no address and no range such as \
                     203.0.113.0/24; correct it or leave it out"
                )));
            }
        }
        let azure = cluster.spec.platform.azure.as_ref();
        let topology = azure.and_then(|azure| azure.get("topology")).and_then(Value::as_str);
        let annotations = cluster.annotations();
        let annotation = |name: &str| Some((name.to_owned(), annotations.get(name)?.clone()));
        let way_out = WAY_OUT.into_iter().filter_map(annotation).collect();
        Self { allowed, private: topology == Some("Private"), way_out }
    }

    /// Annotations of a Route.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        let list = (!self.allowed.is_empty()).then(|| (ALLOW_LIST.to_owned(), self.allowed.join(" ")));
        list.into_iter().chain(self.way_out.clone()).collect()
    }

    /// Labels of a Route.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        self.private.then(|| (INTERNAL_ROUTE.to_owned(), "true".to_owned())).into_iter().collect()
    }

    /// What a balancer is to be told. It knows ranges only.
    pub(crate) fn source_ranges(&self) -> Option<Vec<String>> {
        let range = |block: &String| match block.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => format!("{address}/32"),
            Ok(IpAddr::V6(address)) => format!("{address}/128"),
            Err(_) => block.clone(),
        };
        (!self.allowed.is_empty()).then(|| self.allowed.iter().map(range).collect())
    }
}

/// Whether this is an address, or one with the length of a prefix.
fn is_block(text: &str) -> bool {
    let (address, length) =
        text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let most = if address.is_ipv4() { 32 } else { 128 };
    length.is_none_or(|length| length.parse::<u8>().is_ok_and(|length| length <= most))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("203.0.113.7", true)]
    #[case("203.0.113.0/24", true)]
    #[case("2001:db8::/32", true)]
    #[case("0.0.0.0/0", true)]
    #[case("203.0.113.0/33", false)]
    #[case("203.0.113.0/", false)]
    #[case("203.0.113.0/24 10.0.0.0/8", false)]
    #[case("example.test", false)]
    #[case("", false)]
    fn blocks_are_addresses_and_ranges(#[case] text: &str, #[case] is: bool) {
        assert_eq!(is_block(text), is);
    }

    #[test]
    fn balancers_are_told_ranges() {
        let allowed = vec!["203.0.113.7".into(), "10.0.0.0/8".into()];
        let access = Access { allowed, ..Access::default() };
        assert_eq!(access.source_ranges(), Some(vec!["203.0.113.7/32".into(), "10.0.0.0/8".into()]));
        assert_eq!(Access::default().source_ranges(), None);
    }
}
