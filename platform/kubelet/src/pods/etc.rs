//! The pod's own files of /etc.
//!
//! They are written in place: a container sees one file through a bind mount, and would never see a new one moved over it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::config::Config;

pub(crate) fn hostname(pod: &Pod) -> String {
    let named = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
    let mut name = named.unwrap_or_else(|| pod.name_any());
    name.truncate(63);
    name.trim_end_matches(['-', '.']).to_owned()
}

pub(crate) fn write(folder: &Path, pod: &Pod, config: &Config, address: Ipv4Addr) -> io::Result<()> {
    let folder = folder.join("etc");
    fs::create_dir_all(&folder)?;
    let write = |name: &str, text: &str| fs::write(folder.join(name), text);
    write("hosts", &hosts(pod, config, address))?;
    write("hostname", &format!("{}\n", hostname(pod)))?;
    // A node without one knows no names.
    let node = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    write("resolv.conf", &resolv(pod, config, &node))?;
    write("passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n")?;
    write("group", "root:x:0:\nnogroup:x:65534:\n")?;
    write("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
}

fn hosts(pod: &Pod, config: &Config, address: Ipv4Addr) -> String {
    let mut text = String::from("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n");
    let hostname = hostname(pod);
    let spec = pod.spec.as_ref();
    let names = match spec.and_then(|spec| spec.subdomain.as_deref()) {
        Some(subdomain) => {
            let namespace = pod.namespace().unwrap_or_default();
            format!("{hostname}.{subdomain}.{namespace}.svc.{}\t{hostname}", config.cluster_domain)
        }
        None => hostname,
    };
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{address}\t{names}");
    for alias in spec.and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default() {
        let _ = writeln!(text, "{}\t{}", alias.ip, alias.hostnames.as_deref().unwrap_or_default().join("\t"));
    }
    text
}

/// As many servers and search paths as resolvers read.
const SERVERS: usize = 3;
const SEARCHED: usize = 32;

/// What a resolver is told, before it is written down.
#[derive(Default)]
struct Resolver {
    servers: Vec<String>,
    searched: Vec<String>,
    /// By name, with a value if they have one.
    options: Vec<(String, Option<String>)>,
}

fn resolv(pod: &Pod, config: &Config, node: &str) -> String {
    let spec = pod.spec.as_ref();
    let host_network = spec.and_then(|spec| spec.host_network).unwrap_or(false);
    let mut resolver = match spec.and_then(|spec| spec.dns_policy.as_deref()) {
        Some("None") => Resolver::default(),
        Some("Default") => Resolver::parse(node),
        // A pod in the node's network sees what the node sees, unless it insists.
        Some("ClusterFirst") | None if host_network => Resolver::parse(node),
        _ => Resolver::of_cluster(&pod.namespace().unwrap_or_default(), config),
    };
    if let Some(own) = spec.and_then(|spec| spec.dns_config.as_ref()) {
        resolver.servers.extend(own.nameservers.iter().flatten().cloned());
        resolver.searched.extend(own.searches.iter().flatten().cloned());
        for option in own.options.iter().flatten() {
            if let Some(name) = option.name.clone() {
                resolver.set(name, option.value.clone());
            }
        }
    }
    resolver.write()
}

// === impl Resolver ===

impl Resolver {
    fn of_cluster(namespace: &str, config: &Config) -> Self {
        let domain = &config.cluster_domain;
        Self {
            servers: config.cluster_dns.iter().map(ToString::to_string).collect(),
            searched: vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()],
            options: vec![("ndots".to_owned(), Some("5".to_owned()))],
        }
    }

    /// What the node itself is told.
    fn parse(text: &str) -> Self {
        let mut resolver = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace().map(str::to_owned);
            match words.next().as_deref() {
                Some("nameserver") => resolver.servers.extend(words.next()),
                // The last one counts.
                Some("search") => resolver.searched = words.collect(),
                Some("options") => {
                    for option in words {
                        match option.split_once(':') {
                            Some((name, value)) => resolver.set(name.to_owned(), Some(value.to_owned())),
                            None => resolver.set(option, None),
                        }
                    }
                }
                _ => {}
            }
        }
        resolver
    }

    fn set(&mut self, name: String, value: Option<String>) {
        match self.options.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.options.push((name, value)),
        }
    }

    fn write(self) -> String {
        let mut text = String::new();
        for server in once_each(self.servers).iter().take(SERVERS) {
            let _ = writeln!(text, "nameserver {server}");
        }
        let searched = once_each(self.searched);
        if !searched.is_empty() {
            let _ = writeln!(text, "search {}", searched[..searched.len().min(SEARCHED)].join(" "));
        }
        let options = self.options.into_iter().map(|(name, value)| match value {
            Some(value) => format!("{name}:{value}"),
            None => name,
        });
        let options: Vec<_> = options.collect();
        if !options.is_empty() {
            let _ = writeln!(text, "options {}", options.join(" "));
        }
        text
    }
}

fn once_each(mut list: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    list.retain(|entry| seen.insert(entry.clone()));
    list
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(spec: Value) -> String {
        let pod = json!({"metadata": {"name": "x", "namespace": "shop"}, "spec": spec});
        let config = Config { cluster_dns: Some([10, 96, 0, 10].into()), ..Config::default() };
        let node = "# a comment\nnameserver 192.0.2.1\nsearch example.org\noptions edns0 ndots:1\n";
        resolv(&serde_json::from_value(pod).unwrap(), &config, node)
    }

    const CLUSTER: &str =
        "nameserver 10.96.0.10\nsearch shop.svc.cluster.local svc.cluster.local cluster.local\n";
    const NODE: &str = "nameserver 192.0.2.1\nsearch example.org\noptions edns0 ndots:1\n";

    #[test]
    fn resolver_is_the_clusters_the_nodes_or_the_pods_own() {
        let cluster = format!("{CLUSTER}options ndots:5\n");
        assert_eq!(written(json!({})), cluster);
        assert_eq!(written(json!({"dnsPolicy": "ClusterFirst"})), cluster);
        assert_eq!(written(json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true})), NODE);
        assert_eq!(written(json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true})), cluster);
        assert_eq!(written(json!({"dnsPolicy": "Default"})), NODE);
        let own = json!({"nameservers": ["192.0.2.7"], "searches": ["a.b", "cluster.local"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "rotate"}]});
        assert_eq!(
            written(json!({"dnsPolicy": "None", "dnsConfig": own})),
            "nameserver 192.0.2.7\nsearch a.b cluster.local\noptions ndots:2 rotate\n"
        );
        let both = written(json!({"dnsConfig": own}));
        let expected = CLUSTER.replace("10.96.0.10\n", "10.96.0.10\nnameserver 192.0.2.7\n");
        let expected = expected.replace(" cluster.local\n", " cluster.local a.b\n");
        assert_eq!(both, format!("{expected}options ndots:2 rotate\n"));
    }
}
