//! Points at which a test may kill the process.
//!
//! Whoever writes something that must survive being cut off marks the moments before and after it:
//! `fault::point("records.commit.before")`. A process of a debug build then
//!
//! - kills itself with the signal that cannot be caught at the n-th passing of a point if [`FAULT_VARIABLE`] says
//!   `name:n`: nothing is unwound, flushed or given back,
//! - writes the name of every point it passes to the file that [`FAULT_TRACE_VARIABLE`] names, one to a line, so that
//!   a test can learn which passings there are and go through all of them.
//!
//! In a release build a point is nothing. It goes by the profile and not by a feature, because a feature of the lowest crate
//! would build everything above it twice.

/// Which passing of which point kills: `name:n`, counted from one.
pub const FAULT_VARIABLE: &str = "PILOTHOUSE_TEST_FAULT";

/// The file that every passing is written to.
pub const FAULT_TRACE_VARIABLE: &str = "PILOTHOUSE_TEST_FAULT_TRACE";

/// The process passes a point at which it may be killed.
#[inline(always)]
pub fn point(name: &'static str) {
    #[cfg(debug_assertions)]
    armed::pass(name);
    #[cfg(not(debug_assertions))]
    let _ = name;
}

#[cfg(debug_assertions)]
mod armed {
    use std::collections::HashMap;
    use std::env;
    use std::fs::{File, OpenOptions};
    use std::io::Write as _;
    use std::sync::{LazyLock, Mutex, PoisonError};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    struct Plan {
        /// The point, and at which passing of it.
        fatal: Option<(String, u64)>,
        trace: Option<File>,
        passed: HashMap<&'static str, u64>,
    }

    static PLAN: LazyLock<Mutex<Plan>> = LazyLock::new(|| {
        let fatal = env::var(super::FAULT_VARIABLE).ok().and_then(|text| {
            let (name, count) = text.rsplit_once(':')?;
            Some((name.to_owned(), count.parse().ok()?))
        });
        let trace = env::var_os(super::FAULT_TRACE_VARIABLE)
            .and_then(|path| OpenOptions::new().create(true).append(true).open(path).ok());
        Mutex::new(Plan { fatal, trace, passed: HashMap::new() })
    });

    pub(super) fn pass(name: &'static str) {
        let mut plan = PLAN.lock().unwrap_or_else(PoisonError::into_inner);
        let Plan { fatal, trace, passed } = &mut *plan;
        let count = passed.entry(name).or_default();
        *count += 1;
        if let Some(trace) = trace {
            // A test that cannot read its trace notices; the process is not to be disturbed by it.
            let _ = trace.write_all(format!("{name}\n").as_bytes());
        }
        if fatal.as_ref().is_some_and(|(fatal, at)| fatal == name && at == count) {
            // It is there before the call returns; what follows is for whom even that would be too late.
            let _ = kill(Pid::this(), Signal::SIGKILL);
            std::process::abort();
        }
    }
}
