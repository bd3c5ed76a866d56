//! A search by label reads what it finds, however much there is.

use futures::{StreamExt, TryStreamExt};
use pilothouse_test_support::{eventually, postgres};

use crate::cluster::PATIENCE;
use crate::world::{BrokerPart, Server, Storage, work};

/// Enough that the database has a choice.
const BUNDLES: usize = 600;

/// The plans that the database has written down for lists by an index, each with its statement.
fn plans(database: &postgres::Server) -> Vec<String> {
    let log = database.run_psql("select pg_read_file('log/plans.log')");
    let mut plans: Vec<String> = Vec::new();
    for line in log.lines() {
        // A plan is indented below its first line.
        if line.contains("plan:") {
            plans.push(String::new());
        } else if let Some(plan) = plans.last_mut().filter(|_| line.starts_with(['\t', ' '])) {
            plan.push_str(line);
            plan.push('\n');
        }
    }
    plans.retain(|plan| plan.contains("FROM entry e "));
    plans
}

#[tokio::test]
async fn every_label_is_looked_up_by_an_index() {
    let options = postgres::Options::default()
        .not_durable()
        .setting("session_preload_libraries", "auto_explain")
        .setting("auto_explain.log_min_duration", "0")
        .setting("auto_explain.log_analyze", "on")
        .setting("logging_collector", "on")
        .setting("log_filename", "plans.log");
    let Some(database) = postgres::Server::start(options) else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = database.fresh_database();
    let broker = BrokerPart::ours(0).await;
    let server = Server::start_with(folder.path(), broker.port, &Storage::Postgres(url.clone())).await;
    let source = &server.source;
    futures::stream::iter(0..BUNDLES)
        .map(|number| async move {
            let mut wanted = work(&format!("w{number}"), "1");
            wanted.labels.insert("example.com/tier".to_owned(), format!("tier-{}", number % 100));
            source.work_create(&wanted).await
        })
        .buffer_unordered(32)
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
    database.try_run_psql(&url, "analyze").unwrap();

    for (search, expected, value) in [
        ("payload->'metadata'->'labels'->>'api.openshift.com/id'='w7'", 1, "api.openshift.com/id=w7"),
        ("payload->'metadata'->'labels'->>'example.com/tier'='tier-9'", 6, "example.com/tier=tier-9"),
        (
            "source='cs' and payload->'metadata'->'labels'@>'{\"example.com/tier\":\"tier-11\"}'",
            6,
            "example.com/tier=tier-11",
        ),
    ] {
        assert_eq!(server.rest.resource_bundle_search(search).await.unwrap().len(), expected, "{search}");
        let plan = eventually("the plan is written down", PATIENCE, || async {
            plans(&database).into_iter().find(|plan| plan.contains(value)).ok_or("not yet")
        })
        .await;
        for table in ["entry", "head", "version"] {
            assert!(
                !plan.contains(&format!("Seq Scan on {table}")),
                "{search} reads all of {table}:\n{plan}"
            );
        }
        assert!(plan.contains("Index") && plan.contains("e.value") || plan.contains("(value ="), "{plan}");
    }
}
