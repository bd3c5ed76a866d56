//! What somebody has removed from a cluster's resources, or changed in them.

use std::collections::{BTreeSet, HashMap};

use pilothouse_arm::dns::{RecordData, RecordKind, RecordSet};
use pilothouse_http::Context;
use pilothouse_runtime::Chain;
use serde_json::Value;
use tracing::debug;

use super::vault::{ENCRYPTION_KEY, PULL_SECRET, Vault, has_vault};
use super::{
    Cloud, CloudFailure, DNS_ZONES, IDENTITIES, OPERATORS, Paths, RESOURCE_GROUPS, VAULTS, Work, client_id,
    delegation, texts,
};
use crate::record::ClusterRecord;

impl Cloud {
    /// What a cluster once had and has no more, or not as it was, by path. Only looks, and what is not shown counts as unchanged.
    pub(crate) async fn missing(
        &self,
        record: &ClusterRecord,
        context: &Context,
    ) -> Result<Vec<String>, CloudFailure> {
        let work = Work { cloud: self, cluster: &record.cluster, context };
        let paths = Paths::of(&record.cluster);
        let Some(content) = work.content(&paths.group).await? else { return Ok(vec![paths.group]) };
        let there: HashMap<_, _> = content
            .iter()
            .filter_map(|resource| Some((resource["id"].as_str()?.to_lowercase(), resource)))
            .collect();
        let find = |path: &str| there.get(&path.to_lowercase()).copied();
        let Paths { zone, address, balancer, records, identities, vault, .. } = &paths;
        let mut missing: Vec<_> = [zone, address, balancer].into_iter().chain(identities).collect();
        if has_vault(record) {
            missing.push(vault);
        }
        missing.retain(|path| !find(path).is_some_and(|found| work.is_own(found)));
        let mut missing: Vec<String> = missing.into_iter().cloned().collect();

        for (operator, path) in OPERATORS.iter().zip(identities) {
            if let Some(found) = find(path).filter(|found| work.is_own(found))
                && work.is_another(operator, path, found, record).await?
            {
                missing.push(path.clone());
            }
        }
        // A group need not list what is in its zones and vaults.
        let address = find(address).and_then(|found| found["properties"]["ipAddress"].as_str());
        missing.extend(work.record_drift(records, address).await?);
        if let Some(delegation) = delegation(self.base_zone.as_ref(), &record.cluster) {
            let servers = find(zone).map(|found| texts(&found["properties"]["nameServers"]));
            let servers = servers.filter(|servers| !servers.is_empty());
            let wanted = |data: &RecordData| match (data, &servers) {
                (RecordData::Ns(found), Some(servers)) => found == servers,
                _ => true,
            };
            if !work.is_record(&delegation, RecordKind::Ns, wanted).await? {
                missing.push(delegation);
            }
        }
        if let Some(found) = find(vault).filter(|found| has_vault(record) && work.is_own(found)) {
            missing.extend(work.secret_drift(vault, found, record).await?);
        }
        Ok(missing)
    }
}

impl Work<'_> {
    /// Everything in a group; none if there is no group.
    pub(super) async fn content(&self, group: &str) -> Result<Option<Vec<Value>>, CloudFailure> {
        self.list(&format!("{group}/resources"), RESOURCE_GROUPS).await
    }

    /// Whether this carries the cluster's mark.
    pub(super) fn is_own(&self, found: &Value) -> bool {
        self.own_etag("", found).is_ok()
    }

    /// Whether an identity is not the one that was recorded: somebody removed that, and since then there is another in its
    /// place.
    async fn is_another(
        &self,
        operator: &str,
        path: &str,
        found: &Value,
        record: &ClusterRecord,
    ) -> Result<bool, CloudFailure> {
        let recorded = record.prepared.as_ref().and_then(|prepared| prepared.client_ids.get(operator));
        let Some(recorded) = recorded else { return Ok(false) };
        if let Some(shown) = client_id(found) {
            return Ok(shown != recorded);
        }
        // It need not be shown in a list.
        let found = self.get(path, IDENTITIES).await?.unwrap_or_default();
        Ok(client_id(&found).is_some_and(|shown| shown != recorded))
    }

    /// The record of the API's name, if it does not lead to the address any more.
    async fn record_drift(
        &self,
        [ipv4, ipv6]: &[String; 2],
        address: Option<&str>,
    ) -> Result<Option<String>, CloudFailure> {
        let wanted = |data: &RecordData| match (data, address) {
            (RecordData::A(found), Some(address)) => found.iter().map(ToString::to_string).eq([address]),
            (RecordData::Aaaa(found), Some(address)) => found.iter().map(ToString::to_string).eq([address]),
            _ => true,
        };
        let is_there = self.is_record(ipv4, RecordKind::A, wanted).await?
            || self.is_record(ipv6, RecordKind::Aaaa, wanted).await?;
        Ok((!is_there).then(|| ipv4.clone()))
    }

    /// Whether there is a record set of the cluster's that says what it should.
    async fn is_record(
        &self,
        path: &str,
        kind: RecordKind,
        wanted: impl Fn(&RecordData) -> bool,
    ) -> Result<bool, CloudFailure> {
        let Some(found) = self.get(path, DNS_ZONES).await? else { return Ok(false) };
        let says = RecordSet::read(kind, &found["properties"]).is_ok_and(|set| wanted(&set.data));
        Ok(says && self.is_own(&found))
    }

    async fn secret_drift(
        &self,
        vault: &str,
        shown: &Value,
        record: &ClusterRecord,
    ) -> Result<Vec<String>, CloudFailure> {
        let listed = self.list(&format!("{vault}/secrets"), VAULTS).await?.unwrap_or_default();
        let own = listed.iter().filter(|found| self.is_own(found));
        let own: BTreeSet<_> = own.filter_map(|found| found["name"].as_str()).collect();
        let prefix = &self.cluster.domain_prefix;
        let credentials = OPERATORS.map(|operator| format!("{prefix}-{operator}"));
        let key = record.prepared.as_ref().and_then(|prepared| prepared.encryption_key.as_ref());
        let wanted = credentials.iter().map(String::as_str).chain([PULL_SECRET]);
        let wanted = wanted.chain(key.map(|_| ENCRYPTION_KEY));
        let mut missing: Vec<_> = wanted.filter(|name| !own.contains(name)).map(str::to_owned).collect();
        // The vault's address need not be shown in a list.
        let there = if shown["properties"]["vaultUri"].is_string() {
            Vault::new(vault, shown)
        } else {
            let found = self.get(vault, VAULTS).await?.unwrap_or_default();
            Vault::new(vault, &found)
        }?;
        if missing.is_empty() {
            match self.read_secret(&there, PULL_SECRET).await {
                Ok(copy) if copy.expose() == self.cloud.pull_secret() => {}
                Ok(_) => missing.push(PULL_SECRET.to_owned()),
                // Whoever may not read it cannot tell, and everything else still counts.
                Err(error) => {
                    debug!(cluster = %self.cluster.id, error = %Chain(&error), "the vault does not say what the cluster pulls with");
                }
            }
        }
        Ok(missing.into_iter().map(|name| format!("{vault}/secrets/{name}")).collect())
    }
}
