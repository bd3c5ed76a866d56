//! The loop around `poll` that is the shim.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use pilothouse_runtime::Clock;

use super::container::{self, Running, Talk};
use super::control::Connection;
use super::output::{Attached, Output};
use super::protocol::{
    Container, ContainerState, Envelope, Exit, Input, Message, Outcome, Request, Run, State, Streams,
};
use crate::descriptor;
use crate::failure::{Doing, Failure};
use crate::files::{read_json, write_json};

/// The file with what became of every container.
pub(crate) const STATE: &str = "state.json";

pub(super) struct EventLoop {
    listener: UnixListener,
    signals: SignalFd,
    connections: Vec<Connection>,
    accepted: u64,
    running: BTreeMap<String, Running>,
    /// Output of containers that have ended, whose children may still write.
    lingering: Vec<Output>,
    executing: Vec<Executing>,
    state: State,
    clock: Clock,
}

/// A program run inside a container for somebody who waits for its exit code.
struct Executing {
    pid: Pid,
    container: String,
    connection: u64,
    id: u64,
    /// How long it may take; without it, as long as the connection lasts.
    deadline: Option<Timestamp>,
}

impl EventLoop {
    pub(super) fn new(listener: UnixListener) -> Result<Self, Failure> {
        let mut mask = SigSet::empty();
        for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGPIPE] {
            mask.add(signal);
        }
        mask.thread_block().doing(|| "blocking signals".into())?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
            .doing(|| "listening to signals".into())?;
        let clock = Clock::system();
        let state = read_state(&clock)?;
        Ok(Self {
            listener,
            signals,
            connections: Vec::new(),
            accepted: 0,
            running: BTreeMap::new(),
            lingering: Vec::new(),
            executing: Vec::new(),
            state,
            clock,
        })
    }

    /// Ends only with an error: a shim is killed when its pod is over.
    pub(super) fn run(mut self) -> Result<(), Failure> {
        loop {
            self.wait().doing(|| "waiting".into())?;
            self.accept();
            self.copy_output();
            self.reap();
            self.end_overdue();
            self.serve();
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut descriptors = vec![
            PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        for connection in &self.connections {
            let mut flags = PollFlags::POLLIN;
            flags.set(PollFlags::POLLOUT, connection.has_unsent());
            descriptors.push(PollFd::new(connection.stream.as_fd(), flags));
        }
        let outputs = self.running.values().map(|running| &running.output).chain(&self.lingering);
        for output in outputs {
            descriptors.extend(output.readable().map(|one| PollFd::new(one, PollFlags::POLLIN)));
            descriptors.extend(output.writable().map(|one| PollFd::new(one, PollFlags::POLLOUT)));
        }
        let timeout = match self.executing.iter().filter_map(|executing| executing.deadline).min() {
            None => PollTimeout::NONE,
            Some(deadline) => {
                let milliseconds = self.clock.until(deadline).as_millis() + 1;
                PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX)
            }
        };
        match poll(&mut descriptors, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            self.accepted += 1;
            if let Ok(mut connection) = Connection::new(self.accepted, stream)
                && connection.send(&Message::State(self.state.clone())).is_ok()
            {
                self.connections.push(connection);
            }
        }
    }

    fn copy_output(&mut self) {
        for running in self.running.values_mut() {
            running.output.copy();
        }
        for output in &mut self.lingering {
            output.copy();
        }
        let (over, lingering) = std::mem::take(&mut self.lingering).into_iter().partition(Output::is_over);
        self.lingering = lingering;
        for (connection, id) in Vec::from_iter(over.iter().flat_map(Output::audience)) {
            self.answer(connection, id, Outcome::Done);
        }
    }

    /// Waits for whatever has ended, ours or left to us.
    fn reap(&mut self) {
        while let Ok(Some(_)) = self.signals.read_signal() {}
        loop {
            let (pid, code, signal) = match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, code, None),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, 128 + signal as i32, Some(signal as i32)),
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return,
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => return,
            };
            self.ended(pid, code, signal);
        }
    }

    fn ended(&mut self, pid: Pid, code: i32, signal: Option<i32>) {
        if let Some(index) = self.executing.iter().position(|executing| executing.pid == pid) {
            let Executing { connection, id, .. } = self.executing.swap_remove(index);
            self.answer(connection, id, Outcome::Exited(code));
            return;
        }
        let Some(name) =
            self.running.iter().find(|(_, running)| running.pid == pid).map(|(name, _)| name.clone())
        else {
            return;
        };
        // What it started and did not wait for ends with it, unless it took a session of its own; and so does what was run
        // inside it.
        let _ = killpg(pid, Signal::SIGKILL);
        for executing in self.executing.iter().filter(|executing| executing.container == name) {
            let _ = killpg(executing.pid, Signal::SIGKILL);
        }
        let mut out_of_memory = false;
        if let Some(mut running) = self.running.remove(&name) {
            // What ends well has not missed what was ended in it.
            out_of_memory = code != 0 && running.ran_out_of_memory();
            running.output.copy();
            self.lingering.push(running.output);
        }
        if let Some(container) = self.state.containers.get_mut(&name) {
            let finished_at = self.clock.now();
            container.run.exit = Some(Exit { code, signal, finished_at, start_error: None, out_of_memory });
        }
        self.publish();
    }

    fn end_overdue(&mut self) {
        let now = self.clock.now();
        for executing in &mut self.executing {
            if executing.deadline.is_some_and(|deadline| deadline <= now) {
                let _ = killpg(executing.pid, Signal::SIGKILL);
                // Answered when it has ended, which it does now; but not killed again and again meanwhile.
                executing.deadline = Some(later(now, SignedDuration::from_secs(1)));
            }
        }
    }

    fn serve(&mut self) {
        let mut asked: Vec<(u64, Envelope)> = Vec::new();
        let mut closed = Vec::new();
        self.connections.retain_mut(|connection| {
            let number = connection.number;
            let is_open = match connection.receive() {
                Ok(envelopes) => {
                    asked.extend(envelopes.into_iter().map(|envelope| (number, envelope)));
                    connection.flush().is_ok()
                }
                Err(_) => false,
            };
            if !is_open {
                closed.push(number);
            }
            is_open
        });
        closed.into_iter().for_each(|connection| self.hang_up(connection));
        for (connection, Envelope { id, request }) in asked {
            match self.carry_out(connection, id, request) {
                Ok(Some(outcome)) => self.answer(connection, id, outcome),
                Ok(None) => {}
                // A process that could not become its program has told all about it.
                Err(failure) => self.answer(connection, id, Outcome::Refused(failure.told())),
            }
        }
    }

    fn carry_out(&mut self, connection: u64, id: u64, request: Request) -> Result<Option<Outcome>, Failure> {
        match request {
            Request::Start(container) => {
                self.start(*container)?;
                Ok(Some(Outcome::Done))
            }
            Request::Signal { container, signal } => {
                if let Some(running) = self.running.get(&container) {
                    let signal = Signal::try_from(signal).doing(|| "sending a signal".into())?;
                    match killpg(running.pid, signal) {
                        Ok(()) | Err(Errno::ESRCH) => {}
                        Err(error) => return Err(error).doing(|| format!("sending {signal}")),
                    }
                }
                Ok(Some(Outcome::Done))
            }
            Request::Execute { container, command, timeout_milliseconds } => {
                // Whoever wants to know what it prints sends along where to.
                let printed = self.descriptors(connection).pop();
                let copied = printed.as_ref().map(OwnedFd::try_clone).transpose();
                let copied = copied.doing(|| "copying a descriptor".into())?;
                let talk = Talk::Streams { stdin: None, stdout: printed, stderr: copied };
                let pid = container::execute(self.running(&container)?, &command, talk)?;
                let timeout =
                    SignedDuration::from_millis(i64::try_from(timeout_milliseconds).unwrap_or(i64::MAX));
                let deadline = Some(later(self.clock.now(), timeout));
                self.executing.push(Executing { pid, container, connection, id, deadline });
                Ok(None)
            }
            Request::Run { container, command, terminal, streams } => {
                let mut given = self.descriptors(connection).into_iter();
                let mut next = |wanted: bool| if wanted { given.next() } else { None };
                let talk = match terminal {
                    true => Talk::Terminal(next(true).ok_or_else(no_descriptor)?),
                    false => Talk::Streams {
                        stdin: next(streams.stdin),
                        stdout: next(streams.stdout),
                        stderr: next(streams.stderr),
                    },
                };
                let pid = container::execute(self.running(&container)?, &command, talk)?;
                self.executing.push(Executing { pid, container, connection, id, deadline: None });
                Ok(None)
            }
            Request::Attach { container, streams } => self.attach(connection, id, &container, streams),
            Request::Socket => {
                let out = self.descriptors(connection).pop().ok_or_else(no_descriptor)?;
                let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
                let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None)
                    .doing(|| "making a socket".into())?;
                descriptor::send(out.as_fd(), b"!", &[socket.as_fd()])
                    .doing(|| "handing out a socket".into())?;
                Ok(Some(Outcome::Done))
            }
        }
    }

    fn running(&self, container: &str) -> Result<&Running, Failure> {
        let running = self.running.get(container);
        running.ok_or_else(|| Failure::other("running a program", "the container does not run"))
    }

    /// What came along on a connection.
    fn descriptors(&mut self, connection: u64) -> Vec<OwnedFd> {
        let open = self.connections.iter_mut().find(|open| open.number == connection);
        open.map(|open| std::mem::take(&mut open.descriptors)).unwrap_or_default()
    }

    fn attach(
        &mut self,
        connection: u64,
        id: u64,
        container: &str,
        streams: Streams,
    ) -> Result<Option<Outcome>, Failure> {
        let mut given = self.descriptors(connection).into_iter();
        let mut next = |wanted: bool| if wanted { given.next() } else { None };
        let sinks = [next(streams.stdout), next(streams.stderr)];
        let out = next(streams.stdin);
        let Some(running) = self.running.get_mut(container) else {
            return Err(Failure::other("attaching", "the container does not run"));
        };
        if let (Some(out), Some(input)) = (out, &running.input) {
            descriptor::send(out.as_fd(), b"!", &[input.as_fd()])
                .doing(|| "handing out the container's input".into())?;
            if running.specification.input == Input::Once && !running.specification.terminal {
                // Whoever has it now is the only one who can write, so the container sees the end when they go.
                running.input = None;
            }
        }
        running.output.attach(Attached::new(connection, id, sinks)?);
        Ok(None)
    }

    /// Who asked is gone: what was run for them is told so, as by a terminal that is switched off.
    fn hang_up(&mut self, connection: u64) {
        for executing in self.executing.iter().filter(|executing| executing.connection == connection) {
            let _ = killpg(executing.pid, Signal::SIGHUP);
            let _ = killpg(executing.pid, Signal::SIGCONT);
        }
        let outputs = self.running.values_mut().map(|running| &mut running.output);
        for output in outputs.chain(&mut self.lingering) {
            output.detach(connection);
        }
    }

    fn start(&mut self, container: Container) -> Result<(), Failure> {
        let (name, attempt) = (container.name.clone(), container.attempt);
        let known = self.state.containers.get(&name);
        if known.is_some_and(|known| known.attempt >= attempt) {
            return Ok(());
        }
        if known.is_some_and(ContainerState::is_running) {
            return Err(Failure::other("starting a container", "it runs already"));
        }
        let started_at = self.clock.now();
        let run = match container::start(container) {
            Ok(running) => {
                let pid = running.pid.as_raw();
                self.running.insert(name.clone(), running);
                Run { pid, started_at, exit: None }
            }
            Err(failure) => {
                let start_error = Some(failure.doing);
                Run {
                    pid: 0,
                    started_at,
                    exit: Some(Exit {
                        code: 128,
                        signal: None,
                        finished_at: started_at,
                        start_error,
                        out_of_memory: false,
                    }),
                }
            }
        };
        let previous = self.state.containers.remove(&name).map(|known| known.run);
        self.state.containers.insert(name, ContainerState { attempt, run, previous });
        self.publish();
        Ok(())
    }

    /// To disk first: who hears of an exit code can also read it.
    fn publish(&mut self) {
        // Without space on the disk the pod goes on; a restarted kubelet still hears of it on the socket.
        let _ = write_json(Path::new(STATE), &self.state);
        let message = Message::State(self.state.clone());
        self.connections.retain_mut(|connection| connection.send(&message).is_ok());
    }

    fn answer(&mut self, connection: u64, id: u64, outcome: Outcome) {
        let message = Message::Answer { id, outcome };
        self.connections.retain_mut(|open| open.number != connection || open.send(&message).is_ok());
    }
}

fn later(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

fn no_descriptor() -> Failure {
    Failure::other("talking to somebody", "the other side sent no descriptor")
}

/// What an earlier shim of this pod left. Whatever it says still runs, ended with that shim.
fn read_state(clock: &Clock) -> Result<State, Failure> {
    let mut state: State =
        read_json(Path::new(STATE)).doing(|| format!("reading {STATE}"))?.unwrap_or_default();
    for container in state.containers.values_mut().filter(|container| container.is_running()) {
        container.run.exit = Some(Exit::killed(clock.now()));
    }
    write_json(Path::new(STATE), &state).doing(|| format!("writing {STATE}"))?;
    Ok(state)
}
