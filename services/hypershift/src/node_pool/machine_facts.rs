//! What is measured on the machines of a pool, beyond whether they run.

use std::net::IpAddr;

use pilothouse_crds::{ConditionStatus, HostedCluster, NodePool, PlatformType, VirtualMachine};

use super::fleet::Member;
use super::status::Verdict;
use crate::hosted_cluster::Range;

/// How many machines a message names.
const NAMED: usize = 5;

/// What the machines say.
#[derive(Clone, Debug)]
pub(crate) struct MachineFacts {
    /// The addresses that pods of the hosted cluster have.
    cluster_network: Option<Range>,
    /// The addresses of machines, as far as they have any.
    addresses: Vec<(String, IpAddr)>,
    /// Whether virtual machines can move to another host, where there are any.
    migratable: Option<Vec<(String, Option<Migratable>)>>,
}

#[derive(Clone, Debug)]
struct Migratable {
    holds: bool,
    message: String,
}

// === impl MachineFacts ===

impl MachineFacts {
    pub(super) fn of(members: &[Member], pool: &NodePool, cluster: &HostedCluster) -> Self {
        let address = |member: &Member| member.pod.as_ref()?.status.as_ref()?.pod_ip.as_ref()?.parse().ok();
        let machines = || members.iter().filter(|member| member.virtual_machine.is_some());
        let migratable = || {
            machines()
                .map(|member| (member.name(), member.virtual_machine.as_deref().and_then(migratable)))
                .collect()
        };
        let network = cluster.spec.networking.cluster_network.first();
        Self {
            cluster_network: network.and_then(|entry| Range::parse(&entry.cidr)),
            addresses: members.iter().filter_map(|member| Some((member.name(), address(member)?))).collect(),
            migratable: (pool.spec.platform.type_ == PlatformType::KubeVirt).then(migratable),
        }
    }

    pub(super) fn conditions(&self) -> Vec<(&'static str, Verdict)> {
        let mut conditions = vec![("ClusterNetworkCIDRConflict", self.conflict())];
        if let Some(machines) = &self.migratable {
            conditions.push(("KubeVirtNodesLiveMigratable", live_migratable(machines)));
        }
        conditions
    }

    /// A machine whose own address is one that its pods could have hears nothing from them.
    fn conflict(&self) -> Verdict {
        let Some(range) = self.cluster_network.filter(|_| !self.addresses.is_empty()) else {
            return unknown("StatusUnknown", "no machine has an address yet");
        };
        let inside = self.addresses.iter().filter(|(_, address)| range.contains(*address));
        let inside: Vec<_> = inside.map(|(name, address)| format!("{name} ({address})")).collect();
        if inside.is_empty() {
            let message = format!("no machine has an address in clusterNetwork {range}");
            return (ConditionStatus::False, "AsExpected", message);
        }
        let message = format!(
            "machines have addresses that pods of the cluster could have, in clusterNetwork {range}: {}. Make the \
             cluster with another spec.networking.clusterNetwork",
            named(&inside)
        );
        (ConditionStatus::True, "CIDRConflict", message)
    }
}

/// What a virtual machine says of itself.
fn migratable(machine: &VirtualMachine) -> Option<Migratable> {
    let conditions = &machine.status.as_ref()?.conditions;
    let condition = conditions.iter().find(|condition| condition.type_ == "LiveMigratable")?;
    let holds = condition.status == ConditionStatus::True;
    Some(Migratable { holds, message: condition.message.clone() })
}

fn live_migratable(machines: &[(String, Option<Migratable>)]) -> Verdict {
    if machines.is_empty() {
        return unknown("StatusUnknown", "there is no virtual machine yet");
    }
    let bound: Vec<_> = machines
        .iter()
        .filter_map(|(name, said)| Some((name, said.as_ref().filter(|said| !said.holds)?)))
        .map(|(name, said)| format!("{name}: {}", said.message))
        .collect();
    if !bound.is_empty() {
        return (ConditionStatus::False, "NotLiveMigratable", named(&bound));
    }
    let silent: Vec<_> =
        machines.iter().filter(|(_, said)| said.is_none()).map(|(name, _)| name.clone()).collect();
    if !silent.is_empty() {
        let message = format!("nobody says whether they can move to another host: {}", named(&silent));
        return unknown("NotApplicable", &message);
    }
    (ConditionStatus::True, "AsExpected", "All virtual machines can move to another host".to_owned())
}

fn named(all: &[String]) -> String {
    let shown = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn unknown(reason: &'static str, message: &str) -> Verdict {
    (ConditionStatus::Unknown, reason, message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(addresses: &[&str], migratable: &[Option<bool>]) -> MachineFacts {
        let named = |index: usize| format!("workers-{index}");
        let addresses = addresses.iter().enumerate();
        let said = |holds| Migratable { holds, message: "its disk is on one host".to_owned() };
        MachineFacts {
            cluster_network: Range::parse("10.132.0.0/14"),
            addresses: addresses.map(|(index, text)| (named(index), text.parse().unwrap())).collect(),
            migratable: Some(
                migratable.iter().enumerate().map(|(index, holds)| (named(index), holds.map(said))).collect(),
            ),
        }
    }

    fn verdicts(addresses: &[&str], migratable: &[Option<bool>]) -> [(ConditionStatus, &'static str); 2] {
        let conditions = facts(addresses, migratable).conditions();
        [0, 1].map(|index| (conditions[index].1.0, conditions[index].1.1))
    }

    #[test]
    fn a_machine_with_an_address_of_a_pod_is_a_conflict() {
        let conflict = |addresses: &[&str]| verdicts(addresses, &[])[0];
        assert_eq!(conflict(&[]), (ConditionStatus::Unknown, "StatusUnknown"));
        assert_eq!(conflict(&["10.88.0.4"]), (ConditionStatus::False, "AsExpected"));
        assert_eq!(conflict(&["10.88.0.4", "10.133.0.4"]), (ConditionStatus::True, "CIDRConflict"));
        let message = facts(&["10.133.0.4"; 7], &[]).conflict().2;
        assert!(message.contains("workers-4 (10.133.0.4) and 2 more"), "{message}");
    }

    #[test]
    fn machines_move_when_all_of_them_say_so() {
        let moves = |said: &[Option<bool>]| verdicts(&[], said)[1];
        assert_eq!(moves(&[]), (ConditionStatus::Unknown, "StatusUnknown"));
        assert_eq!(moves(&[Some(true), Some(true)]), (ConditionStatus::True, "AsExpected"));
        assert_eq!(moves(&[Some(true), None]), (ConditionStatus::Unknown, "NotApplicable"));
        assert_eq!(moves(&[None, Some(false)]), (ConditionStatus::False, "NotLiveMigratable"));
    }
}
