//! Being at a program in a pod from far away: `exec`, `attach`, `port-forward`.
//!
//! Clients come over two protocols that carry several streams in one connection. [`websocket`] is what clients use
//! now: messages whose first byte is the number of a stream. [`spdy`] is what they used before, what a real API server speaks to
//! kubelets, and what port forwarding goes on speaking inside a websocket. Both end in the same place: a
//! [`Visitor`], who has an input and an output and may change the size of a window, and who
//! meets the program in [`command`].
//!
//! A session is one task. Everything between the client's socket and the program's pipe is bounded by a few
//! buffers, so a program whose output nobody takes waits, and so does a client whose input no program reads.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

pub(crate) mod command;
pub(crate) mod port_forward;
pub(crate) mod spdy;
pub(crate) mod upgrade;
pub(crate) mod websocket;

/// How much may be on its way in one direction, in pieces of at most [`PIECE`] bytes.
const QUEUE: usize = 4;
const PIECE: usize = 32 * 1024;

/// Somebody at a program.
pub(crate) struct Visitor {
    /// What they type. Ends with their input, or with them.
    pub(crate) input: mpsc::Receiver<Bytes>,
    pub(crate) window: watch::Receiver<Option<Window>>,
    /// What they see. Closed when they are gone.
    pub(crate) output: mpsc::Sender<Output>,
}

/// The other side of a [`Visitor`]: where a protocol puts what comes and takes what goes.
pub(crate) struct Seat {
    pub(crate) input: mpsc::Sender<Bytes>,
    pub(crate) window: watch::Sender<Option<Window>>,
    pub(crate) output: mpsc::Receiver<Output>,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Window {
    pub(crate) width: u16,
    pub(crate) height: u16,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Output {
    Stdout(Bytes),
    Stderr(Bytes),
    /// The last of it: a `Status` object.
    Over(Value),
}

pub(crate) fn visit() -> (Visitor, Seat) {
    let (input_tx, input_rx) = mpsc::channel(QUEUE);
    let (output_tx, output_rx) = mpsc::channel(QUEUE);
    let (window_tx, window_rx) = watch::channel(None);
    let visitor = Visitor { input: input_rx, window: window_rx, output: output_tx };
    (visitor, Seat { input: input_tx, window: window_tx, output: output_rx })
}

/// How a program ended, in the words clients look for.
pub(crate) fn ended(code: i32) -> Value {
    if code == 0 {
        return json!({ "metadata": {}, "status": "Success" });
    }
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "reason": "NonZeroExitCode",
        "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
    })
}

/// Why a program did not run.
pub(crate) fn failed(why: &str) -> Value {
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("Internal error occurred: {why}"),
        "reason": "InternalError",
        "details": { "causes": [{ "message": why }] },
        "code": 500,
    })
}
