//! The store on SQLite and PostgreSQL: writes, feeds, opening, lists, reads.
//!
//! SQLite is as durable as by default (a commit waits for the disk), PostgreSQL flushes too. Everything is on a
//! file system that the report names; on one in memory a flush costs nothing, and the figures mean nothing.

mod document;
mod engine;
mod existing;
mod feed;
mod list;
mod pgbench;
mod write;

use anyhow::Context as _;
use pilothouse_test_support::postgres::{self, Server};

use self::engine::Engine;
use self::existing::Existing;
use crate::harness::{Folder, Progress, Report, Size, file_system};

pub(crate) async fn run(size: Size) -> anyhow::Result<Report> {
    let mut report = Report::new("store", size);
    let folder = Folder::create()?;
    report.condition("file system of SQLite", folder.describe());
    let sqlite = Engine::Sqlite(&folder);
    Progress.say("starting PostgreSQL");
    let server = Server::start(postgres::Options::default());
    match &server {
        Some(server) => report.condition("PostgreSQL", describe(server)?),
        None => {
            report.leave_out("every figure of PostgreSQL: it is not installed (apt-get install postgresql)")
        }
    }
    let postgres = server.as_ref().map(Engine::Postgres);

    Progress.say("writes, SQLite");
    write::sqlite(&folder, size, &mut report).await.context("writes, SQLite")?;
    if let Some(server) = &server {
        Progress.say("writes, PostgreSQL");
        write::postgres(server, &folder, size, &mut report).await.context("writes, PostgreSQL")?;
    }

    Progress.say("feeds");
    feed::sqlite(sqlite, size, &mut report).await.context("feeds, SQLite")?;
    if let Some(postgres) = postgres {
        feed::postgres(postgres, size, &mut report).await.context("feeds, PostgreSQL")?;
    }

    for engine in [Some(sqlite), postgres].into_iter().flatten() {
        let existing = Existing::fill(engine, size).await.with_context(|| format!("filling {engine}"))?;
        existing.open_again(&mut report).await.with_context(|| format!("opening, {engine}"))?;
        existing.read(&mut report).await.with_context(|| format!("point reads, {engine}"))?;
        list::measure(&existing, &mut report).await.with_context(|| format!("lists, {engine}"))?;
    }
    Ok(report)
}

/// What of the server decides on its figures.
fn describe(server: &Server) -> anyhow::Result<String> {
    let ask = |setting: &str| -> anyhow::Result<String> {
        Ok(server.try_run_psql(&server.url(), &format!("show {setting}"))?.trim().to_owned())
    };
    Ok(format!(
        "{}, fsync {}, synchronous_commit {}, on {}",
        ask("server_version")?,
        ask("fsync")?,
        ask("synchronous_commit")?,
        file_system(ask("data_directory")?.as_ref()),
    ))
}
