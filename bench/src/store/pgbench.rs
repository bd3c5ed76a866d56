//! The yardstick for PostgreSQL: its own benchmark, inserting rows of the same size one by one.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use pilothouse_test_support::postgres::Server;
use tokio::process::Command;

use super::document;
use crate::harness::Folder;

/// A database with one table, and the script that fills it.
#[derive(Debug)]
pub(super) struct Pgbench {
    program: PathBuf,
    url: String,
    script: PathBuf,
}

/// A text key and a text body, which is what a document has at the least.
const TABLE: &str = r#"create table document (key text collate "C" primary key, body text not null)"#;

/// Keys at random and of the length of the store's, made by the client.
const SCRIPT: &str = r"\set number random(1, 9223372036854775807)
insert into document (key, body) values (lpad(to_hex(:number::bigint), 16, '0'), :body);
";

impl Pgbench {
    pub(super) fn prepare(server: &Server, folder: &Folder) -> anyhow::Result<Self> {
        let url = server.fresh_database();
        server.try_run_psql(&url, TABLE)?;
        let script = folder.path().join("insert.sql");
        fs::write(&script, SCRIPT)?;
        Ok(Self { program: server.program("pgbench"), url, script })
    }

    /// Inserts for whole seconds, at least one; rows a second, without the time to connect.
    pub(super) async fn run(&self, clients: usize, round: usize, duration: Duration) -> anyhow::Result<f64> {
        let mut command = Command::new(&self.program);
        command.args(["--no-vacuum", "--protocol=prepared", "--jobs=2"]);
        command.arg(format!("--client={clients}")).arg(format!("--time={}", duration.as_secs().max(1)));
        command.arg(format!("--define=body={}", document::filler(round)));
        command.arg("--file").arg(&self.script).arg(&self.url);
        let output = command.kill_on_drop(true).output().await.context("cannot run pgbench")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let problems = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "pgbench failed with {}: {text}{problems}", output.status);
        transactions_a_second(&text).with_context(|| format!("pgbench gave no rate: {text}{problems}"))
    }
}

fn transactions_a_second(output: &str) -> Option<f64> {
    output.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_found_in_the_output() {
        let output = "latency average = 1.0 ms\ntps = 1234.5 (without initial connection time)\n";
        assert_eq!(transactions_a_second(output), Some(1234.5));
        assert_eq!(transactions_a_second("nothing"), None);
    }
}
