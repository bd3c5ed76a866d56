//! Power cuts. They are worse than `kill -9`, after which the kernel still writes everything that was handed to
//! it: what was not flushed is lost, or torn, or there while something older is not.
//!
//! The writer process runs with a library (`shim.c`) that writes down what it does to its files. A model of a
//! disk (`disk.rs`) is then taken through that log up to any point, and gives folders as a power cut at that point
//! could have left them. Each is opened and looked through. One run of a writer gives many such folders, and
//! the next writer goes on from one of them, so that recovery itself is interrupted as well.
//!
//! # The model
//!
//! - What was written to a file before its last flush (`fsync`, `fdatasync`) is there.
//! - Of what was written since, any subset of sectors of 512 bytes has reached the disk. A sector has the state
//!   it had after one of the writes to it: the kernel writes back whole sectors, in no order. SQLite relies on
//!   a sector being written whole, or at least on bytes beside a write staying what they were ("powersafe
//!   overwrite"); so no sector here is a mix of states.
//! - A file has the length it had after any of the operations since the last flush, whatever became of its
//!   sectors. What never was written reads as zeros.
//! - Names (made, renamed, linked, removed) are there once the directory was flushed. Of those after, the first
//!   few are: file systems keep a journal of them, and do not reorder it. Flushing a file does not flush its
//!   name. That is POSIX, stricter than ext4, and SQLite is written for it: it flushes the directory
//!   after the first flush of a new log or journal (`UNIXFILE_DIRSYNC`), which also covers the database's own name,
//!   made just before.
//! - The memory shared with readers (`-shm`) is not kept: SQLite makes it anew when the first process opens the
//!   file. Nothing here writes through a memory map.
//!
//! That the library misses nothing is a test of its own: the whole log must lead to the very bytes on disk. And
//! that this would find a loss is another: a store that does not flush loses what it acknowledged.

use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use pilothouse_store::Durability;
use pilothouse_test_support::environment;
use pilothouse_test_support::requirement::Requirement;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use self::disk::{Disk, Survival};
use self::log::Operation;
use super::verify::Ledger;
use super::writer::{Acknowledgement, Orders, Process};

mod disk;
mod log;

const COMPILER: Requirement = Requirement::new("cc", "gcc");
/// Folders made of one run.
const IMAGES: usize = 4;
/// Runs before the next database is a new one.
const RUNS: usize = 5;

/// The library, in a folder of its own.
struct Shim {
    folder: tempfile::TempDir,
}

/// A writer's life, as the library saw it.
struct Life {
    before: Disk,
    operations: Vec<Operation>,
}

impl Shim {
    /// None, after saying so, if the machine lacks a compiler.
    fn compile() -> Option<Self> {
        let compiler = COMPILER.find()?;
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("shim.c");
        std::fs::write(&source, include_str!("power_loss/shim.c")).unwrap();
        let mut command = Command::new(compiler);
        command
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .arg(folder.path().join("shim.so"));
        assert!(command.arg(source).arg("-ldl").status().unwrap().success());
        Some(Self { folder })
    }

    /// Has a writer live until `until` returns.
    fn run(&self, orders: &Orders, until: impl FnOnce(&mut Process)) -> Life {
        let log = self.folder.path().join("log");
        let _ = std::fs::remove_file(&log);
        let before = Disk::load(&orders.folder);
        let mut command = orders.command();
        command
            .env("LD_PRELOAD", self.folder.path().join("shim.so"))
            .env("PILOTHOUSE_SHIM_FOLDER", &orders.folder)
            .env("PILOTHOUSE_SHIM_LOG", &log);
        let mut writer = Process::spawn(command);
        until(&mut writer);
        let heard = writer.kill();
        let life = Life { before, operations: log::read(&std::fs::read(&log).unwrap()) };
        let noted = life.acknowledged(life.operations.len());
        assert!(noted.starts_with(&heard), "what the writer said is in the log as well");
        life
    }
}

impl Life {
    /// What had been acknowledged when the power went.
    fn acknowledged(&self, operations: usize) -> Vec<Acknowledgement> {
        let said: Vec<u8> = self.operations[..operations].iter().flat_map(Operation::said).copied().collect();
        // A line that was begun by the harness has no end.
        String::from_utf8(said).unwrap().lines().filter_map(Acknowledgement::parse).collect()
    }

    /// The disk when the power went.
    fn disk(&self, operations: usize) -> Disk {
        let mut disk = self.before.clone();
        for operation in &self.operations[..operations] {
            disk.apply(operation);
        }
        disk
    }

    /// A moment for the power to go: often late, when there is most to lose, or right after something was said.
    fn moment(&self, random: &mut StdRng) -> usize {
        let count = self.operations.len();
        match random.random_range(0..4) {
            0 => count,
            1 => random.random_range(count * 9 / 10..=count),
            2 => {
                let start = random.random_range(0..count);
                let said = self.operations[start..].iter().position(|operation| !operation.said().is_empty());
                said.map_or(count, |position| start + position + 1)
            }
            _ => random.random_range(0..=count),
        }
    }
}

/// Looks through a folder that a power cut left.
async fn look(folder: &Utf8Path, ledger: &mut Ledger) -> anyhow::Result<()> {
    let store = super::try_open(folder).await?;
    let verified = ledger.verify(&store).await;
    store.close().await;
    verified
}

fn empty_folder() -> (tempfile::TempDir, Utf8PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = super::utf8(&folder);
    // With a key, which a power cut leaves alone: it was made long before.
    drop(super::options(&path, Durability::default()));
    (folder, path)
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_power_cut_and_nothing_is_torn() {
    let Some(shim) = Shim::compile() else { return };
    let seed = super::seed();
    for database in 0..environment::rounds(4, 40) {
        let seed = seed.wrapping_add(database as u64);
        let mut random = StdRng::seed_from_u64(seed);
        let (mut _folder, mut path) = empty_folder();
        let mut ledger = Ledger::new(seed);
        for run in 0..RUNS {
            let orders = Orders { last: ledger.last, ..Orders::new(&path, seed) };
            // One is long enough for the log to be folded into the database on the way.
            let enough = if run == 1 { 160 } else { random.random_range(1..50) };
            let life = shim.run(&orders, |writer| writer.wait_for(enough));
            for image in 0..IMAGES {
                let moment = life.moment(&mut random);
                let (survival, image_seed) = (Survival::random(&mut random), random.random());
                let write = |folder: &Utf8Path| {
                    life.disk(moment).write(folder, survival, &mut StdRng::seed_from_u64(image_seed));
                };
                let mut expected = ledger.clone();
                expected.acknowledge(&life.acknowledged(moment));
                let folder = tempfile::tempdir().unwrap();
                write(&super::utf8(&folder));
                let verified = look(&super::utf8(&folder), &mut expected).await;
                verified.unwrap_or_else(|error| {
                    panic!("seed {seed}, run {run}, image {image}, {survival:?} of {moment} operations: {error:#}")
                });
                if image + 1 == IMAGES {
                    // The next writer finds it as the power cut left it: nobody has recovered it yet.
                    _folder = tempfile::tempdir().unwrap();
                    path = super::utf8(&_folder);
                    write(&path);
                    ledger = expected;
                    break;
                }
            }
        }
        assert!(ledger.last.iter().all(|number| *number > 0), "seed {seed}: {:?}", ledger.last);
    }
}

#[tokio::test]
async fn a_store_that_does_not_flush_loses_what_it_acknowledged_in_a_power_cut() {
    let Some(shim) = Shim::compile() else { return };
    let seed = super::seed();
    let mut random = StdRng::seed_from_u64(seed);
    let mut lost = 0;
    for _ in 0..3 {
        let (_folder, path) = empty_folder();
        let orders = Orders { durable: false, ..Orders::new(&path, seed) };
        let life = shim.run(&orders, |writer| writer.wait_for(60));
        let moment = life.operations.len();
        let mut ledger = Ledger::new(seed);
        ledger.acknowledge(&life.acknowledged(moment));
        for survival in [Survival::All, Survival::Some(0.9), Survival::Some(0.5), Survival::None] {
            let folder = tempfile::tempdir().unwrap();
            life.disk(moment).write(&super::utf8(&folder), survival, &mut random);
            let verified = look(&super::utf8(&folder), &mut ledger.clone()).await;
            match survival {
                // If nothing is lost, nothing must be found missing.
                Survival::All => verified.unwrap_or_else(|error| panic!("seed {seed}: {error:#}")),
                _ => lost += usize::from(verified.is_err()),
            }
        }
    }
    assert!(lost > 0, "seed {seed}: nothing was ever lost, so this does not cut the power");
}

#[test]
fn the_log_of_operations_leads_to_the_very_bytes_on_disk() {
    let Some(shim) = Shim::compile() else { return };
    let (_folder, path) = empty_folder();
    let orders = Orders { limit: Some(60), ..Orders::new(&path, super::seed()) };
    let life = shim.run(&orders, Process::wait_until_finished);
    let (_copy, copy) = empty_folder();
    let mut random = StdRng::seed_from_u64(0);
    life.disk(life.operations.len()).write(&copy, Survival::All, &mut random);
    let names = disk::names(&path);
    assert!(names.iter().any(|name| name.ends_with("-wal")), "{names:?}");
    assert_eq!(disk::names(&copy), names);
    for name in names {
        let (real, modelled) =
            (std::fs::read(path.join(&name)).unwrap(), std::fs::read(copy.join(&name)).unwrap());
        assert!(real == modelled, "{name} differs: {} and {} bytes", real.len(), modelled.len());
    }
}
