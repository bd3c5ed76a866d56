//! Group commit: what is submitted while one batch is being made durable becomes the next batch.
//!
//! The cost of a durable write is the wait for the disk, not the rows. One task owns the writing connection;
//! it takes everything that waits, has it carried out in one transaction of the engine, and only then answers
//! all of it. A lone writer waits for nobody.

use std::future::Future;
use std::time::Duration;

use pilothouse_runtime::{OnExit, Tasks};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::Error;
use crate::engine::{Command, Maintenance, Reply};

/// What a SQL engine does with a batch.
pub(crate) trait Batches: Send + 'static {
    /// Carries out commands in order, in one transaction, and returns when it is durable. An error means that
    /// none of them had any effect, unless it is [`Error::Uncertain`].
    fn execute(
        &mut self,
        commands: &[Command],
    ) -> impl Future<Output = Result<Vec<Result<Reply, Error>>, Error>> + Send;
    /// Carries out one change that does not mix with others.
    fn maintain(&mut self, maintenance: &Maintenance) -> impl Future<Output = Result<Reply, Error>> + Send;
    /// Lets go of the connection.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Where commands are handed in.
#[derive(Debug)]
pub(crate) struct Committer(mpsc::Sender<Submission>);

#[derive(Debug)]
struct Submission {
    command: Command,
    reply: oneshot::Sender<Result<Reply, Error>>,
}

/// As many writers may wait before the next one is held back at the door.
const QUEUE: usize = 4096;
/// As many commands a batch has at most, so that nobody waits for an endless one.
const LARGEST_BATCH: usize = 1024;
/// Writers that were just answered write again a moment later. As long as they keep coming, a batch is kept
/// open for them, but never longer than this: a fraction of what a flush to disk takes.
const LINGER: Duration = Duration::from_micros(200);

impl Committer {
    pub(crate) fn start(tasks: &Tasks, batches: impl Batches) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        // It ends when the last handle is dropped and the queue is empty, so that what was accepted is done.
        tasks.spawn("commit", OnExit::LogError, async move {
            run(receiver, batches).await;
            Ok(())
        });
        Self(sender)
    }

    pub(crate) async fn submit(&self, command: Command) -> Result<Reply, Error> {
        let (reply, answer) = oneshot::channel();
        self.0.send(Submission { command, reply }).await.map_err(|_| Error::Closed)?;
        // Without an answer the task is gone, and what it was doing with this is anybody's guess.
        answer.await.unwrap_or_else(|gone| Err(Error::Uncertain { source: gone.into() }))
    }
}

async fn run(mut receiver: mpsc::Receiver<Submission>, mut batches: impl Batches) {
    let mut held_over = None;
    loop {
        let first = match held_over.take() {
            Some(submission) => submission,
            None => match receiver.recv().await {
                Some(submission) => submission,
                None => break,
            },
        };
        if let Command::Maintain(maintenance) = &first.command {
            let answer = batches.maintain(maintenance).await;
            let _ = first.reply.send(answer);
            continue;
        }
        let (batch, next) = gather(first, &mut receiver).await;
        held_over = next;
        let (commands, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|submission| (submission.command, submission.reply)).unzip();
        answer(batches.execute(&commands).await, replies);
    }
    batches.close().await;
}

/// Everything that waits, up to the next maintenance, which is handed back.
async fn gather(
    first: Submission,
    receiver: &mut mpsc::Receiver<Submission>,
) -> (Vec<Submission>, Option<Submission>) {
    let mut batch = vec![first];
    let until = Instant::now() + LINGER;
    loop {
        let before = batch.len();
        while batch.len() < LARGEST_BATCH {
            match receiver.try_recv() {
                Ok(submission) if matches!(submission.command, Command::Maintain(_)) => {
                    return (batch, Some(submission));
                }
                Ok(submission) => batch.push(submission),
                Err(_) => break,
            }
        }
        // Two empty looks in a row with everybody else given a turn in between: nobody else is coming.
        let came = batch.len() > before;
        if batch.len() >= LARGEST_BATCH || (before > 1 && !came) || Instant::now() >= until {
            return (batch, None);
        }
        tokio::task::yield_now().await;
        if before == 1 && !came && receiver.is_empty() {
            return (batch, None);
        }
    }
}

fn answer(
    outcome: Result<Vec<Result<Reply, Error>>, Error>,
    replies: Vec<oneshot::Sender<Result<Reply, Error>>>,
) {
    match outcome {
        Ok(answers) => {
            for (answer, reply) in answers.into_iter().zip(replies) {
                // Whoever does not wait any more does not want to know.
                let _ = reply.send(answer);
            }
        }
        Err(error) => {
            let mut error = Some(error);
            for reply in replies {
                let next = error.as_ref().map(Error::again);
                if let Some(error) = std::mem::replace(&mut error, next) {
                    let _ = reply.send(Err(error));
                }
            }
        }
    }
}
