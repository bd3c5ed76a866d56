//! What goes wrong.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::StatusCode;
use tokio::sync::watch;

use super::calls::Call;
use super::refusal::Refusal;

/// How a call goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing is done; the answer is this status, for a field if one is named.
    Refuse {
        /// The status.
        status: u16,
        /// The field that is wrong.
        target: Option<&'static str>,
        /// What is wrong with it.
        message: &'static str,
    },
    /// Nothing is done; the answer is 503.
    Unavailable,
    /// Nothing is done; somebody else answers in the service's place, such as a proxy.
    Foreign {
        /// The status.
        status: u16,
        /// What is said, which is nothing that the service would say.
        body: &'static str,
    },
    /// Nothing is done; the connection is cut.
    Disconnect,
    /// Nothing is done and nothing answered until the faults are cleared; then it is as if the call came only now. A caller
    /// that has hung up by then never asked.
    Stall,
    /// It is done, and answered so much later.
    Late(Duration),
    /// It is done; the connection is cut instead of an answer.
    LoseAnswer,
    /// It is done; the connection is cut once the answer has begun.
    BreakOff,
}

/// For how long an answer goes on that is broken off.
const BEGINNING: Duration = Duration::from_millis(20);

/// For which calls.
type On = Box<dyn Fn(&Call) -> bool + Send>;

pub(super) struct Faults {
    rules: Mutex<Vec<Rule>>,
    /// How often they were cleared.
    cleared: watch::Sender<u64>,
    stalled: watch::Sender<usize>,
}

struct Rule {
    left: Option<usize>,
    fault: Fault,
    on: On,
}

/// One call that hangs.
struct Stalled<'a>(&'a watch::Sender<usize>);

impl Faults {
    pub(super) fn new() -> Self {
        Self { rules: Mutex::default(), cleared: watch::Sender::new(0), stalled: watch::Sender::new(0) }
    }

    pub(super) fn add(&self, times: Option<usize>, fault: Fault, on: On) {
        self.rules().push(Rule { left: times, fault, on });
    }

    pub(super) fn clear(&self) {
        self.rules().clear();
        self.cleared.send_modify(|times| *times += 1);
    }

    pub(super) fn stalled(&self) -> usize {
        *self.stalled.borrow()
    }

    /// What goes wrong with this call, if anything: the first rule that fits and is not used up.
    pub(super) fn take(&self, call: &Call) -> Option<Fault> {
        let mut rules = self.rules();
        let found = rules.iter().position(|rule| (rule.on)(call))?;
        let rule = &mut rules[found];
        let fault = rule.fault.clone();
        if let Some(left) = &mut rule.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                rules.remove(found);
            }
        }
        Some(fault)
    }

    /// Waits until the faults are cleared.
    pub(super) async fn stall(&self) {
        let mut cleared = self.cleared.subscribe();
        self.stalled.send_modify(|count| *count += 1);
        let _stalled = Stalled(&self.stalled);
        // It only fails when the service is gone, and then nobody waits for an answer.
        let _ended = cleared.changed().await;
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stalled<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

pub(super) fn foreign(status: u16, body: &'static str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, body).into_response()
}

pub(super) fn refused(status: u16, target: Option<&str>, message: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Refusal::with_status(status, message, target).into_response()
}

/// The beginning of an answer, with nothing in it yet, and then the connection is cut.
pub(super) fn broken_off(answer: Response) -> Response {
    let begun = stream::iter([Ok(Bytes::from_static(b"\n"))]);
    let broken = stream::once(async {
        // Were it cut at once, nothing of it would leave.
        tokio::time::sleep(BEGINNING).await;
        Err(std::io::Error::other("the answer is broken off"))
    });
    Response::from_parts(answer.into_parts().0, Body::from_stream(begun.chain(broken)))
}

/// No answer: a body that cannot be sent takes the connection with it, before anything of the answer has left.
pub(super) fn cut() -> Response {
    let broken = stream::iter([Err::<Bytes, _>(std::io::Error::other("the answer is lost"))]);
    Body::from_stream(broken).into_response()
}
