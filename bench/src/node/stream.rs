//! The ends of a connection that is measured. Both are pods, and this program in them.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use tokio::time::Instant;

/// Says what this program is in a pod: `serve NAME` or `measure ROUNDS MILLISECONDS DIRECT SERVICE`.
pub(super) const PART: &str = "PILOTHOUSE_BENCH_PART";

/// Where the server listens.
pub(super) const PORT: u16 = 7000;

/// What is measured goes there, seen from the pod.
pub(super) const REPORTS: &str = "/bench/reports";

const CHUNK: usize = 256 << 10;

/// Plays the part that the environment names, if it names one.
pub(crate) fn in_a_pod() -> Option<ExitCode> {
    let part = std::env::var(PART).ok()?;
    let words: Vec<_> = part.split(' ').collect();
    let outcome = match words[..] {
        ["serve", name] => serve(name),
        ["measure", rounds, milliseconds, direct, service] => {
            measure(rounds, milliseconds, [direct, service])
        }
        _ => Err(anyhow::anyhow!("`{part}` is no part of this program")),
    };
    Some(if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says its name to whoever connects, and then nothing of interest for as long as it is read.
fn serve(name: &str) -> anyhow::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", PORT))?;
    for stream in listener.incoming() {
        let (mut stream, name) = (stream?, name.to_owned());
        std::thread::spawn(move || {
            let chunk = vec![0; CHUNK];
            let mut said = writeln!(stream, "{name}");
            while said.is_ok() {
                said = stream.write_all(&chunk);
            }
        });
    }
    Ok(())
}

/// Reads from both in turns, and reports the rates of each round in one line.
fn measure(rounds: &str, milliseconds: &str, addresses: [&str; 2]) -> anyhow::Result<()> {
    let duration = Duration::from_millis(milliseconds.parse()?);
    for round in 0..rounds.parse::<usize>()? {
        let mut rates = [0.0; 2];
        // Who is first changes, so that neither always finds the caches warm.
        for index in [round % 2, 1 - round % 2] {
            rates[index] = rate(addresses[index], duration)?;
        }
        // One write: lines of several writers do not mix.
        let line = format!("rates {} {}\n", rates[0], rates[1]);
        std::fs::OpenOptions::new().write(true).open(REPORTS)?.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// MiB per second.
fn rate(address: &str, duration: Duration) -> anyhow::Result<f64> {
    let mut stream = TcpStream::connect(address)?;
    let mut chunk = vec![0; CHUNK];
    // Until windows are open.
    let (mut bytes, mut start) = (0_u64, Instant::now());
    let warm = duration / 4;
    let mut counting = false;
    loop {
        bytes += stream.read(&mut chunk)? as u64;
        if !counting && start.elapsed() >= warm {
            (bytes, start, counting) = (0, Instant::now(), true);
        } else if counting && start.elapsed() >= duration {
            let mebibytes = f64::from(u32::try_from(bytes >> 10)?) / 1024.0;
            return Ok(mebibytes / start.elapsed().as_secs_f64());
        }
    }
}
