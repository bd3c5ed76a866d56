//! The store under faults that are made on purpose: killed writers, power cuts, full and read-only disks,
//! damaged and foreign files.
//!
//! What is random here comes from one seed, which every failure names; `PILOTHOUSE_TEST_SEED` sets it. Where a
//! process is killed the same seed gives the same writes, but not the same moment of death.

use std::env;

use pilothouse_store::{Catalog, Durability, Error, Keyring, Location, Options, Retention, Store};

use crate::fixture::{notes, tokens, vault};

mod backup;
mod damage;
mod full_disk;
mod kill;
mod namespace;
mod opening;
mod power_loss;
mod verify;
mod workload;
mod writer;

/// Sets the seed of everything random.
const SEED: &str = "PILOTHOUSE_TEST_SEED";

fn seed() -> u64 {
    match env::var(SEED) {
        Ok(text) => text.parse().expect("the seed is a number"),
        Err(_) => rand::random(),
    }
}

/// A store in a folder of its own, with its key beside it. Nothing of the past is forgotten.
fn options(folder: &camino::Utf8Path, durability: Durability) -> Options {
    let day = std::time::Duration::from_secs(86_400);
    let catalog = Catalog::try_new([notes(), tokens(), vault()]).unwrap();
    let location = Location::sqlite(folder.join("store.db")).with_durability(durability);
    Options {
        keyring: Some(Keyring::open_or_create(folder.join("store.key")).unwrap()),
        retention: Retention { keep: day, every: day },
        ..Options::new(location, catalog, pilothouse_runtime::Shutdown::new())
    }
}

async fn try_open(folder: &camino::Utf8Path) -> Result<Store, Error> {
    Store::open(options(folder, Durability::default())).await
}

async fn open(folder: &camino::Utf8Path) -> Store {
    try_open(folder).await.unwrap()
}

fn utf8(folder: &tempfile::TempDir) -> camino::Utf8PathBuf {
    let path = folder.path().canonicalize().unwrap();
    camino::Utf8PathBuf::from_path_buf(path).unwrap()
}
