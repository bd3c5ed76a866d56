use std::future::pending;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use tokio::sync::{mpsc, oneshot};

use super::*;
use crate::shutdown::Signal;

mod child;

const GRACE: Duration = Duration::from_secs(10);

/// A process, a way to send it signals, and what is told on the second.
fn process() -> (Process, mpsc::Sender<Signal>, oneshot::Receiver<Signal>) {
    let (signals_tx, signals_rx) = mpsc::channel(2);
    let (second_tx, second_rx) = oneshot::channel();
    let process = Process::with_signals(GRACE, Signals::Scripted(signals_rx), |signal| {
        second_tx.send(signal).unwrap();
    });
    (process, signals_tx, second_rx)
}

fn spawn_well_behaved(tasks: &Tasks, name: &str) {
    let shutdown = tasks.shutdown().clone();
    tasks.spawn(name, OnExit::StopProcess, async move {
        shutdown.requested().await;
        Ok(())
    });
}

#[tokio::test(start_paused = true)]
async fn first_signal_drains_and_ends_with_zero() {
    let (mut process, signals, _second) = process();
    spawn_well_behaved(&process.tasks("frontend"), "accept");
    signals.send(Signal::Terminate).await.unwrap();
    assert_eq!(process.run().await, ExitCode::Stopped);
}

#[tokio::test(start_paused = true)]
async fn second_signal_does_not_wait_for_the_drain() {
    let (mut process, signals, second) = process();
    process.tasks("frontend").spawn("stuck", OnExit::StopProcess, pending());
    signals.send(Signal::Terminate).await.unwrap();
    signals.send(Signal::Interrupt).await.unwrap();

    let begun = Instant::now();
    tokio::select! {
        signal = second => assert_eq!(signal, Ok(Signal::Interrupt)),
        code = process.run() => panic!("drained first, and ended with {code:?}"),
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn closed_terminal_stops_in_order_however_often_it_says_so() {
    let (mut process, signals, second) = process();
    spawn_well_behaved(&process.tasks("frontend"), "accept");
    signals.send(Signal::Hangup).await.unwrap();
    signals.send(Signal::Hangup).await.unwrap();
    assert_eq!(process.run().await, ExitCode::Stopped);
    assert!(second.now_or_never().is_none_or(|told| told.is_err()));
}

#[tokio::test(start_paused = true)]
async fn failed_task_shows_in_the_exit_code() {
    let (mut process, _signals, _second) = process();
    let tasks = process.tasks("frontend");
    spawn_well_behaved(&tasks, "accept");
    tasks.spawn("reload", OnExit::StopProcess, async { Err("no such file".into()) });
    assert_eq!(process.run().await, ExitCode::TaskEnded);
}

#[tokio::test(start_paused = true)]
async fn overstaying_task_shows_in_the_exit_code_after_the_grace_period() {
    let (mut process, _signals, _second) = process();
    process.tasks("frontend").spawn("stuck", OnExit::StopProcess, pending());
    process.tasks("backend").spawn("stuck", OnExit::StopProcess, pending());
    process.shutdown().request(Reason::Asked("done".into()));
    let begun = Instant::now();
    assert_eq!(process.run().await, ExitCode::StillRunning);
    // One grace period for both, not one each.
    assert_eq!(begun.elapsed(), GRACE);
}

#[tokio::test(start_paused = true)]
async fn failed_task_wins_over_an_overstaying_one() {
    let (mut process, _signals, _second) = process();
    let tasks = process.tasks("frontend");
    tasks.spawn("stuck", OnExit::StopProcess, pending());
    tasks.spawn("reload", OnExit::StopProcess, async { Err("no such file".into()) });
    assert_eq!(process.run().await, ExitCode::TaskEnded);
}

#[tokio::test(start_paused = true)]
async fn closings_run_after_the_tasks_last_registered_first() {
    let (mut process, _signals, _second) = process();
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let order = order.clone();
        move || order.lock().unwrap().push(what)
    };
    let (task, store, telemetry) = (note("task"), note("store"), note("telemetry"));
    process.on_drained("telemetry", async move {
        telemetry();
        Ok(())
    });
    process.on_drained("store", async move {
        store();
        Ok(())
    });
    let shutdown = process.shutdown().clone();
    process.tasks("frontend").spawn("slow", OnExit::StopProcess, async move {
        shutdown.requested().await;
        tokio::time::sleep(GRACE / 2).await;
        task();
        Ok(())
    });
    process.shutdown().request(Reason::Asked("done".into()));

    assert_eq!(process.run().await, ExitCode::Stopped);
    assert_eq!(*order.lock().unwrap(), ["task", "store", "telemetry"]);
}

#[tokio::test(start_paused = true)]
async fn closing_that_hangs_is_given_up() {
    let (mut process, _signals, _second) = process();
    process.on_drained("store", pending());
    process.shutdown().request(Reason::Asked("done".into()));
    assert_eq!(process.run().await, ExitCode::StillRunning);
}
