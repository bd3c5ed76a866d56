//! The server as its users see it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::*;
use crate::eventually;
use crate::process::{Running, child_of_this_test, is_child};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn fresh_databases_do_not_see_each_other() {
    let Some(server) = shared() else { return };
    let (first, second) = (server.fresh_database(), server.fresh_database());
    server.try_run_psql(&first, "create table documents (id int)").unwrap();
    assert!(server.try_run_psql(&first, "select * from documents").is_ok());
    let error = server.try_run_psql(&second, "select * from documents").unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
}

#[test]
fn fresh_schemas_do_not_see_each_other() {
    let Some(server) = shared() else { return };
    let (first, second) = (server.fresh_schema(), server.fresh_schema());
    server.try_run_psql(&first, "create table documents (id int)").unwrap();
    assert!(server.try_run_psql(&first, "select * from documents").is_ok());
    assert!(server.try_run_psql(&second, "select * from documents").is_err());
}

#[test]
fn server_is_durable_unless_asked_otherwise() {
    let Some(server) = shared() else { return };
    let setting = |server: &Server, name| server.run_psql(&format!("show {name}")).trim().to_owned();
    assert_eq!(setting(server, "fsync"), "on");
    assert_eq!(setting(server, "synchronous_commit"), "on");
    assert_eq!(setting(server, "max_connections"), "300");

    let Some(server) = Server::start(Options::default().not_durable().setting("max_connections", "20"))
    else {
        return;
    };
    assert_eq!(setting(&server, "fsync"), "off");
    assert_eq!(setting(&server, "max_connections"), "20");
}

#[test]
fn data_survives_every_way_to_stop() {
    let Some(mut server) = Server::start(Options::default()) else { return };
    let port = server.port();
    server.run_psql("create table stops (how text)");
    for how in [Stop::Fast, Stop::Immediate] {
        server.run_psql(&format!("insert into stops values ('{how:?}')"));
        server.restart(how);
    }
    assert_eq!(server.run_psql("select how from stops"), "Fast\nImmediate\n");
    assert_eq!(server.port(), port);

    server.stop_immediate();
    assert!(server.try_run_psql(&server.url(), "select 1").is_err());
    server.start_again();
    assert_eq!(server.run_psql("select 1"), "1\n");
}

#[tokio::test]
async fn killed_connections_end_with_an_error() {
    let Some(mut server) = Server::start(Options::default()) else { return };
    let mut command = std::process::Command::new(server.program("psql"));
    command.args(["--command", "select pg_sleep(600)", &server.url()]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut client = Running::spawn(command).unwrap();

    let waiting = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
    eventually("the query is running", LIMIT, || async {
        match server.run_psql(waiting).trim() {
            "1" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;
    // The session of the last look may still be on its way out.
    assert!((1..=2).contains(&server.kill_connections()));

    let mut output = String::new();
    client.child().stderr.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(output.contains("terminating connection"), "{output}");
    assert!(!client.wait().unwrap().success());
}

#[test]
fn stopped_server_leaves_no_folder() {
    let Some(server) = Server::start(Options::default()) else { return };
    let root = data_folder(&server).parent().unwrap().to_owned();
    assert!(root.exists());
    drop(server);
    assert!(!root.exists());
}

#[test]
fn server_that_cannot_start_shows_its_log() {
    let options = Options::default().setting("no_such_setting", "1");
    let error = match Server::try_start(options) {
        Err(Error::Missing(_)) => {
            programs::REQUIREMENT.missing();
            return;
        }
        other => other.map(drop).unwrap_err(),
    };
    assert!(error.to_string().contains("no_such_setting"), "{error}");
}

/// Starts a server, says where it is, and is killed.
#[test]
fn owner_of_a_server() {
    if !is_child() {
        return;
    }
    let Some(server) = Server::start(Options::default()) else { return };
    println!("server at {}", data_folder(&server).display());
    loop {
        std::thread::park();
    }
}

#[tokio::test]
async fn server_stops_when_its_process_is_killed() {
    if let Err(Error::Missing(_)) = programs::find("postgres") {
        return programs::REQUIREMENT.missing();
    }
    let mut command = child_of_this_test("postgres::tests::owner_of_a_server");
    command.stdout(Stdio::piped());
    let mut owner = Running::spawn(command).unwrap();
    let data = BufReader::new(owner.child().stdout.take().unwrap())
        .lines()
        .find_map(|line| line.unwrap().split_once("server at ").map(|(_, path)| path.to_owned()))
        .expect("the child starts a server");
    let process = postmaster_process(Path::new(&data));
    assert!(process.exists());

    owner.kill();

    eventually("the server is gone", LIMIT, || async {
        if process.exists() {
            Err(fs::read_to_string(process.join("stat")).unwrap_or_default())
        } else {
            Ok(())
        }
    })
    .await;
    // The next server removes what the killed process could not.
    let next = Server::start(Options::default());
    assert!(!Path::new(&data).exists());
    drop(next);
}

fn data_folder(server: &Server) -> PathBuf {
    PathBuf::from(server.run_psql("show data_directory").trim())
}

fn postmaster_process(data: &Path) -> PathBuf {
    let file = fs::read_to_string(data.join("postmaster.pid")).unwrap();
    Path::new("/proc").join(file.lines().next().unwrap())
}
