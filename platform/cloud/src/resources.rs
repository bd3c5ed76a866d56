//! Groups and what is in them, over the store.
//!
//! A subscription is a partition. A resource that comes into being is noted as the latest of its group as well: so a group that
//! is deleted with everything in it, in one transaction, cannot leave behind what was put while it was being listed. The note
//! is a document of its own that is written whatever it was: those that come into one group at once do not wait for one
//! another. Records of the region's own zone are excepted: nobody may delete that zone.

use std::net::IpAddr;

use pilothouse_arm::ResourceId;
use pilothouse_arm::dns::RecordKind;
use pilothouse_runtime::Clock;
use pilothouse_store::{
    Catalog, Container, Continue, Document, DocumentId, Error as StoreError, Etag, Partition, Precondition,
    Query, Store, Transaction,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::condition::Condition;
use crate::provider::{Kind, Surroundings};
use crate::refusal::Refusal;
use crate::vault::{self, Sealed};

const GROUPS: &str = "resource-groups";
const RESOURCES: &str = "resources";
const LATEST: &str = "latest-resources";
const GROUP: &str = "group";
/// How often a write starts over because somebody else wrote in between.
const ATTEMPTS: usize = 20;

/// What a store must be opened with to be this server's.
///
/// # Panics
///
/// Never: the declarations do not depend on anything.
pub fn catalog() -> Catalog {
    Catalog::try_new([Container::new(GROUPS), Container::new(LATEST), container(), vault::container()])
        .expect("the declarations are valid")
}

/// What suffices to follow names in such a store. Nothing in it is secret, so whoever answers for names needs no key.
///
/// # Panics
///
/// Never: the declarations do not depend on anything.
pub fn names_catalog() -> Catalog {
    Catalog::try_new([container()]).expect("the declarations are valid")
}

/// Where everything in groups is.
pub(crate) fn container() -> Container {
    Container::new(RESOURCES).with_index(GROUP, "/group")
}

/// All resources. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Resources {
    store: Store,
    groups: Container,
    /// What came into a group last, by its key.
    latest: Container,
    resources: Container,
    /// What secrets say, by the key of the resource.
    sealed: Container,
    /// The region's own zone.
    base_zone: ResourceId,
    surroundings: Surroundings,
}

/// Whether a put made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    Created,
    Replaced,
}

/// Which part of a list is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    /// At most so many, whatever they are; of these those are answered that are wanted.
    pub(crate) top: usize,
    /// Where it begins.
    pub(crate) from: Option<Continue>,
}

/// A part of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    pub(crate) value: Vec<Value>,
    /// Where the list goes on, unless this was the end.
    pub(crate) next: Option<Continue>,
}

/// A group or resource as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The id as it was first spelled.
    pub(crate) id: ResourceId,
    /// The group's key, for what is in a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// The type's name.
    kind: String,
    /// What was put, completed.
    body: Map<String, Value>,
}

impl Resources {
    pub(crate) fn new(store: Store, base_zone: ResourceId, gateway: IpAddr, clock: Clock) -> Self {
        let surroundings = Surroundings { gateway, domain: base_zone.name().to_lowercase(), clock };
        Self {
            store,
            groups: Container::new(GROUPS),
            latest: Container::new(LATEST),
            resources: container(),
            sealed: vault::container(),
            base_zone,
            surroundings,
        }
    }

    /// Makes sure of the region's own zone.
    pub(crate) async fn ensure_base_zone(&self) -> Result<(), Refusal> {
        let Some(group) = self.base_zone.parent() else { return Err(Refusal::NoSuchPath) };
        let body = |location: &str| Map::from_iter([("location".to_owned(), json!(location))]);
        for made in [
            self.group_put(&group, body("global"), &Condition::Absent).await,
            self.resource_put(&group, &self.base_zone, Kind::DnsZone, body("global"), &Condition::Absent)
                .await,
        ] {
            match made {
                Ok(_) | Err(Refusal::Exists(_)) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(())
    }

    pub(crate) async fn group_put(
        &self,
        id: &ResourceId,
        mut body: Map<String, Value>,
        condition: &Condition,
    ) -> Result<(Put, Value), Refusal> {
        body.insert("properties".to_owned(), json!({"provisioningState": "Succeeded"}));
        let kind = "Microsoft.Resources/resourceGroups";
        for _ in 0..ATTEMPTS {
            let former = self.get(&self.groups, id).await?;
            condition.check(id, former.as_ref().map(|(_, etag)| etag))?;
            check_location(id, &body, former.as_ref().map(|(former, _)| former))?;
            let mut record =
                Record { id: id.clone(), group: None, kind: kind.to_owned(), body: body.clone() };
            let (put, precondition) = continued(&mut record, former);
            let mut transaction = transaction(id)?;
            transaction.put(&self.groups, key(id)?, precondition, &record)?;
            if let Some(etag) = self.committed(&transaction).await? {
                return Ok((put, record.shown(&etag)));
            }
        }
        Err(Refusal::Busy(id.clone()))
    }

    pub(crate) async fn resource_put(
        &self,
        group: &ResourceId,
        id: &ResourceId,
        kind: Kind,
        mut body: Map<String, Value>,
        condition: &Condition,
    ) -> Result<(Put, Value), Refusal> {
        kind.check(id, &body)?;
        let sealed = if kind == Kind::Secret { Some(Sealed::take(id, &mut body)?) } else { None };
        for _ in 0..ATTEMPTS {
            let Some((_, etag)) = self.get(&self.groups, group).await? else {
                return Err(Refusal::NotFound(group.clone()));
            };
            let former = self.get(&self.resources, id).await?;
            condition.check(id, former.as_ref().map(|(_, etag)| etag))?;
            if kind.has_location() {
                check_location(id, &body, former.as_ref().map(|(former, _)| former))?;
            }
            let mut body = body.clone();
            let former_body = former.as_ref().map(|(former, _)| &former.body);
            kind.complete(id, &mut body, former_body, &self.surroundings);
            let mut record =
                Record { id: id.clone(), group: Some(group.key()), kind: kind.name().to_owned(), body };
            let (put, precondition) = continued(&mut record, former);
            let mut transaction = transaction(id)?;
            transaction.put(&self.resources, key(id)?, precondition, &record)?;
            if let Kind::RecordSet(of) = kind {
                self.check_zone(&mut transaction, id, of).await?;
            }
            if let Some(sealed) = &sealed {
                self.check_parent(&mut transaction, id).await?;
                transaction.put(&self.sealed, key(id)?, Precondition::Any, sealed)?;
            }
            if put == Put::Created && !id.is_below(&self.base_zone) {
                transaction.check(&self.groups, key(group)?, Precondition::Etag(etag));
                transaction.put(&self.latest, key(group)?, Precondition::Any, &json!({"id": id}))?;
            }
            if let Some(etag) = self.committed(&transaction).await? {
                return Ok((put, record.shown(&etag)));
            }
        }
        Err(Refusal::Busy(id.clone()))
    }

    /// A record set is in a zone, and alone at its name if it makes that another's.
    async fn check_zone(
        &self,
        transaction: &mut Transaction,
        id: &ResourceId,
        kind: RecordKind,
    ) -> Result<(), Refusal> {
        let zone = self.check_parent(transaction, id).await?;
        let excluded = |other: &RecordKind| (*other == RecordKind::Cname) != (kind == RecordKind::Cname);
        for other in RecordKind::ALL.into_iter().filter(excluded) {
            let beside = zone.child(other.name(), id.name());
            if self.get(&self.resources, &beside).await?.is_some() {
                return Err(Refusal::Alias { id: id.clone(), other: other.name() });
            }
            transaction.check(&self.resources, key(&beside)?, Precondition::Absent);
        }
        Ok(())
    }

    /// What a resource is in is there, and stays as it is while it is put.
    async fn check_parent(
        &self,
        transaction: &mut Transaction,
        id: &ResourceId,
    ) -> Result<ResourceId, Refusal> {
        let Some(parent) = id.parent() else { return Err(Refusal::NoSuchPath) };
        let Some((_, etag)) = self.get(&self.resources, &parent).await? else {
            return Err(Refusal::NotFound(parent));
        };
        transaction.check(&self.resources, key(&parent)?, Precondition::Etag(etag));
        Ok(parent)
    }

    /// What a secret says now.
    pub(crate) async fn secret_get(&self, id: &ResourceId) -> Result<Sealed, Refusal> {
        match self.store.get(&self.sealed, &partition(id)?, &key(id)?).await? {
            Some(document) => Ok(document.parse()?),
            None => Err(Refusal::NotFound(id.clone())),
        }
    }

    pub(crate) async fn group_get(&self, id: &ResourceId) -> Result<Value, Refusal> {
        let found = self.get(&self.groups, id).await?;
        found.map(|(record, etag)| record.shown(&etag)).ok_or_else(|| Refusal::NotFound(id.clone()))
    }

    pub(crate) async fn resource_get(&self, id: &ResourceId) -> Result<Value, Refusal> {
        let found = self.get(&self.resources, id).await?;
        found.map(|(record, etag)| record.shown(&etag)).ok_or_else(|| Refusal::NotFound(id.clone()))
    }

    pub(crate) async fn group_list(&self, subscription: &str, slice: Slice) -> Result<Listed, Refusal> {
        self.list(Query::partition(&self.groups, &Partition::try_new(subscription)?), None, slice).await
    }

    /// What is in the groups of a subscription, all of it or of one type.
    pub(crate) async fn subscription_list(
        &self,
        subscription: &str,
        kind: Option<Kind>,
        slice: Slice,
    ) -> Result<Listed, Refusal> {
        self.list(Query::partition(&self.resources, &Partition::try_new(subscription)?), kind, slice).await
    }

    /// What is in a group, all of it or of one type.
    pub(crate) async fn resource_list(
        &self,
        group: &ResourceId,
        kind: Option<Kind>,
        slice: Slice,
    ) -> Result<Listed, Refusal> {
        self.group_get(group).await?;
        self.list(self.content(group)?, kind, slice).await
    }

    /// What is below a resource, all of it or of one type.
    pub(crate) async fn child_list(
        &self,
        parent: &ResourceId,
        kind: Option<Kind>,
        slice: Slice,
    ) -> Result<Listed, Refusal> {
        self.resource_get(parent).await?;
        self.list(self.below(parent)?, kind, slice).await
    }

    async fn list(&self, query: Query, kind: Option<Kind>, slice: Slice) -> Result<Listed, Refusal> {
        let mut query = query.limit(slice.top);
        if let Some(from) = slice.from {
            query = query.from(from);
        }
        let page = match self.store.list(query).await {
            // What it was a list of is not kept any more.
            Err(StoreError::TooOld { .. } | StoreError::NotYet { .. }) => return Err(Refusal::SkipToken),
            page => page?,
        };
        let mut value = Vec::with_capacity(page.documents.len());
        for document in &page.documents {
            let record: Record = document.parse()?;
            if kind.is_none_or(|kind| record.kind == kind.name()) {
                value.push(record.shown(&document.etag));
            }
        }
        Ok(Listed { value, next: page.next })
    }

    /// Deletes a group with everything in it; false if there is none.
    pub(crate) async fn group_delete(&self, id: &ResourceId, condition: &Condition) -> Result<bool, Refusal> {
        if self.base_zone.is_below(id) {
            return Err(Refusal::Regional(id.clone()));
        }
        for _ in 0..ATTEMPTS {
            // Before the content: whatever comes in afterwards is another that came last.
            let latest = self.latest(id).await?;
            let former = self.get(&self.groups, id).await?;
            condition.check(id, former.as_ref().map(|(_, etag)| etag))?;
            let Some((_, etag)) = former else { return Ok(false) };
            let mut transaction = transaction(id)?;
            for record in self.records(self.content(id)?).await? {
                self.remove(&mut transaction, &record)?;
            }
            transaction.delete(&self.groups, key(id)?, Precondition::Etag(etag));
            match latest {
                Precondition::Absent => transaction.check(&self.latest, key(id)?, latest),
                _ => transaction.delete(&self.latest, key(id)?, latest),
            };
            if self.is_committed(&transaction).await? {
                return Ok(true);
            }
        }
        Err(Refusal::Busy(id.clone()))
    }

    /// Deletes one resource with what is below it; false if there is none.
    pub(crate) async fn resource_delete(
        &self,
        group: &ResourceId,
        id: &ResourceId,
        condition: &Condition,
    ) -> Result<bool, Refusal> {
        if self.base_zone == *id {
            return Err(Refusal::Regional(id.clone()));
        }
        for _ in 0..ATTEMPTS {
            let latest = self.latest(group).await?;
            let former = self.get(&self.resources, id).await?;
            condition.check(id, former.as_ref().map(|(_, etag)| etag))?;
            let Some((_, etag)) = former else { return Ok(false) };
            let mut transaction = transaction(id)?;
            for record in self.records(self.below(id)?).await? {
                self.remove(&mut transaction, &record)?;
            }
            transaction.delete(&self.resources, key(id)?, Precondition::Etag(etag));
            // Nothing has come in below it since.
            if !id.is_below(&self.base_zone) {
                transaction.check(&self.latest, key(group)?, latest);
            }
            if self.is_committed(&transaction).await? {
                return Ok(true);
            }
        }
        Err(Refusal::Busy(id.clone()))
    }

    /// That nothing has come into a group since.
    async fn latest(&self, group: &ResourceId) -> Result<Precondition, Refusal> {
        let found = self.store.get(&self.latest, &partition(group)?, &key(group)?).await?;
        Ok(found.map_or(Precondition::Absent, |document| Precondition::Etag(document.etag)))
    }

    /// With what a secret says, if it is one.
    fn remove(&self, transaction: &mut Transaction, record: &Record) -> Result<(), Refusal> {
        transaction.delete(&self.resources, key(&record.id)?, Precondition::Any);
        if record.kind == Kind::Secret.name() {
            transaction.delete(&self.sealed, key(&record.id)?, Precondition::Any);
        }
        Ok(())
    }

    fn below(&self, parent: &ResourceId) -> Result<Query, Refusal> {
        let query = Query::partition(&self.resources, &partition(parent)?);
        Ok(query.prefix(format!("{}/", parent.key())))
    }

    fn content(&self, group: &ResourceId) -> Result<Query, Refusal> {
        Ok(Query::partition(&self.resources, &partition(group)?).matching(GROUP, group.key()))
    }

    async fn records(&self, query: Query) -> Result<Vec<Record>, Refusal> {
        let mut page = self.store.list(query.clone()).await?;
        let mut documents = page.documents;
        while let Some(next) = page.next {
            page = self.store.list(query.clone().from(next)).await?;
            documents.append(&mut page.documents);
        }
        Ok(documents.iter().map(Document::parse).collect::<Result<_, _>>()?)
    }

    async fn get(&self, container: &Container, id: &ResourceId) -> Result<Option<(Record, Etag)>, Refusal> {
        match self.store.get(container, &partition(id)?, &key(id)?).await? {
            Some(document) => Ok(Some((document.parse()?, document.etag))),
            None => Ok(None),
        }
    }

    /// The etag of what was written first; nothing if somebody else wrote in between.
    async fn committed(&self, transaction: &Transaction) -> Result<Option<Etag>, Refusal> {
        match self.store.commit(transaction).await {
            Ok(committed) => Ok(committed.etag().cloned()),
            Err(StoreError::Conflict(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The same where nothing is written, but deleted.
    async fn is_committed(&self, transaction: &Transaction) -> Result<bool, Refusal> {
        match self.store.commit(transaction).await {
            Ok(_) => Ok(true),
            Err(StoreError::Conflict(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Record {
    /// As ARM shows it.
    pub(crate) fn shown(&self, etag: &Etag) -> Value {
        let mut shown = json!({"id": self.id, "name": self.id.name(), "type": self.kind, "etag": etag});
        if let Value::Object(members) = &mut shown {
            members.extend(self.body.clone());
        }
        shown
    }
}

/// The spelling of the first put stays.
fn continued(record: &mut Record, former: Option<(Record, Etag)>) -> (Put, Precondition) {
    match former {
        Some((former, etag)) => {
            record.id = former.id;
            (Put::Replaced, Precondition::Etag(etag))
        }
        None => (Put::Created, Precondition::Absent),
    }
}

fn check_location(
    id: &ResourceId,
    body: &Map<String, Value>,
    former: Option<&Record>,
) -> Result<(), Refusal> {
    let location =
        |body: &Map<String, Value>| body.get("location").and_then(Value::as_str).map(str::to_owned);
    let asked = location(body).ok_or_else(|| Refusal::Body("`location` is required".to_owned()))?;
    match former.and_then(|former| location(&former.body)) {
        Some(location) if !location.eq_ignore_ascii_case(&asked) => {
            Err(Refusal::Moved { id: id.clone(), location })
        }
        _ => Ok(()),
    }
}

fn transaction(id: &ResourceId) -> Result<Transaction, Refusal> {
    Ok(Transaction::new(partition(id)?))
}

fn partition(id: &ResourceId) -> Result<Partition, Refusal> {
    Ok(Partition::try_new(id.subscription_name().to_lowercase())?)
}

fn key(id: &ResourceId) -> Result<DocumentId, Refusal> {
    Ok(DocumentId::try_new(id.key())?)
}
