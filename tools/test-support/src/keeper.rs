//! The thread that starts every child process.
//!
//! A child can ask the kernel for a signal when its parent dies, which is what cleans up after `kill -9`. But the
//! "parent" is the *thread* that started it, and threads of a test come and go: the harness ends one with its
//! test, tokio ends idle ones. So all children are started by one thread that lives as long as the process.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Sender};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

struct Order {
    command: Command,
    answer_tx: Sender<io::Result<Child>>,
}

static ORDERS: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
    let (order_tx, order_rx) = mpsc::channel::<Order>();
    thread::Builder::new()
        .name("child keeper".to_owned())
        .spawn(move || {
            // Never ends: the sender is in a static.
            for mut order in order_rx {
                // Whoever ordered waits for the answer; if they are gone, so is the need for the child.
                let _ = order.answer_tx.send(order.command.spawn());
            }
        })
        .expect("the operating system can start one more thread");
    Mutex::new(order_tx)
});

/// Starts `command` as a child of a thread that outlives every test.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    let (answer_tx, answer_rx) = mpsc::channel();
    ORDERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send(Order { command, answer_tx })
        .map_err(io::Error::other)?;
    answer_rx.recv().map_err(io::Error::other)?
}
