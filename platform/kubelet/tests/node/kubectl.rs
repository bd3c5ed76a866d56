//! The real kubectl.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A kubectl and whom it speaks to.
#[derive(Clone)]
pub(crate) struct Kubectl {
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) speaks: Speaks,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    WebSockets,
    /// What clients spoke before.
    Spdy,
}

impl Kubectl {
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("HOME", &self.home).env("PATH", std::env::var_os("PATH").unwrap());
        let websockets = if self.speaks == Speaks::WebSockets { "true" } else { "false" };
        command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
        command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) async fn run(&self, arguments: &[&str], input: &str) -> Output {
        let (mut command, input) = (self.command(arguments), input.to_owned());
        let waiting = tokio::task::spawn_blocking(move || {
            let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
            // One that has ended reads nothing.
            let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
            child.wait_with_output().unwrap()
        });
        waiting.await.unwrap()
    }

    /// What it prints, which must be all it has to say.
    pub(crate) async fn printed(&self, arguments: &[&str], input: &str) -> String {
        let output = self.run(arguments, input).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}
