//! What a kubelet and a shim say to each other: lines of JSON on a Unix socket.
//!
//! The kubelet sends [`Envelope`]s; each is answered with one [`Message::Answer`] of the same number. Beside the answers the shim
//! sends its whole [`State`] when a connection begins and after every change, so that a kubelet needs no memory of
//! what it missed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cgroups::Group;

/// What the namespaces of a pod should be like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sandbox {
    pub(crate) hostname: String,
    /// In a user namespace of its own, in which it may do everything: a node inside a pod.
    pub(crate) privileged: bool,
    /// In the node's network instead of one of its own.
    pub(crate) host_network: bool,
    /// Where the first process itself belongs.
    #[serde(default)]
    pub(crate) cgroup: Option<Group>,
    /// How many descriptors its programs may begin with. They are not ours, and may count theirs in a fixed set.
    #[serde(default)]
    pub(crate) descriptors: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Envelope {
    pub(crate) id: u64,
    pub(crate) request: Request,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Starts a container. Starting an attempt that was already started does nothing.
    Start(Box<Container>),
    /// Sends a signal to the process group of a container that runs.
    Signal { container: String, signal: i32 },
    /// Runs a program inside a container that runs, and answers with its exit code. What it prints goes to the descriptor
    /// that comes along, if one does.
    Execute { container: String, command: Vec<String>, timeout_milliseconds: u64 },
    /// Runs a program inside a container that runs, for as long as this connection lasts, and answers with its exit code. Its
    /// streams come along as descriptors; with a terminal, a socket to hand that out through.
    Run { container: String, command: Vec<String>, terminal: bool, streams: Streams },
    /// Copies what a container prints, from now on, into the descriptors that come along, and answers when it is over. The
    /// last one is a socket: through it goes where the container reads from, if it reads.
    Attach { container: String, streams: Streams },
    /// Hands out a socket in the pod's network, not yet connected, through the socket that comes along.
    Socket,
}

/// Which of the three streams of a program somebody has an interest in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Streams {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
}

/// Everything that is needed to start a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Container {
    pub(crate) name: String,
    /// 0 for the first time.
    pub(crate) attempt: u32,
    pub(crate) command: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) directory: Option<String>,
    /// The program to be found at [`PROGRAM_FOLDER`].
    pub(crate) program: Option<PathBuf>,
    /// What it is called there.
    #[serde(default)]
    pub(crate) program_name: Option<String>,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) privileged: bool,
    pub(crate) read_only_root: bool,
    pub(crate) input: Input,
    /// All three streams are a terminal.
    pub(crate) terminal: bool,
    /// What limits it.
    #[serde(default)]
    pub(crate) cgroup: Option<Group>,
    /// How soon it is ended when the machine has no memory left, from -1000 to 1000.
    #[serde(default)]
    pub(crate) expendability: Option<i32>,
}

/// What a container reads from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Input {
    /// Nothing.
    #[default]
    None,
    /// Whoever is attached, and it ends with the first who is.
    Once,
    /// Whoever is attached, one after the other.
    Lasting,
}

/// Where the program of an image is inside a container.
pub(crate) const PROGRAM_FOLDER: &str = "/opt/pilothouse/bin";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub(crate) source: PathBuf,
    /// Below the source; symbolic links in it stay below, too.
    pub(crate) sub_path: Option<String>,
    pub(crate) target: String,
    pub(crate) read_only: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    State(State),
    Answer { id: u64, outcome: Outcome },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Done,
    Exited(i32),
    Refused(String),
}

/// What became of every container that was ever started in this pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) containers: BTreeMap<String, ContainerState>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerState {
    pub(crate) attempt: u32,
    pub(crate) run: Run,
    /// The attempt before.
    pub(crate) previous: Option<Run>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// In the process namespace of the pod.
    pub(crate) pid: i32,
    pub(crate) started_at: Timestamp,
    pub(crate) exit: Option<Exit>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// By the shell's convention: 128 + signal for one that was killed.
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) finished_at: Timestamp,
    /// Why it never ran, if it did not.
    pub(crate) start_error: Option<String>,
    /// Whether the kernel ended something in it for want of memory.
    #[serde(default)]
    pub(crate) out_of_memory: bool,
}

impl ContainerState {
    pub(crate) fn is_running(&self) -> bool {
        self.run.exit.is_none()
    }
}

impl Exit {
    /// Of a container that ended with its pod's first process.
    pub(crate) fn killed(finished_at: Timestamp) -> Self {
        Self { code: 137, signal: Some(9), finished_at, start_error: None, out_of_memory: false }
    }
}
