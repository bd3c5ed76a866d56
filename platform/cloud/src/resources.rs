//! Groups and what is in them, over the store.
//!
//! A subscription is a partition. A resource that comes into being writes its group as well: so a group that is deleted
//! with everything in it, in one transaction, cannot leave behind what was put while it was being listed.

use pilothouse_arm::ResourceId;
use pilothouse_store::{
    Catalog, Container, Document, DocumentId, Error as StoreError, Etag, Partition, Precondition, Query,
    Store, Transaction,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::provider::Kind;
use crate::refusal::Refusal;

const GROUPS: &str = "resource-groups";
const RESOURCES: &str = "resources";
const GROUP: &str = "group";
/// How often a write starts over because somebody else wrote in between.
const ATTEMPTS: usize = 20;

/// What a store must be opened with to be this server's.
///
/// # Panics
///
/// Never: the declarations do not depend on anything.
pub fn catalog() -> Catalog {
    Catalog::try_new([Container::new(GROUPS), resources()]).expect("the declarations are valid")
}

fn resources() -> Container {
    Container::new(RESOURCES).with_index(GROUP, "/group")
}

/// All resources. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Resources {
    store: Store,
    groups: Container,
    resources: Container,
}

/// Whether a put made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    Created,
    Replaced,
}

/// A group or resource as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    /// The id as it was first spelled.
    id: ResourceId,
    /// The group's key, for what is in a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// The type's name.
    kind: String,
    /// How many resources the group has seen; it makes every creation a change of the group.
    #[serde(default)]
    seen: u64,
    /// What was put, completed.
    body: Map<String, Value>,
}

impl Resources {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, groups: Container::new(GROUPS), resources: resources() }
    }

    pub(crate) async fn group_put(
        &self,
        id: &ResourceId,
        mut body: Map<String, Value>,
    ) -> Result<(Put, Value), Refusal> {
        body.insert("properties".to_owned(), json!({"provisioningState": "Succeeded"}));
        let kind = "Microsoft.Resources/resourceGroups";
        for _ in 0..ATTEMPTS {
            let former = self.get(&self.groups, id).await?;
            check_location(id, &body, former.as_ref().map(|(former, _)| former))?;
            let mut record =
                Record { id: id.clone(), group: None, kind: kind.to_owned(), seen: 0, body: body.clone() };
            let (put, precondition) = continued(&mut record, former);
            let mut transaction = transaction(id)?;
            transaction.put(&self.groups, key(id)?, precondition, &record)?;
            if self.committed(&transaction).await? {
                return Ok((put, record.shown()));
            }
        }
        Err(Refusal::Busy(id.clone()))
    }

    pub(crate) async fn resource_put(
        &self,
        group: &ResourceId,
        id: &ResourceId,
        kind: Kind,
        body: Map<String, Value>,
    ) -> Result<(Put, Value), Refusal> {
        for _ in 0..ATTEMPTS {
            let Some((mut holder, etag)) = self.get(&self.groups, group).await? else {
                return Err(Refusal::NotFound(group.clone()));
            };
            let former = self.get(&self.resources, id).await?;
            check_location(id, &body, former.as_ref().map(|(former, _)| former))?;
            let mut body = body.clone();
            kind.complete(&mut body, former.as_ref().map(|(former, _)| &former.body));
            let mut record = Record {
                id: id.clone(),
                group: Some(group.key()),
                kind: kind.name().to_owned(),
                seen: 0,
                body,
            };
            let (put, precondition) = continued(&mut record, former);
            let mut transaction = transaction(id)?;
            transaction.put(&self.resources, key(id)?, precondition, &record)?;
            if put == Put::Created {
                holder.seen += 1;
                transaction.put(&self.groups, key(group)?, Precondition::Etag(etag), &holder)?;
            }
            if self.committed(&transaction).await? {
                return Ok((put, record.shown()));
            }
        }
        Err(Refusal::Busy(id.clone()))
    }

    pub(crate) async fn group_get(&self, id: &ResourceId) -> Result<Value, Refusal> {
        let found = self.get(&self.groups, id).await?;
        found.map(|(record, _)| record.shown()).ok_or_else(|| Refusal::NotFound(id.clone()))
    }

    pub(crate) async fn resource_get(&self, id: &ResourceId) -> Result<Value, Refusal> {
        let found = self.get(&self.resources, id).await?;
        found.map(|(record, _)| record.shown()).ok_or_else(|| Refusal::NotFound(id.clone()))
    }

    pub(crate) async fn group_list(&self, subscription: &str) -> Result<Vec<Value>, Refusal> {
        let partition = Partition::try_new(subscription)?;
        let found = self.records(Query::partition(&self.groups, &partition)).await?;
        Ok(found.iter().map(Record::shown).collect())
    }

    /// What is in a group, all of it or of one type.
    pub(crate) async fn resource_list(
        &self,
        group: &ResourceId,
        kind: Option<Kind>,
    ) -> Result<Vec<Value>, Refusal> {
        self.group_get(group).await?;
        let found = self.content(group).await?;
        let wanted = |record: &&Record| kind.is_none_or(|kind| record.kind == kind.name());
        Ok(found.iter().filter(wanted).map(Record::shown).collect())
    }

    /// Deletes a group with everything in it; false if there is none.
    pub(crate) async fn group_delete(&self, id: &ResourceId) -> Result<bool, Refusal> {
        for _ in 0..ATTEMPTS {
            // The group before its content: whatever comes in afterwards changes the group.
            let Some((_, etag)) = self.get(&self.groups, id).await? else { return Ok(false) };
            let mut transaction = transaction(id)?;
            for record in self.content(id).await? {
                transaction.delete(&self.resources, key(&record.id)?, Precondition::Any);
            }
            transaction.delete(&self.groups, key(id)?, Precondition::Etag(etag));
            if self.committed(&transaction).await? {
                return Ok(true);
            }
        }
        Err(Refusal::Busy(id.clone()))
    }

    /// Deletes one resource; false if there is none.
    pub(crate) async fn resource_delete(&self, id: &ResourceId) -> Result<bool, Refusal> {
        if self.get(&self.resources, id).await?.is_none() {
            return Ok(false);
        }
        let mut transaction = transaction(id)?;
        transaction.delete(&self.resources, key(id)?, Precondition::Any);
        self.store.commit(&transaction).await?;
        Ok(true)
    }

    async fn content(&self, group: &ResourceId) -> Result<Vec<Record>, Refusal> {
        let query = Query::partition(&self.resources, &partition(group)?).matching(GROUP, group.key());
        self.records(query).await
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

    /// False if somebody else wrote in between.
    async fn committed(&self, transaction: &Transaction) -> Result<bool, Refusal> {
        match self.store.commit(transaction).await {
            Ok(_) => Ok(true),
            Err(StoreError::Conflict(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Record {
    fn shown(&self) -> Value {
        let mut shown = json!({"id": self.id, "name": self.id.name(), "type": self.kind});
        if let Value::Object(members) = &mut shown {
            members.extend(self.body.clone());
        }
        shown
    }
}

/// The spelling of the first put stays, as does what the group has seen.
fn continued(record: &mut Record, former: Option<(Record, Etag)>) -> (Put, Precondition) {
    match former {
        Some((former, etag)) => {
            record.id = former.id;
            record.seen = former.seen;
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
