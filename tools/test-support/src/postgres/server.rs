//! One server: a process, its folder and its port.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal;
use nix::unistd::Pid;

use super::folder::Folder;
use super::owner::Owner;
use super::{Error, Options, Stop, programs};
use crate::{keeper, process};

/// Generous: recovery after a crash under load, on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(120);
const STOP_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// How many ports are tried when others keep taking them.
const PORT_ATTEMPTS: u32 = 5;

/// The superuser of every server made here. Connections are trusted: only this machine can make them.
const USER: &str = "postgres";

/// A private PostgreSQL server, stopped and removed on drop.
#[derive(Debug)]
pub struct Server {
    // The order matters for drop: the process must be gone before its folder is removed.
    process: Option<Postmaster>,
    folder: Folder,
    owner: Owner,
    options: Options,
    port: u16,
    names: AtomicU32,
}

/// The server's main process. Dropping it is a crash of the server.
#[derive(Debug)]
struct Postmaster(Child);

impl Server {
    /// Starts a server of the test's own. `None` if the machine has no PostgreSQL: the test was noted as skipped
    /// and should return.
    ///
    /// # Panics
    ///
    /// If the server does not start, or is missing where nothing may be skipped.
    pub fn start(options: Options) -> Option<Self> {
        match Self::try_start(options) {
            Ok(server) => Some(server),
            Err(Error::Missing(_)) => {
                programs::REQUIREMENT.missing();
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts a server, or says why not.
    ///
    /// # Errors
    ///
    /// If PostgreSQL is not installed or does not start.
    pub fn try_start(options: Options) -> Result<Self, Error> {
        let owner = Owner::find();
        // Looked up first, so that a missing server is told apart from one that fails.
        programs::find("postgres")?;
        let folder = Folder::create(&owner)?;
        initialize(&folder, &owner)?;

        let mut server = Self { process: None, folder, owner, options, port: 0, names: AtomicU32::new(0) };
        for _ in 1..PORT_ATTEMPTS {
            server.port = process::free_port();
            match server.try_start_again() {
                Err(Error::NotReady { log, .. }) if log.contains("Address already in use") => {}
                outcome => return outcome.map(|()| server),
            }
        }
        server.port = process::free_port();
        server.try_start_again().map(|()| server)
    }

    /// Where to connect to the server's own database, as the superuser.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The port of the loopback interface on which the server listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the server's Unix socket, if the temporary folder's path is short enough to have one.
    pub fn socket_folder(&self) -> Option<PathBuf> {
        self.folder.has_room_for_socket().then(|| self.folder.socket_folder())
    }

    /// Creates an empty database and gives its URL.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    pub fn fresh_database(&self) -> String {
        let name = self.fresh_name("database");
        self.run_psql(&format!("create database {name}"));
        self.url_of(&name)
    }

    /// Creates an empty schema in the server's own database and gives a URL under which it is the only one on
    /// the search path. Cheaper than a database, but extensions and advisory locks are shared with the others.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    pub fn fresh_schema(&self) -> String {
        let name = self.fresh_name("schema");
        self.run_psql(&format!("create schema {name}"));
        format!("{}?options=-c%20search_path%3D{name}", self.url())
    }

    /// Runs SQL in the server's own database through `psql` and gives the rows back: one per line, columns
    /// separated by `|`.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    pub fn run_psql(&self, sql: &str) -> String {
        self.try_run_psql(&self.url(), sql).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`run_psql`](Self::run_psql), in the database of `url`.
    ///
    /// # Errors
    ///
    /// If the server refuses or is not there.
    pub fn try_run_psql(&self, url: &str, sql: &str) -> Result<String, Error> {
        let program = programs::find("psql")?;
        let mut command = self.owner.command(&program, &self.folder.work());
        command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
        command.args(["--set=ON_ERROR_STOP=1", "--command", sql, url]);
        run(command, &program)
    }

    /// The path of another of PostgreSQL's programs, of the same version where there is a choice.
    ///
    /// # Panics
    ///
    /// If it is not installed.
    pub fn program(&self, name: &'static str) -> PathBuf {
        programs::find(name).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Cuts every connection, as a failing network or an impatient administrator would. Returns how many.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    pub fn kill_connections(&mut self) -> usize {
        let count = self.run_psql(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity \
             where backend_type = 'client backend' and pid <> pg_backend_pid()",
        );
        count.trim().parse().unwrap_or_else(|error| panic!("psql answered `{count}`: {error}"))
    }

    /// Stops the server and starts it again on the same port.
    ///
    /// # Panics
    ///
    /// If it does not stop or start in time.
    pub fn restart(&mut self, how: Stop) {
        self.stop(how);
        self.start_again();
    }

    /// Stops the server and keeps its data. Does nothing if it is stopped already.
    ///
    /// # Panics
    ///
    /// If it does not stop in time.
    pub fn stop(&mut self, how: Stop) {
        if let Some(mut postmaster) = self.process.take() {
            let stopped = postmaster.stop(how, STOP_LIMIT).unwrap_or_else(|error| panic!("{error}"));
            assert!(stopped, "{}", Error::NotStopped { how, limit: STOP_LIMIT, log: self.folder.log_tail() });
        }
    }

    /// Stops the server as a crash would: the next start recovers from the log.
    ///
    /// # Panics
    ///
    /// If it does not stop in time.
    pub fn stop_immediate(&mut self) {
        self.stop(Stop::Immediate);
    }

    /// Starts the server after a stop, on the same port with the same data. Does nothing if it is running.
    ///
    /// # Panics
    ///
    /// If it does not become ready in time.
    pub fn start_again(&mut self) {
        self.try_start_again().unwrap_or_else(|error| panic!("{error}"));
    }

    fn try_start_again(&mut self) -> Result<(), Error> {
        if self.process.is_some() {
            return Ok(());
        }
        let program = programs::find("postgres")?;
        let sockets = if self.folder.has_room_for_socket() {
            self.folder.socket_folder().display().to_string()
        } else {
            String::new()
        };
        let mut command = self.owner.command(&program, &self.folder.work());
        command.arg("-D").arg(self.folder.data());
        command.arg("-c").arg(format!("port={}", self.port));
        command.args(["-c", "listen_addresses=127.0.0.1"]);
        command.arg("-c").arg(format!("unix_socket_directories={sockets}"));
        for (name, value) in &self.options.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let log = self.open_log()?;
        command.stdin(Stdio::null()).stdout(log.0).stderr(log.1);
        let child = keeper::spawn(command).map_err(|source| Error::Run { program, source })?;
        let mut postmaster = Postmaster(child);
        self.wait_until_ready(&mut postmaster)?;
        self.process = Some(postmaster);
        Ok(())
    }

    /// The log is opened here and inherited, so that the server's user needs no right to write there. It starts
    /// anew with each start: the failure shows what belongs to it.
    fn open_log(&self) -> Result<(File, File), Error> {
        let path = self.folder.log();
        let open = || {
            let log = File::create(&path)?;
            Ok((log.try_clone()?, log))
        };
        open().map_err(|source| Error::Folder { path: path.clone(), source })
    }

    /// The server writes `ready` into its lock file. To ask the port instead could be answered by somebody
    /// else's server while ours has not yet found the port taken.
    #[expect(clippy::disallowed_methods, reason = "waits for a process, where no clock can be moved")]
    fn wait_until_ready(&self, postmaster: &mut Postmaster) -> Result<(), Error> {
        let deadline = Instant::now() + START_LIMIT;
        let not_ready = |what: String| Error::NotReady { what, log: self.folder.log_tail() };
        loop {
            if let Some(status) = postmaster.0.try_wait().map_err(|error| not_ready(error.to_string()))? {
                return Err(not_ready(format!("it ended with {status}")));
            }
            let status = postmaster.status(&self.folder.data());
            if status.as_deref() == Some("ready") {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let status = status.as_deref().unwrap_or("none");
                return Err(not_ready(format!("status after {START_LIMIT:?}: {status}")));
            }
            thread::sleep(PAUSE);
        }
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port)
    }

    fn fresh_name(&self, kind: &str) -> String {
        format!("{kind}_{}", self.names.fetch_add(1, Ordering::Relaxed))
    }
}

impl Postmaster {
    /// The status in the lock file of `data`, if that file is of this process and not of a predecessor.
    fn status(&self, data: &Path) -> Option<String> {
        const STATUS_LINE: usize = 7;
        let file = fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let mut lines = file.lines();
        let is_ours = lines.next()?.trim() == self.0.id().to_string();
        is_ours.then(|| lines.nth(STATUS_LINE - 1).map(|line| line.trim().to_owned()))?
    }

    /// Asks for a stop and waits. Whether it came in time.
    #[expect(clippy::disallowed_methods, reason = "waits for a process, where no clock can be moved")]
    fn stop(&mut self, how: Stop, limit: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + limit;
        let id = Pid::from_raw(i32::try_from(self.0.id()).map_err(io::Error::other)?);
        if self.0.try_wait()?.is_none() {
            signal::kill(id, how.signal())?;
        }
        while self.0.try_wait()?.is_none() {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            thread::sleep(PAUSE);
        }
        Ok(true)
    }
}

impl Drop for Postmaster {
    fn drop(&mut self) {
        // Its data is about to be removed: nothing is worth writing out. The server ends its own children and
        // then itself; only if it does not is it killed, which would leave them to find out.
        if !matches!(self.stop(Stop::Immediate, STOP_LIMIT), Ok(true)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn initialize(folder: &Folder, owner: &Owner) -> Result<(), Error> {
    let program = programs::find("initdb")?;
    let mut command = owner.command(&program, &folder.work());
    // Not flushed: durability begins with the first transaction, and this is removed if the machine fails.
    command.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"]);
    command.arg(format!("--username={USER}")).arg(folder.data());
    run(command, &program).map(drop)
}

/// Runs a command to its end and gives back what it printed.
fn run(mut command: Command, program: &Path) -> Result<String, Error> {
    let failed_to_run = |source| Error::Run { program: program.to_owned(), source };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = keeper::spawn(command).map_err(failed_to_run)?;
    let output = child.wait_with_output().map_err(failed_to_run)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(Error::Failed {
        program: program.to_owned(),
        status: output.status,
        output: text(&output.stdout) + &text(&output.stderr),
    })
}
