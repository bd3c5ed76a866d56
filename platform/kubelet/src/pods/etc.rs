//! The pod's own files of /etc.
//!
//! They are written in place: a container sees one file through a bind mount, and would never see a new one moved over it.

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
    write("resolv.conf", &resolv(pod, config))?;
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

fn resolv(pod: &Pod, config: &Config) -> String {
    let mut text = String::new();
    let own = pod.spec.as_ref().and_then(|spec| spec.dns_config.as_ref());
    if let Some(server) = config.cluster_dns {
        let (namespace, domain) = (pod.namespace().unwrap_or_default(), &config.cluster_domain);
        let _ = writeln!(text, "nameserver {server}");
        let _ = writeln!(text, "search {namespace}.svc.{domain} svc.{domain} {domain}");
        let _ = writeln!(text, "options ndots:5");
    }
    for server in own.and_then(|own| own.nameservers.as_deref()).unwrap_or_default() {
        let _ = writeln!(text, "nameserver {server}");
    }
    text
}
