//! What the disk can do by itself: how often a second a log of 4 KiB records can be flushed.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use tokio::time::Instant;

use super::Folder;

const RECORD: [u8; 4096] = [0x5a; 4096];

/// Appends and flushes for a while; flushes a second. Blocks its thread, like the disk does.
pub(crate) fn flush_rate(folder: &Folder, duration: Duration) -> anyhow::Result<f64> {
    let mut file = File::create(folder.path().join("flushed"))?;
    let start = Instant::now();
    let mut flushes = 0_u32;
    while start.elapsed() < duration {
        file.write_all(&RECORD)?;
        file.sync_data()?;
        flushes += 1;
    }
    Ok(f64::from(flushes) / start.elapsed().as_secs_f64())
}
