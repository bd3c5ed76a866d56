//! `kill -9` of a process that writes, again and again, on the same file.
//!
//! The moment of death is chosen by the number of acknowledged writes or by the size of the log, not by time, so
//! that a slow machine does not make the test a weaker one. Every few rounds the file is a new one, and the log
//! small, so that also the making of a store is interrupted.

use pilothouse_test_support::environment;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::verify::Ledger;
use super::writer::{Orders, Process};

/// Rounds on one file.
const ROUNDS: usize = 13;

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9_and_nothing_is_torn() {
    let seed = super::seed();
    for database in 0..environment::rounds(4, 40) {
        let seed = seed.wrapping_add(database as u64);
        let mut random = StdRng::seed_from_u64(seed);
        let folder = tempfile::tempdir().unwrap();
        let folder = super::utf8(&folder);
        let mut ledger = Ledger::new(seed);
        for round in 0..ROUNDS {
            let orders = Orders { last: ledger.last, ..Orders::new(&folder, seed) };
            let mut writer = Process::spawn(orders.command());
            if round == 0 || random.random_bool(0.2) {
                // A new store has its tables after some hundred kilobytes.
                let size = random.random_range(0..300_000);
                while std::fs::metadata(folder.join("store.db-wal")).map_or(0, |file| file.len()) < size {
                    std::thread::yield_now();
                }
            } else {
                writer.wait_for(random.random_range(1..30));
            }
            ledger.acknowledge(&writer.kill());

            let store = super::open(&folder).await;
            let verified = ledger.verify(&store).await;
            verified.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error:#}"));
            store.close().await;
        }
        // So that a writer which never gets to write does not pass for one that lost nothing.
        assert!(ledger.last.iter().all(|number| *number > 0), "seed {seed}: {:?}", ledger.last);
    }
}
