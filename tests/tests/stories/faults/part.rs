//! The part of one component in an operation: where it falls, and who helps it up.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use pilothouse_runtime::fault::FAULT_FILE_VARIABLE;

use super::attempt::{ACCEPTED, Attempt, Fall, Passing};
use crate::flow::{Flow, signal};

/// How long a component is cut off.
const PAUSE: Duration = Duration::from_secs(2);

/// A component that is to fall in an operation, once or several times.
#[derive(Debug)]
pub(super) struct Part {
    component: &'static str,
    /// What it passes if nobody falls.
    calm: Vec<Passing>,
    /// Those to come, the next one first.
    left: VecDeque<Attempt>,
    fallen: Vec<Attempt>,
    missed: Vec<Attempt>,
    /// Who passes no point is told otherwise, once a request has been accepted.
    waits_for_request: bool,
}

/// Helps everybody up who has fallen. Whether there was somebody.
pub(super) async fn pick_up_all<F: Flow>(flow: &mut F, parts: &mut [Part]) -> bool {
    let mut some = false;
    // Whoever stands still goes on before anybody starts, who may need him to.
    for fall in [Fall::Cut, Fall::Kill] {
        for part in parts.iter_mut().filter(|part| part.next_fall() == Some(fall)) {
            some |= part.pick_up(flow).await;
        }
    }
    some
}

/// Starts a component again, which has not been told yet, and will listen.
pub(super) async fn start_again(flow: &mut impl Flow, component: &str) {
    let word = word(flow, component);
    let _ = fs::remove_file(&word);
    flow.start_again(component, &[(FAULT_FILE_VARIABLE, word.to_str().unwrap())]).await;
}

/// What tells a component where it will fall.
fn word(flow: &impl Flow, component: &str) -> PathBuf {
    flow.path(&format!("{component}.fault"))
}

// === impl Part ===

impl Part {
    /// Of attempts of one component.
    pub(super) fn new(calm: Vec<Passing>, left: VecDeque<Attempt>) -> Self {
        let component = left[0].component;
        Self { component, calm, left, fallen: Vec::new(), missed: Vec::new(), waits_for_request: false }
    }

    /// Says where the next fall is to be, if there is one.
    pub(super) fn tell(&mut self, flow: &impl Flow) {
        while self.left.front().is_some_and(|next| self.time(&next.passings[0]).is_none()) {
            self.missed.extend(self.left.pop_front());
        }
        let Some(Attempt { component, fall, passings }) = self.left.front() else { return };
        let passing = &passings[0];
        self.waits_for_request = passing.point == ACCEPTED;
        if self.waits_for_request {
            return;
        }
        let Some(time) = self.time(passing) else { return };
        let fatal = match fall {
            Fall::Kill => format!("{}:{time}", passing.point),
            Fall::Cut => format!("{}:{time}:stop", passing.point),
        };
        let whole = flow.path("fault");
        // With something that no other had: the same point may be the next one's, too.
        static SERIAL: AtomicUsize = AtomicUsize::new(0);
        fs::write(&whole, format!("{fatal}\n{}\n", SERIAL.fetch_add(1, Ordering::Relaxed))).unwrap();
        fs::rename(whole, word(flow, component)).unwrap();
    }

    /// The how manieth time this passing is from now on: since it fell the last time, it counts anew. `None` if it has gone by, or
    /// nobody can tell: another one would be taken for it.
    fn time(&self, passing: &Passing) -> Option<usize> {
        let Some(Attempt { fall, passings, .. }) = self.fallen.last() else { return Some(passing.time) };
        let fatal = &passings[0];
        // What it was killed before, it does again; what it was cut off before, perhaps.
        let undone = fatal.point.ends_with(".before");
        if undone && *fall == Fall::Cut && fatal.point == passing.point {
            return None;
        }
        let reached = self.calm.iter().take_while(|passing| *passing != fatal).chain([fatal]);
        let before = reached.filter(|other| other.point == passing.point && !(undone && *other == fatal));
        passing.time.checked_sub(before.count()).filter(|time| *time > 0)
    }

    pub(super) fn request_was_accepted(&mut self, flow: &mut impl Flow) {
        if let Some(fall) = self.next_fall()
            && std::mem::take(&mut self.waits_for_request)
        {
            let how = if fall == Fall::Kill { Signal::SIGKILL } else { Signal::SIGSTOP };
            signal(flow.id(self.component), how);
        }
    }

    fn next_fall(&self) -> Option<Fall> {
        self.left.front().map(|attempt| attempt.fall)
    }

    /// Starts it again if it was killed, or lets it go on cut off, and tells it the next one. Whether it had fallen.
    async fn pick_up<F: Flow>(&mut self, flow: &mut F) -> bool {
        match self.next_fall() {
            Some(Fall::Kill) if flow.has_died(self.component) => start_again(flow, self.component).await,
            Some(Fall::Cut) if is_stopped(flow.id(self.component)) => {
                let _ = fs::remove_file(word(flow, self.component));
                flow.go_on_apart(self.component, PAUSE).await;
            }
            _ => return false,
        }
        self.fallen.extend(self.left.pop_front());
        self.tell(flow);
        true
    }

    /// Takes back what it was told. Whether there was something, at which it may just have fallen.
    pub(super) fn let_be(&mut self, flow: &impl Flow) -> bool {
        self.missed.extend(self.left.drain(self.left.len().min(1)..));
        let _ = fs::remove_file(word(flow, self.component));
        !self.left.is_empty()
    }

    /// Each attempt, and whether it fell there.
    pub(super) fn outcome(self) -> impl Iterator<Item = (Attempt, bool)> {
        let missed = self.left.into_iter().chain(self.missed);
        let fallen = self.fallen.into_iter().map(|attempt| (attempt, true));
        fallen.chain(missed.map(|attempt| (attempt, false)))
    }
}

fn is_stopped(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, state)| state.trim_start().starts_with('T'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passing((point, time): (&str, usize)) -> Passing {
        Passing { point: point.to_owned(), time }
    }

    #[test]
    fn a_passing_counts_from_the_fall_before_it_and_one_that_has_gone_by_is_none() {
        let (before, after) = ("p.before", "p.after");
        let calm = [(before, 1), (after, 1), (before, 2), (after, 2), (after, 3)].map(passing).to_vec();
        let fallen_at = |at: (&str, usize), fall| {
            let attempt = |at| Attempt { component: "c", fall, passings: [passing(at)].into() };
            let mut part = Part::new(calm.clone(), [attempt(at)].into());
            part.fallen.extend(part.left.pop_front());
            move |next| part.time(&passing(next))
        };
        for fall in [Fall::Kill, Fall::Cut] {
            let time = fallen_at((after, 1), fall);
            assert_eq!([time((after, 1)), time((before, 1)), time((after, 3))], [None, None, Some(2)]);
            let time = fallen_at((before, 2), fall);
            assert_eq!([time((after, 1)), time((after, 2))], [None, Some(1)]);
            // What it was killed before comes once more.
            let again = if fall == Fall::Kill { Some(1) } else { None };
            assert_eq!(time((before, 2)), again);
        }
    }
}
