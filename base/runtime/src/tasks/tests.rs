use std::future::pending;
use std::io;

use super::*;
use crate::shutdown::Signal;

const GRACE: Duration = Duration::from_secs(10);

fn tasks() -> Tasks {
    Tasks::new("gateway", Shutdown::new())
}

async fn until_shutdown(shutdown: Shutdown) -> Result<(), TaskError> {
    shutdown.requested().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn essential_task_that_returns_early_stops_the_process() {
    let tasks = tasks();
    tasks.spawn("accept", OnExit::StopProcess, async { Ok(()) });
    tasks.shutdown().requested().await;
    assert_eq!(
        tasks.shutdown().reason(),
        Some(Reason::TaskEnded { owner: "gateway".into(), task: "accept".into(), ending: Ending::Returned })
    );
}

#[tokio::test(start_paused = true)]
async fn essential_task_that_fails_stops_the_process_with_the_whole_chain() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot accept")]
    struct Accept(#[source] io::Error);

    let tasks = tasks();
    tasks.spawn("accept", OnExit::StopProcess, async {
        Err(Accept(io::Error::other("no more descriptors")).into())
    });
    tasks.shutdown().requested().await;
    let reason = tasks.shutdown().reason().unwrap();
    assert_eq!(reason.to_string(), "task `accept` of `gateway` failed: cannot accept: no more descriptors");
}

#[tokio::test(start_paused = true)]
async fn essential_task_that_panics_stops_the_process() {
    let tasks = tasks();
    tasks.spawn("accept", OnExit::StopProcess, async { panic!("index {} out of range", 7) });
    tasks.shutdown().requested().await;
    let reason = tasks.shutdown().reason().unwrap();
    assert_eq!(reason.to_string(), "task `accept` of `gateway` panicked: index 7 out of range");
}

#[tokio::test(start_paused = true)]
async fn essential_task_that_fails_while_stopping_shows_in_the_reason() {
    let tasks = tasks();
    let shutdown = tasks.shutdown().clone();
    tasks.spawn("flush", OnExit::StopProcess, async move {
        shutdown.requested().await;
        Err("disk full".into())
    });
    tasks.shutdown().request(Reason::Signal(Signal::Terminate));
    tasks.drain(GRACE).await.unwrap();
    assert!(tasks.shutdown().reason().unwrap().is_failure());
}

#[tokio::test(start_paused = true)]
async fn ordinary_task_may_fail_or_panic_and_the_process_goes_on() {
    let tasks = tasks();
    tasks.spawn("connection", OnExit::LogError, async { Err("reset".into()) });
    tasks.spawn("connection", OnExit::LogError, async { panic!("oops") });
    tasks.spawn("connection", OnExit::LogError, async { Ok(()) });
    tasks.drain(GRACE).await.unwrap();

    assert!(!tasks.shutdown().is_requested());
    let status = tasks.status();
    assert_eq!(status.len(), 1);
    assert_eq!((status[0].running, status[0].failed), (0, 2));
    assert_eq!(status[0].last_failure.as_deref(), Some("panicked: oops"));
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_tasks_that_finish_in_time() {
    let tasks = tasks();
    let shutdown = tasks.shutdown().clone();
    tasks.spawn("slow", OnExit::StopProcess, async move {
        shutdown.requested().await;
        tokio::time::sleep(GRACE / 2).await;
        Ok(())
    });
    tasks.shutdown().request(Reason::Asked("done".into()));
    let begun = Instant::now();
    tasks.drain(GRACE).await.unwrap();
    assert_eq!(begun.elapsed(), GRACE / 2);
    assert_eq!(tasks.shutdown().reason(), Some(Reason::Asked("done".into())));
}

#[tokio::test(start_paused = true)]
async fn drain_names_and_aborts_what_overstays() {
    let tasks = tasks();
    tasks.spawn("accept", OnExit::StopProcess, until_shutdown(tasks.shutdown().clone()));
    tasks.spawn("stuck", OnExit::StopProcess, pending());
    tasks.spawn("connection", OnExit::LogError, pending());
    tasks.spawn("connection", OnExit::LogError, pending());
    tasks.shutdown().request(Reason::Asked("done".into()));

    let overrun = tasks.drain(GRACE).await.unwrap_err();
    assert_eq!(
        overrun.to_string(),
        "`gateway` still had tasks running after 10s: `connection` (2 times), `stuck`"
    );
    // Aborted, so that a second drain has nothing to wait for.
    let begun = Instant::now();
    tasks.drain(GRACE).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn expendable_tasks_are_not_waited_for() {
    let tasks = tasks();
    tasks.spawn("probe", OnExit::Expendable, pending());
    let begun = Instant::now();
    tasks.drain(GRACE).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn status_counts_by_name_and_forgets_what_ended_well() {
    let tasks = tasks();
    tasks.spawn("connection", OnExit::LogError, pending());
    tokio::time::advance(Duration::from_secs(3)).await;
    tasks.spawn("connection", OnExit::LogError, pending());
    tasks.spawn("once", OnExit::LogError, async { Ok(()) });
    tokio::time::advance(Duration::from_secs(1)).await;

    let status = tasks.status();
    assert_eq!(status.len(), 1);
    assert_eq!((status[0].name.as_str(), status[0].running), ("connection", 2));
    assert_eq!(status[0].oldest, Some(Duration::from_secs(4)));
}

#[tokio::test(start_paused = true)]
async fn failures_are_remembered_for_a_bounded_number_of_names() {
    let tasks = tasks();
    for index in 0..1000 {
        tasks.spawn(format!("badly-named-{index}"), OnExit::LogError, async { Err("no".into()) });
    }
    tasks.drain(GRACE).await.unwrap();
    let status = tasks.status();
    assert_eq!(status.len(), 64);
    assert!(status.iter().any(|row| row.name == "badly-named-999"));
}
