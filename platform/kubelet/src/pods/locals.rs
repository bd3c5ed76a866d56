//! All pods there is something of on this node.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pilothouse_informer::ObjectKey;

use super::local::Local;

/// By uid, and by name: every pass over a pod asks for those of its name, and must not look at all others for that.
#[derive(Debug, Default)]
pub(super) struct Locals {
    by_uid: HashMap<String, Arc<Local>>,
    uids: HashMap<ObjectKey, BTreeSet<String>>,
}

impl Locals {
    pub(super) fn get(&self, uid: &str) -> Option<&Arc<Local>> {
        self.by_uid.get(uid)
    }

    pub(super) fn insert(&mut self, local: Arc<Local>) {
        let record = local.record();
        self.uids.entry(record.key()).or_default().insert(record.uid.clone());
        self.by_uid.insert(record.uid, local);
    }

    pub(super) fn remove(&mut self, uid: &str) {
        let Some(local) = self.by_uid.remove(uid) else { return };
        let key = local.record().key();
        if let Some(uids) = self.uids.get_mut(&key) {
            uids.remove(uid);
            if uids.is_empty() {
                self.uids.remove(&key);
            }
        }
    }

    /// Those of a name; more than one while a new one replaces an old one.
    pub(super) fn named(&self, key: &ObjectKey) -> Vec<Arc<Local>> {
        let uids = self.uids.get(key).into_iter().flatten();
        uids.filter_map(|uid| self.by_uid.get(uid).cloned()).collect()
    }

    pub(super) fn uids(&self) -> impl Iterator<Item = &String> {
        self.by_uid.keys()
    }

    pub(super) fn all(&self) -> Vec<Arc<Local>> {
        self.by_uid.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use jiff::Timestamp;

    use super::super::record::Record;
    use super::*;

    fn local(name: &str, uid: &str) -> Arc<Local> {
        let record = Record {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            address: None,
            network: String::new(),
            attached: false,
            privileged: false,
            grace_seconds: 30,
            started_at: Timestamp::UNIX_EPOCH,
        };
        Arc::new(Local::new(PathBuf::new(), record))
    }

    #[test]
    fn pods_are_found_by_name_until_the_last_of_them_is_gone() {
        let mut locals = Locals::default();
        for (name, uid) in [("web", "1"), ("web", "2"), ("db", "3")] {
            locals.insert(local(name, uid));
        }
        let named = |locals: &Locals, name: &str| {
            let found = locals.named(&ObjectKey::namespaced("shop", name));
            found.iter().map(|local| local.record().uid).collect::<Vec<_>>()
        };
        assert_eq!(named(&locals, "web"), ["1", "2"]);
        locals.remove("1");
        assert_eq!(named(&locals, "web"), ["2"]);
        locals.remove("2");
        locals.remove("2");
        assert!(named(&locals, "web").is_empty() && locals.get("2").is_none());
        assert_eq!((locals.uids.len(), locals.all().len()), (1, 1));
    }
}
