//! Services and their endpoints, as names are asked for: by namespace and name, and by address.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use pilothouse_informer::ObjectKey;

/// What there are names for.
#[derive(Debug, Default)]
pub(super) struct Directory {
    namespaces: HashMap<String, HashMap<String, Entry>>,
    /// The Services that have an address, or an endpoint with it.
    by_address: HashMap<Ipv4Addr, BTreeSet<ObjectKey>>,
}

/// A Service and what is behind it.
#[derive(Debug)]
pub(super) struct Entry {
    service: Arc<Service>,
    slices: Vec<Arc<EndpointSlice>>,
    /// What is written down about it in `by_address`.
    addresses: BTreeSet<Ipv4Addr>,
}

/// Somebody behind a headless Service.
pub(super) struct Member<'a> {
    pub(super) address: Ipv4Addr,
    endpoint: &'a Endpoint,
    slice: &'a EndpointSlice,
}

// === impl Directory ===

impl Directory {
    /// Takes what is known of a Service now.
    pub(super) fn put(&mut self, key: &ObjectKey, found: Option<(Arc<Service>, Vec<Arc<EndpointSlice>>)>) {
        let namespace = key.namespace_or_empty();
        let former = self.namespaces.get_mut(namespace).and_then(|services| services.remove(&key.name));
        for address in former.into_iter().flat_map(|entry| entry.addresses) {
            if let Some(keys) = self.by_address.get_mut(&address) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_address.remove(&address);
                }
            }
        }
        let Some((service, slices)) = found else {
            if self.namespaces.get(namespace).is_some_and(HashMap::is_empty) {
                self.namespaces.remove(namespace);
            }
            return;
        };
        let mut entry = Entry { service, slices, addresses: BTreeSet::new() };
        let behind: Vec<_> = entry.endpoints().map(|member| member.address).collect();
        entry.addresses = entry.cluster_addresses().into_iter().chain(behind).collect();
        for address in &entry.addresses {
            self.by_address.entry(*address).or_default().insert(key.clone());
        }
        self.namespaces.entry(namespace.to_owned()).or_default().insert(key.name.clone(), entry);
    }

    pub(super) fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.contains_key(namespace)
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Entry> {
        self.namespaces.get(namespace)?.get(name)
    }

    /// The Services that have to do with an address.
    pub(super) fn at(&self, address: Ipv4Addr) -> impl Iterator<Item = (&ObjectKey, &Entry)> {
        let keys = self.by_address.get(&address).into_iter().flatten();
        keys.filter_map(|key| Some((key, self.get(key.namespace_or_empty(), &key.name)?)))
    }
}

// === impl Entry ===

impl Entry {
    pub(super) fn service(&self) -> &Service {
        &self.service
    }

    pub(super) fn cluster_addresses(&self) -> Vec<Ipv4Addr> {
        let Some(spec) = &self.service.spec else { return Vec::new() };
        let addresses = crate::services::addresses(spec).into_iter();
        let addresses = addresses.filter_map(|address| match address {
            std::net::IpAddr::V4(address) => Some(address),
            std::net::IpAddr::V6(_) => None,
        });
        addresses.collect()
    }

    /// Where a Service leads that is only a name for another.
    pub(super) fn external_name(&self) -> Option<&str> {
        let spec = self.service.spec.as_ref()?;
        spec.external_name.as_deref().filter(|_| spec.type_.as_deref() == Some("ExternalName"))
    }

    pub(super) fn is_headless(&self) -> bool {
        self.service.spec.as_ref().is_some_and(|spec| spec.cluster_ip.as_deref() == Some("None"))
    }

    /// Those behind it that have names: the ready ones, or all where the Service says so. Each address once.
    pub(super) fn members(&self) -> Vec<Member<'_>> {
        let spec = self.service.spec.as_ref();
        let all = spec.and_then(|spec| spec.publish_not_ready_addresses).unwrap_or(false);
        let ready = |member: &Member<'_>| {
            let conditions = member.endpoint.conditions.as_ref();
            conditions.and_then(|conditions| conditions.ready).unwrap_or(true)
        };
        self.endpoints().filter(|member| all || ready(member)).collect()
    }

    fn endpoints(&self) -> impl Iterator<Item = Member<'_>> {
        let pairs = self.slices.iter().flat_map(|slice| slice.endpoints.iter().map(move |one| (slice, one)));
        pairs.filter_map(|(slice, endpoint)| {
            let address = endpoint.addresses.iter().find_map(|address| address.parse().ok())?;
            Some(Member { address, endpoint, slice })
        })
    }
}

// === impl Member ===

impl Member<'_> {
    /// What it is called within its Service.
    pub(super) fn hostname(&self) -> String {
        match self.endpoint.hostname.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => name.to_ascii_lowercase(),
            None => self.address.to_string().replace('.', "-"),
        }
    }

    pub(super) fn is_pod(&self) -> bool {
        let target = self.endpoint.target_ref.as_ref();
        target.is_some_and(|target| target.kind.as_deref() == Some("Pod"))
    }

    /// Its ports: name, protocol and number.
    pub(super) fn ports(&self) -> impl Iterator<Item = (&str, &str, u16)> {
        self.slice.ports.iter().flatten().filter_map(|port| {
            let number = u16::try_from(port.port?).ok()?;
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            Some((port.name.as_deref().unwrap_or_default(), protocol, number))
        })
    }
}
