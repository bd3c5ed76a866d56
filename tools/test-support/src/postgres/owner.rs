//! The user who runs the server, and commands run as that user.

use std::path::Path;
use std::process::Command;

use nix::unistd::{Gid, Uid, User};

/// The user who runs the server.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) name: String,
    /// Set when we are root and have to become somebody else.
    pub(super) drop_to: Option<(Uid, Gid)>,
}

impl Owner {
    /// Ourselves; or, for root, the user whom the PostgreSQL package made for this, or nobody.
    pub(super) fn find() -> Self {
        if !Uid::effective().is_root() {
            return Self { name: "the current user".to_owned(), drop_to: None };
        }
        // A look-up that fails is a user that does not exist: the next one will do.
        let user = ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten());
        match user {
            Some(user) => Self { name: format!("user `{}`", user.name), drop_to: Some((user.uid, user.gid)) },
            // Leave it to PostgreSQL to refuse, in its own words.
            None => Self { name: "root".to_owned(), drop_to: None },
        }
    }

    /// A command that runs `program` as this user in `folder`, and that the kernel stops if our process dies.
    /// It must be started by the [keeper](crate::keeper), whose death it watches.
    pub(super) fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new("setpriv");
        if let Some((uid, gid)) = self.drop_to {
            command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".to_owned()]);
        }
        // INT is PostgreSQL's fast shutdown, and the end of any other program.
        command.args(["--pdeathsig", "INT"]).arg(program);
        // Our own working directory may be closed to that user.
        command.current_dir(folder);
        // A server must not pick up how this machine's client is set up.
        for name in ["PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGOPTIONS", "PGSERVICE", "PGTZ"] {
            command.env_remove(name);
        }
        // The name of the user's own settings, not of root's.
        command.env("HOME", folder).env("LC_ALL", "C.UTF-8");
        command
    }
}
