//! Points at which a test may kill the process.
//!
//! Whoever writes something that must survive being cut off marks the moments before and after it:
//! `fault::point("records.commit.before")`. A process of a debug build then
//!
//! - kills itself with the signal that cannot be caught at the n-th passing of a point if [`FAULT_VARIABLE`] says
//!   `name:n`: nothing is unwound, flushed or given back,
//! - stops there, as if the machine under it stood still, if it says `name:n:stop`: a test lets it go on later,
//! - does either while it runs, without having been started for it, once the file that [`FAULT_FILE_VARIABLE`] names is
//!   there and says so: passings are counted from then on, and from the beginning when the file says something else,
//! - writes the name of every point it passes to the file that [`FAULT_TRACE_VARIABLE`] names, one to a line, so that
//!   a test can learn which passings there are and go through all of them.
//!
//! A write that every service has says in the names of its points what is written ([`Name`]): so each kind of write is a point.
//!
//! In a release build a point is nothing. It goes by the profile and not by a feature, because a feature of the lowest crate
//! would build everything above it twice.

mod name;

pub use name::Name;

/// Which passing of which point kills: `name:n`, counted from one; with `:stop` behind it, which one stops.
pub const FAULT_VARIABLE: &str = "PILOTHOUSE_TEST_FAULT";

/// A file that says the same in its first line to a process that runs; without it no passing counts. It has to be put there whole,
/// by a rename. What follows the first line tells it from one that said the same before.
pub const FAULT_FILE_VARIABLE: &str = "PILOTHOUSE_TEST_FAULT_FILE";

/// The file that every passing is written to.
pub const FAULT_TRACE_VARIABLE: &str = "PILOTHOUSE_TEST_FAULT_TRACE";

/// What a region gives to its node's kubelet, which is a process of its own, as [`FAULT_FILE_VARIABLE`].
pub const NODE_FAULT_FILE_VARIABLE: &str = "PILOTHOUSE_TEST_NODE_FAULT_FILE";

/// The same as [`FAULT_TRACE_VARIABLE`].
pub const NODE_FAULT_TRACE_VARIABLE: &str = "PILOTHOUSE_TEST_NODE_FAULT_TRACE";

/// Whether a point is one that every service passes, however it names its own: at each write to a store, and at
/// each to a Kubernetes API.
pub fn is_common(name: &str) -> bool {
    ["store.commit.", "kubernetes.write."].iter().any(|common| name.starts_with(common))
}

/// Marks a piece of work: a point before it, and another after it if it succeeded.
///
/// # Errors
///
/// Those of the work.
pub async fn around<T, E>(
    [before, after]: [&'static str; 2],
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    point(before);
    let done = work.await?;
    point(after);
    Ok(done)
}

/// The same with points that are called `NAME.before` and `NAME.after`.
///
/// # Errors
///
/// Those of the work.
pub async fn around_named<T, E>(name: Name, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    name.pass("before");
    let done = work.await?;
    name.pass("after");
    Ok(done)
}

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
    use std::fs::{self, File, OpenOptions};
    use std::io::Write as _;
    use std::path::PathBuf;
    use std::sync::{LazyLock, Mutex, PoisonError};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    struct Plan {
        fatal: Option<Fatal>,
        /// The file that has the word, if there is to be one, and what it said last.
        file: Option<(PathBuf, Option<String>)>,
        trace: Option<File>,
        passed: HashMap<String, u64>,
    }

    /// The point, at which passing of it, and what comes then.
    struct Fatal {
        point: String,
        passing: u64,
        signal: Signal,
    }

    static PLAN: LazyLock<Mutex<Plan>> = LazyLock::new(|| {
        let fatal = env::var(super::FAULT_VARIABLE).ok().and_then(|text| Fatal::parse(&text));
        let trace = env::var_os(super::FAULT_TRACE_VARIABLE)
            .and_then(|path| OpenOptions::new().create(true).append(true).open(path).ok());
        let file = env::var_os(super::FAULT_FILE_VARIABLE).map(|path| (PathBuf::from(path), None));
        Mutex::new(Plan { fatal, file, trace, passed: HashMap::new() })
    });

    impl Fatal {
        fn parse(text: &str) -> Option<Self> {
            let (text, signal) = match text.strip_suffix(":stop") {
                Some(text) => (text, Signal::SIGSTOP),
                None => (text, Signal::SIGKILL),
            };
            let (point, passing) = text.rsplit_once(':')?;
            Some(Self { point: point.to_owned(), passing: passing.parse().ok()?, signal })
        }
    }

    pub(super) fn pass(name: &str) {
        let mut plan = PLAN.lock().unwrap_or_else(PoisonError::into_inner);
        let Plan { fatal, file, trace, passed } = &mut *plan;
        if let Some((file, former)) = file {
            let said = fs::read_to_string(file).ok();
            if said != *former {
                *fatal = said.as_deref().and_then(|text| Fatal::parse(text.lines().next()?));
                *former = said;
                passed.clear();
            }
            if former.is_none() {
                return;
            }
        }
        let count = passed.entry(name.to_owned()).or_default();
        *count += 1;
        if let Some(trace) = trace {
            // A test that cannot read its trace notices; the process is not to be disturbed by it.
            let _ = trace.write_all(format!("{name}\n").as_bytes());
        }
        let reached = fatal.as_ref().filter(|Fatal { point, passing, .. }| point == name && passing == count);
        if let Some(Fatal { signal, .. }) = reached {
            // It is there before the call returns; what follows is for whom even that would be too late.
            let _ = kill(Pid::this(), *signal);
            if *signal == Signal::SIGKILL {
                std::process::abort();
            }
        }
    }
}
