//! A process that writes until it is killed, and says which writes were acknowledged.

use std::env;
use std::io::{self, BufRead as _, BufReader, Lines, Write as _};
use std::process::{ChildStdout, Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use futures::future::join_all;
use pilothouse_store::{Durability, Precondition, Store, Transaction};
use pilothouse_test_support::process::{self, Running};
use serde::{Deserialize, Serialize};

use super::workload::{WRITERS, Writer, container, document_id, partition};

/// What the process is told, as JSON.
const ORDERS: &str = "PILOTHOUSE_TEST_WRITER";
const SAYS: &str = "acknowledged ";
const OPENING: &str = "opening";
const FINISHED: &str = "finished";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) folder: Utf8PathBuf,
    pub(super) seed: u64,
    /// The last transaction of each writer that is already in the store.
    pub(super) last: [u64; WRITERS],
    /// How many transactions each writer commits before it rests; without end if none.
    pub(super) limit: Option<u64>,
    /// Whether commits wait for the disk.
    pub(super) durable: bool,
}

/// One commit that returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acknowledgement {
    pub(super) writer: usize,
    pub(super) number: u64,
    pub(super) revision: u64,
}

/// The process, seen from outside.
pub(super) struct Process {
    running: Running,
    lines: Lines<BufReader<ChildStdout>>,
    acknowledged: Vec<Acknowledgement>,
}

impl Orders {
    pub(super) fn new(folder: &Utf8Path, seed: u64) -> Self {
        Self { folder: folder.to_owned(), seed, last: [0; WRITERS], limit: None, durable: true }
    }

    pub(super) fn command(&self) -> Command {
        let mut command = process::child_of_this_test("faults::writer::writer_in_a_child_process");
        command.env(ORDERS, serde_json::to_string(self).unwrap());
        command
    }
}

impl Acknowledgement {
    /// From a line of the process's output, if it is one.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let numbers: Vec<u64> =
            line.strip_prefix(SAYS)?.split(' ').map(|word| word.parse().unwrap()).collect();
        let [writer, number, revision] = numbers[..] else { panic!("{line:?}") };
        Some(Self { writer: usize::try_from(writer).unwrap(), number, revision })
    }
}

impl Process {
    pub(super) fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped());
        let mut running = Running::spawn(command).unwrap();
        let lines = BufReader::new(running.child().stdout.take().unwrap()).lines();
        let mut process = Self { running, lines, acknowledged: Vec::new() };
        process.wait_until_said(OPENING);
        process
    }

    pub(super) fn id(&self) -> u32 {
        self.running.id()
    }

    /// Waits until so many writes in all have been acknowledged.
    pub(super) fn wait_for(&mut self, count: usize) {
        while self.acknowledged.len() < count {
            self.read(|line| panic!("the writer said {line:?} after {count} were waited for"));
        }
    }

    /// Waits until a process with a limit rests.
    pub(super) fn wait_until_finished(&mut self) {
        self.wait_until_said(FINISHED);
    }

    fn wait_until_said(&mut self, word: &str) {
        let mut said = false;
        while !said {
            self.read(|line| said = line == word);
        }
    }

    fn read(&mut self, mut other: impl FnMut(&str)) {
        let line = self.lines.next().expect("the writer goes on until it is killed").unwrap();
        match Acknowledgement::parse(&line) {
            Some(acknowledgement) => self.acknowledged.push(acknowledgement),
            // What the harness prints around a test.
            None if line.is_empty() || line.starts_with("running ") || line.starts_with("test ") => {}
            None => other(&line),
        }
    }

    /// `kill -9`; answers everything that was acknowledged.
    pub(super) fn kill(mut self) -> Vec<Acknowledgement> {
        self.running.child().kill().unwrap();
        let said = self.lines.map(Result::unwrap);
        self.acknowledged.extend(said.filter_map(|line| Acknowledgement::parse(&line)));
        self.running.kill();
        self.acknowledged
    }
}

/// The process, seen from inside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer_in_a_child_process() {
    if !process::is_child() {
        return;
    }
    // The harness has begun a line.
    say("");
    say(OPENING);
    let orders: Orders = serde_json::from_str(&env::var(ORDERS).unwrap()).unwrap();
    let durability = if orders.durable { Durability::default() } else { Durability::None };
    let store = Store::open(super::options(&orders.folder, durability)).await.unwrap();
    join_all((0..WRITERS).map(|writer| write(&store, &orders, writer))).await;
    say(FINISHED);
    std::future::pending().await
}

async fn write(store: &Store, orders: &Orders, writer: usize) {
    let mut state = Writer::after(orders.seed, writer, orders.last[writer]);
    let mut left = orders.limit.unwrap_or(u64::MAX);
    while left > 0 {
        left -= 1;
        let revision = commit(store, &mut state, writer).await;
        let number = state.number();
        say(&format!("{SAYS}{writer} {number} {revision}"));
    }
}

/// Carries out a writer's next transaction; answers its revision.
pub(super) async fn commit(store: &Store, state: &mut Writer, writer: usize) -> u64 {
    let step = state.next();
    let mut transaction = Transaction::new(partition(writer));
    for (place, body) in &step.operations {
        let (container, id) = (container(place.0), document_id(place));
        // A store that lost or doubled anything is noticed here already: the precondition does not hold.
        let expected = match store.get(&container, &partition(writer), &id).await.unwrap() {
            Some(document) if state.exists(place) => Precondition::Etag(document.etag),
            None if !state.exists(place) => Precondition::Absent,
            found => panic!("{place:?} of writer {writer} before {}: {found:?}", step.number),
        };
        match body {
            Some(body) => transaction.put(&container, id, expected, body).map(drop).unwrap(),
            None => drop(transaction.delete(&container, id, expected)),
        }
    }
    let committed = store.commit(&transaction).await.unwrap();
    state.apply(&step);
    committed.revision.number()
}

/// One line, in one write.
fn say(line: &str) {
    let mut output = io::stdout().lock();
    output.write_all(format!("{line}\n").as_bytes()).and_then(|()| output.flush()).unwrap();
}
