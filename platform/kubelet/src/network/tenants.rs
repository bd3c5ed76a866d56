//! Who may talk to whom.
//!
//! On a node whose pods belong to several tenants each namespace has a routing table, and whatever comes from a pod of it, from
//! whatever source, is looked up in that one and no other: it knows the namespace's own pods, what lies behind them, and nothing else. See
//! `docs/decisions/0012-tenants-by-routing-tables.md`.
//!
//! ```text
//!   rule   iif v0ac80007 -> table 5001
//!   5001   throw 10.200.0.7, throw 10.200.0.9      the pods of the namespace, routed as for everybody
//!          10.132.2.0/24 via 10.200.0.9            the pods of a node that is a pod
//!          unreachable default
//! ```
//!
//! The kernel keeps all of that while no kubelet runs; the next one reads there which table is whose.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, PoisonError, RwLock};

use futures::TryStreamExt as _;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::{IpVersion, RouteMessageBuilder};
use tokio::sync::Mutex;

use super::{MAIN_TABLE, Network, Range, code, done, interface};
use crate::failure::Failure;

/// The place of the rules: after local addresses, before everything else.
const PRIORITY: u32 = 4100;
/// The first table of a tenant.
const FIRST_TABLE: u32 = 5000;

/// The tenants of a node.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    /// Held while the kernel's tables are changed, so that none is given to a second tenant while the first leaves it.
    tables: Mutex<Tables>,
    /// Whose pod has an address.
    owners: RwLock<HashMap<Ipv4Addr, Arc<str>>>,
}

#[derive(Debug, Default)]
struct Tables {
    by_namespace: HashMap<Arc<str>, Table>,
    numbers: BTreeSet<u32>,
    /// As an earlier kubelet left them, once somebody has looked.
    found: Option<Found>,
}

/// The tables that the kernel knew when this kubelet began.
#[derive(Debug, Default)]
struct Found {
    by_interface: HashMap<String, u32>,
    /// Those that are not claimed: there may be routes in them to what was one tenant's, so they are not given to another.
    unclaimed: BTreeSet<u32>,
}

#[derive(Debug)]
struct Table {
    number: u32,
    members: BTreeSet<Ipv4Addr>,
}

// === impl Network ===

impl Network {
    /// Whether somebody with this address may use what belongs to a namespace: its own pods, and the node itself.
    pub(crate) fn admits(&self, client: IpAddr, namespace: &str) -> bool {
        self.view(client).is_none_or(|view| &*view == namespace)
    }

    /// The one namespace that exists for somebody with this address; nothing where all do. For who is nobody's pod it is one
    /// without a name, in which there is nothing.
    pub(crate) fn view(&self, client: IpAddr) -> Option<Arc<str>> {
        let tenants = self.tenants.as_ref()?;
        let IpAddr::V4(client) = client else { return Some(Arc::default()) };
        // Whoever talks to a local address from here has that very address.
        if client == self.node || client.is_loopback() || self.services.place(client).is_some() {
            return None;
        }
        Some(tenants.owner(client).unwrap_or_default())
    }

    /// Gives a pod the table of its namespace, before it has an interface.
    pub(super) async fn isolate(&self, pod: Ipv4Addr, namespace: &str) -> Result<(), Failure> {
        let Some(tenants) = &self.tenants else { return Ok(()) };
        let mut tables = tenants.tables.lock().await;
        self.look(&mut tables).await?;
        self.enter(&mut tables, pod, namespace, None).await?;
        tenants.enter(pod, namespace);
        Ok(())
    }

    /// Takes over what the kernel knows about a pod of an earlier kubelet, and makes what is missing.
    pub(crate) async fn adopt(&self, pod: Ipv4Addr, namespace: &str) -> Result<(), Failure> {
        let Some(tenants) = &self.tenants else { return Ok(()) };
        let mut tables = tenants.tables.lock().await;
        let former = self.look(&mut tables).await?.by_interface.get(&interface(pod)).copied();
        if let Some(number) = former {
            tables.claim(namespace, number);
        }
        self.enter(&mut tables, pod, namespace, former).await?;
        tenants.enter(pod, namespace);
        Ok(())
    }

    /// Makes rule and routes of a pod. A rule that is right is left alone: its pod may be running.
    async fn enter(
        &self,
        tables: &mut Tables,
        pod: Ipv4Addr,
        namespace: &str,
        former: Option<u32>,
    ) -> Result<(), Failure> {
        let table = tables.of(namespace);
        let doing = || format!("separating {pod} from other tenants");
        let nowhere = in_table(table).kind(RouteType::Unreachable).build();
        done(self.handle.route().add(nowhere).replace().execute().await, doing)?;
        if former != Some(table) {
            self.remove_rules(pod).await?;
            let rule = self.handle.rule().add().v4().input_interface(interface(pod)).table_id(table);
            let rule = rule.priority(PRIORITY).action(RuleAction::ToTable);
            done(rule.execute().await, doing)?;
        }
        let member = in_table(table).destination_prefix(pod, 32).kind(RouteType::Throw).build();
        done(self.handle.route().add(member).replace().execute().await, doing)?;
        tables.join(namespace, pod);
        Ok(())
    }

    /// Takes a pod, whose interface is gone, out of its namespace's table.
    pub(super) async fn release(&self, pod: Ipv4Addr) -> Result<(), Failure> {
        let Some(tenants) = &self.tenants else { return Ok(()) };
        let mut tables = tenants.tables.lock().await;
        self.remove_rules(pod).await?;
        let Some(namespace) = tenants.owner(pod) else { return Ok(()) };
        let Some(table) = tables.by_namespace.get(&namespace).map(|table| table.number) else {
            return Ok(());
        };
        let last = tables.is_last(&namespace, pod);
        let member = in_table(table).destination_prefix(pod, 32).kind(RouteType::Throw).build();
        let nowhere = last.then(|| in_table(table).kind(RouteType::Unreachable).build());
        for route in [Some(member), nowhere].into_iter().flatten() {
            self.remove_route(route, || format!("forgetting {pod}")).await?;
        }
        tables.leave(&namespace, pod);
        tenants.forget(pod);
        Ok(())
    }

    /// Routes what lies behind a pod, the pods of a node that is a pod, for those who may reach it.
    pub(crate) async fn lead_behind(&self, pod: Ipv4Addr, range: Option<Range>) -> Result<(), Failure> {
        let mut behind = self.behind.lock().await;
        if behind.get(&pod) == range.as_ref() {
            return Ok(());
        }
        let table = match &self.tenants {
            None => MAIN_TABLE,
            Some(tenants) => {
                let tables = tenants.tables.lock().await;
                let namespace = tenants.owner(pod);
                let table = namespace.and_then(|owner| tables.by_namespace.get(&owner).map(|one| one.number));
                table
                    .ok_or_else(|| Failure::other(format!("routing behind {pod}"), "it belongs to nobody"))?
            }
        };
        let Some(index) = self.index(&interface(pod)).await? else { return Ok(()) };
        let route = |range: Range| {
            in_table(table)
                .destination_prefix(range.first(), range.prefix())
                .gateway(pod)
                .output_interface(index)
                .onlink()
                .build()
        };
        if let Some(former) = behind.remove(&pod) {
            self.remove_route(route(former), || format!("forgetting {former}")).await?;
        }
        if let Some(range) = range {
            let added = self.handle.route().add(route(range)).replace().execute().await;
            done(added, || format!("routing {range} to {pod}"))?;
            behind.insert(pod, range);
        }
        Ok(())
    }

    /// What an earlier kubelet has left. Read once: from then on nobody but us changes it.
    async fn look<'a>(&self, tables: &'a mut Tables) -> Result<&'a Found, Failure> {
        let found = match tables.found.take() {
            Some(found) => found,
            None => self.found().await?,
        };
        Ok(tables.found.insert(found))
    }

    async fn found(&self) -> Result<Found, Failure> {
        let by_interface = self.tables_by_interface().await?;
        let mut unclaimed: BTreeSet<_> = by_interface.values().copied().collect();
        let all = RouteMessageBuilder::<Ipv4Addr>::new().build();
        let mut routes = std::pin::pin!(self.handle.route().get(all).execute());
        let unreadable = |error| Failure::other("reading the routes of the node's network", error);
        while let Some(route) = routes.try_next().await.map_err(unreadable)? {
            let table = route.attributes.iter().find_map(|attribute| match attribute {
                RouteAttribute::Table(number) => Some(*number),
                _ => None,
            });
            unclaimed.extend(table.filter(|number| *number >= FIRST_TABLE));
        }
        Ok(Found { by_interface, unclaimed })
    }

    /// The table of each interface that has one.
    async fn tables_by_interface(&self) -> Result<HashMap<String, u32>, Failure> {
        let mut found = HashMap::new();
        let mut rules = std::pin::pin!(self.handle.rule().get(IpVersion::V4).execute());
        let unreadable = |error| Failure::other("reading the rules of the node's network", error);
        while let Some(rule) = rules.try_next().await.map_err(unreadable)? {
            let (mut name, mut table, mut ours) = (None, None, false);
            for attribute in rule.attributes {
                match attribute {
                    RuleAttribute::Iifname(interface) => name = Some(interface),
                    RuleAttribute::Table(number) => table = Some(number),
                    RuleAttribute::Priority(priority) => ours = priority == PRIORITY,
                    _ => {}
                }
            }
            if let (Some(name), Some(table), true) = (name, table, ours) {
                found.insert(name, table);
            }
        }
        Ok(found)
    }

    async fn remove_rules(&self, pod: Ipv4Addr) -> Result<(), Failure> {
        loop {
            let mut rule = RuleMessage::default();
            rule.header.family = AddressFamily::Inet;
            rule.attributes = vec![RuleAttribute::Iifname(interface(pod)), RuleAttribute::Priority(PRIORITY)];
            match self.handle.rule().del(rule).execute().await {
                Ok(()) => {}
                Err(error) if code(&error) == Some(nix::libc::ENOENT) => return Ok(()),
                Err(error) => return Err(Failure::other(format!("forgetting the rule of {pod}"), error)),
            }
        }
    }

    pub(super) async fn remove_route(
        &self,
        route: RouteMessage,
        doing: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        match self.handle.route().del(route).execute().await {
            // It went with its interface.
            Err(error) if code(&error) == Some(nix::libc::ESRCH) => Ok(()),
            deleted => done(deleted, doing),
        }
    }
}

fn in_table(number: u32) -> RouteMessageBuilder<Ipv4Addr> {
    RouteMessageBuilder::<Ipv4Addr>::new().table_id(number)
}

// === impl Tenants ===

impl Tenants {
    fn owner(&self, address: Ipv4Addr) -> Option<Arc<str>> {
        self.owners.read().unwrap_or_else(PoisonError::into_inner).get(&address).cloned()
    }

    fn enter(&self, pod: Ipv4Addr, namespace: &str) {
        self.owners.write().unwrap_or_else(PoisonError::into_inner).insert(pod, namespace.into());
    }

    fn forget(&self, pod: Ipv4Addr) {
        self.owners.write().unwrap_or_else(PoisonError::into_inner).remove(&pod);
    }
}

// === impl Tables ===

impl Tables {
    /// The table of a namespace, a fresh one if it has none.
    fn of(&mut self, namespace: &str) -> u32 {
        if let Some(table) = self.by_namespace.get(namespace) {
            return table.number;
        }
        let unclaimed = self.found.as_ref().map(|found| &found.unclaimed);
        let is_free = |number: &u32| {
            !self.numbers.contains(number) && !unclaimed.is_some_and(|unclaimed| unclaimed.contains(number))
        };
        // The numbers in use have few gaps: they are given out from the first on.
        let free = (FIRST_TABLE..).find(is_free).unwrap_or(FIRST_TABLE);
        self.insert(namespace, free);
        free
    }

    /// Keeps a table that a namespace had before, unless that is another's by now.
    fn claim(&mut self, namespace: &str, number: u32) {
        if !self.by_namespace.contains_key(namespace) && !self.numbers.contains(&number) {
            self.insert(namespace, number);
            if let Some(found) = &mut self.found {
                found.unclaimed.remove(&number);
            }
        }
    }

    fn insert(&mut self, namespace: &str, number: u32) {
        self.numbers.insert(number);
        self.by_namespace.insert(namespace.into(), Table { number, members: BTreeSet::new() });
    }

    fn join(&mut self, namespace: &str, pod: Ipv4Addr) {
        if let Some(table) = self.by_namespace.get_mut(namespace) {
            table.members.insert(pod);
        }
    }

    fn is_last(&self, namespace: &str, pod: Ipv4Addr) -> bool {
        let table = self.by_namespace.get(namespace);
        table.is_some_and(|table| table.members.iter().all(|member| *member == pod))
    }

    fn leave(&mut self, namespace: &str, pod: Ipv4Addr) {
        let Some(table) = self.by_namespace.get_mut(namespace) else { return };
        table.members.remove(&pod);
        if table.members.is_empty() {
            self.numbers.remove(&table.number);
            self.by_namespace.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_table_has_two_tenants() {
        let mut tables = Tables::default();
        let pod = |number| Ipv4Addr::new(10, 200, 0, number);
        tables.claim("kept", FIRST_TABLE + 1);
        tables.claim("late", FIRST_TABLE + 1);
        assert_eq!(tables.of("kept"), FIRST_TABLE + 1);
        assert_eq!(tables.of("late"), FIRST_TABLE);
        assert_eq!(tables.of("third"), FIRST_TABLE + 2);
        for (namespace, number) in [("kept", 1), ("kept", 2), ("late", 3)] {
            tables.join(namespace, pod(number));
        }

        assert!(!tables.is_last("kept", pod(1)));
        tables.leave("kept", pod(1));
        assert!(tables.is_last("kept", pod(2)));
        assert_eq!(tables.of("kept"), FIRST_TABLE + 1);
        tables.leave("kept", pod(2));
        assert_eq!(tables.of("fourth"), FIRST_TABLE + 1, "a table without members is free");
    }

    #[test]
    fn table_that_an_earlier_kubelet_left_is_only_given_to_who_had_it() {
        let unclaimed = BTreeSet::from([FIRST_TABLE, FIRST_TABLE + 1]);
        let found = Some(Found { unclaimed, ..Found::default() });
        let mut tables = Tables { found, ..Tables::default() };
        assert_eq!(tables.of("fresh"), FIRST_TABLE + 2, "whose the others were is not known yet");
        tables.claim("kept", FIRST_TABLE);
        tables.join("kept", Ipv4Addr::new(10, 200, 0, 2));
        tables.leave("kept", Ipv4Addr::new(10, 200, 0, 2));
        assert_eq!(tables.of("next"), FIRST_TABLE, "it was left as it should be");
        assert_eq!(tables.of("last"), FIRST_TABLE + 3);
    }
}
