//! No statement that a request waits for reads more than it answers: each goes by an index, however large the
//! store. The statements are under golden test as well, so that a change to one is seen in review.

use std::fmt::Write as _;

use camino::Utf8PathBuf;
use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqliteConnection};

use super::load::{entries_statement, heads_statement};
use super::open;
use super::read::{changes_statement, ids_statement, list_statement, read_statement};
use super::write::close_statement;
use crate::container::Entry;
use crate::engine::Scope;
use crate::plan::OpenEntry;
use crate::query::List;
use crate::transaction::Key;
use crate::{DocumentId, Durability, Partition, Revision};

fn partition() -> Partition {
    Partition::try_new("ada").unwrap()
}

fn list(partition: Option<Partition>, matching: bool, behind: bool) -> List {
    List {
        container: "notes".into(),
        partition,
        prefix: if matching { String::new() } else { "a/".to_owned() },
        matching: matching.then(|| ("colour".into(), "red".to_owned())),
        limit: 10,
        at: Some(Revision::from_number(5)),
        behind: behind.then(|| (self::partition(), DocumentId::try_new("a/x").unwrap())),
    }
}

fn statements() -> Vec<(&'static str, String)> {
    let id = DocumentId::try_new("x").unwrap();
    let key = Key { container: "notes".into(), partition: partition(), id };
    let revision = Revision::from_number(5);
    let entry = Entry { index: "colour".into(), value: "red".to_owned() };
    let closed = (OpenEntry { key: key.clone(), entry, since: revision }, revision);
    vec![
        ("heads to be written", heads_statement(&[&key, &key], None).into_string()),
        ("entries to be written", entries_statement(&[&key, &key]).into_string()),
        ("close entries", close_statement(&[closed.clone(), closed]).into_string()),
        ("read", read_statement(&key, None).into_string()),
        ("read in the past", read_statement(&key, Some(revision)).into_string()),
        ("list a partition", list_statement(&list(Some(partition()), false, true)).into_string()),
        ("list everything", list_statement(&list(None, false, true)).into_string()),
        ("list by index", list_statement(&list(None, true, true)).into_string()),
        ("list a partition by index", list_statement(&list(Some(partition()), true, false)).into_string()),
        ("ids of a partition", ids_statement(&list(Some(partition()), false, false)).into_string()),
        ("ids by index", ids_statement(&list(Some(partition()), true, false)).into_string()),
        ("follow a partition", changes_statement(&Scope::Partition(partition()), revision, 10).into_string()),
        (
            "follow a container",
            changes_statement(&Scope::Container("notes".into()), revision, 10).into_string(),
        ),
        (
            "due",
            "SELECT container, partition, id FROM head WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2"
                .to_owned(),
        ),
        ("next due", "SELECT min(expires_at) AS next FROM head WHERE expires_at > $1".to_owned()),
    ]
}

#[tokio::test]
async fn every_statement_of_a_request_goes_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(folder.path().join("store.db")).unwrap();
    let mut connection: SqliteConnection = open::writer(&path, Durability::None).await.unwrap();
    let mut told = String::new();
    for (name, statement) in statements() {
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let rows = sqlx::query(explain).fetch_all(&mut connection).await.unwrap();
        writeln!(told, "{name}\n  {statement}").unwrap();
        for row in rows {
            let step: String = row.try_get("detail").unwrap();
            writeln!(told, "    {step}").unwrap();
            // The store's own row, what was already cut to a page, and the steps back from one head may be gone
            // through.
            let few = [
                "SCAN s",
                "SCAN d LEFT-JOIN",
                "SCAN w",
                "SCAN past",
                "SCAN wanted",
                "SCAN gone",
                "SCAN 2-ROW VALUES CLAUSE",
            ];
            let scans =
                step.starts_with("SCAN ") && !few.contains(&step.as_str()) || step.ends_with("(container=?)");
            assert!(!scans, "{name} reads a whole table: {step}\n{statement}");
        }
    }
    connection.close().await.unwrap();
    insta::assert_snapshot!(told);
}
