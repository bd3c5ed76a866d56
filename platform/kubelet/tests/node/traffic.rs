//! Programs in pods that serve and send requests, so that a single lost one is seen.

#![expect(clippy::disallowed_methods, reason = "programs in a pod, which have nothing to do but to wait")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

/// Long enough to be met in the middle of it.
const ANSWERING: Duration = Duration::from_millis(20);

/// Nobody is sent here any more if nobody has been for so long.
const QUIET: Duration = Duration::from_secs(10);

/// Touched by every request but those of probes.
const ASKED: &str = "/tmp/asked";

/// When it is there, no more is sent.
const STOP: &str = "/tmp/stop";

/// Answers every request with one text, after a moment.
pub(crate) fn serve(arguments: &[String]) -> ExitCode {
    let listener = TcpListener::bind(format!("0.0.0.0:{}", arguments[0])).unwrap();
    for stream in listener.incoming() {
        let (mut stream, text) = (stream.unwrap(), arguments[1].clone());
        std::thread::spawn(move || {
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or_default();
            if !request[..length].starts_with(b"GET /ready ") {
                let _ = std::fs::write(ASKED, "");
                std::thread::sleep(ANSWERING);
            }
            let length = text.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
            );
        });
    }
    ExitCode::SUCCESS
}

/// Returns when the server beside it has not been asked for a while: a `preStop` hook.
pub(crate) fn until_quiet() -> ExitCode {
    loop {
        let asked = std::fs::metadata(ASKED).and_then(|file| file.modified());
        let left = asked.ok().and_then(|asked| QUIET.checked_sub(asked.elapsed().unwrap_or_default()));
        match left {
            Some(left) => std::thread::sleep(left),
            None => return ExitCode::SUCCESS,
        }
    }
}

/// Sends requests one after the other, several at once, until it is told to stop; then prints how often there was which
/// answer. A request without one is a failure.
pub(crate) fn send(arguments: &[String]) -> ExitCode {
    let answers: Mutex<BTreeMap<String, usize>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !Path::new(STOP).exists() {
                    let answer = ask(&arguments[0]).unwrap_or_else(|error| format!("failed: {error}"));
                    *answers.lock().unwrap().entry(answer).or_default() += 1;
                }
            });
        }
    });
    for (answer, count) in answers.into_inner().unwrap() {
        let _ = writeln!(std::io::stdout(), "{count} {answer}");
    }
    ExitCode::SUCCESS
}

fn ask(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split("\r\n\r\n").nth(1).filter(|body| !body.is_empty());
    body.map(str::to_owned).ok_or_else(|| std::io::Error::other(format!("half an answer: {answer:?}")))
}
