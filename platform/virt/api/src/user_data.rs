//! The Secret that makes a machine a node.

use std::collections::BTreeMap;

/// Where a node finds its files.
pub const FOLDER: &str = "/etc/pilothouse";
/// Where it keeps its own.
pub const ROOT: &str = "/var/lib/pilothouse";
/// The configuration of the kubelet.
pub const SETTINGS: &str = "kubelet.toml";
/// How the cluster is reached, with the token that lets a node join.
pub const BOOTSTRAP_KUBECONFIG: &str = "bootstrap-kubeconfig";
/// Whose clients may visit the node, PEM.
pub const CLIENT_AUTHORITIES: &str = "client-ca.crt";
/// The whole of it as a script, which a machine runs when it boots, or a person by hand.
pub const VALUE: &str = "value";
/// The same, by the name that cloud-init volumes read it under.
const USER_DATA: &str = "userdata";

/// Ends a file inside the script. None of the files can have such a line.
const END: &str = "END-OF-FILE";

/// Everything a node reads, the same for all nodes of a pool.
#[derive(Clone, Debug)]
pub struct UserData<'a> {
    /// What the node belongs to, for whoever reads the script.
    pub of: &'a str,
    /// [`SETTINGS`], without anything that differs from node to node.
    pub settings: String,
    /// [`BOOTSTRAP_KUBECONFIG`].
    pub bootstrap_kubeconfig: String,
    /// [`CLIENT_AUTHORITIES`].
    pub client_authorities: String,
    /// The machine is shared with others: the node gets a network of its own, and an address in it.
    pub shared_machine: bool,
}

// === impl UserData ===

impl UserData<'_> {
    /// The keys of the Secret.
    pub fn data(&self) -> BTreeMap<&'static str, String> {
        let script = self.script();
        BTreeMap::from([
            (SETTINGS, self.settings.clone()),
            (BOOTSTRAP_KUBECONFIG, self.bootstrap_kubeconfig.clone()),
            (CLIENT_AUTHORITIES, self.client_authorities.clone()),
            (USER_DATA, script.clone()),
            (VALUE, script),
        ])
    }

    fn script(&self) -> String {
        let files = [
            (SETTINGS, &self.settings),
            (BOOTSTRAP_KUBECONFIG, &self.bootstrap_kubeconfig),
            (CLIENT_AUTHORITIES, &self.client_authorities),
        ];
        let files: String = files
            .iter()
            .map(|(name, text)| format!("cat > \"$folder/{name}\" <<'{END}'\n{}\n{END}\n", text.trim_end()))
            .collect();
        // The address only has to differ from those of the cluster's other nodes.
        let address = if self.shared_machine {
            "number=$(printf %s \"$name\" | cksum | cut -d ' ' -f 1)\n\
             export PILOTHOUSE_NODE_ADDRESS=\"169.254.$((number / 254 % 254 + 1)).$((number % 254 + 1))\"\n"
        } else {
            ""
        };
        format!(
            "#!/bin/sh\n\
             # Makes this machine a node of {of}. Arguments, both optional: the node's name and a folder for its files.\n\
             set -eu\n\
             name=\"${{1:-$(hostname)}}\"\n\
             folder=\"${{2:-{ROOT}/$name}}\"\n\
             umask 077\n\
             mkdir -p \"$folder\"\n\
             folder=$(cd \"$folder\" && pwd)\n\
             {files}\
             {address}\
             export PILOTHOUSE_CLIENT_AUTHORITIES=\"$folder/{CLIENT_AUTHORITIES}\"\n\
             exec pilothouse kubelet --config \"$folder/{SETTINGS}\" --node-name \"$name\" --root \"$folder/root\" \\\n\
             \x20 --bootstrap-kubeconfig \"$folder/{BOOTSTRAP_KUBECONFIG}\"\n",
            of = self.of,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs the script with a `pilothouse` that tells what it was given.
    #[test]
    fn the_script_writes_the_files_and_starts_a_kubelet_on_them() {
        let folder = std::env::temp_dir().join(format!("user-data-{}", std::process::id()));
        let programs = folder.join("programs");
        std::fs::create_dir_all(&programs).unwrap();
        let told =
            "#!/bin/sh\necho \"$@\"\necho \"$PILOTHOUSE_CLIENT_AUTHORITIES $PILOTHOUSE_NODE_ADDRESS\"\n";
        let program = programs.join("pilothouse");
        std::fs::write(&program, told).unwrap();
        assert!(Command::new("chmod").arg("+x").arg(&program).status().unwrap().success());
        let user_data = UserData {
            of: "hosted cluster clusters/first",
            settings: "version = \"1.33.4\"\nroot = \"$HOME\"\n".to_owned(),
            bootstrap_kubeconfig: "kind: Config".to_owned(),
            client_authorities: "PEM".to_owned(),
            shared_machine: true,
        };
        let data = user_data.data();
        assert_eq!(data["userdata"], data[VALUE]);
        let script = folder.join("script");
        std::fs::write(&script, &data[VALUE]).unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let node = folder.join("node");
        let output =
            Command::new("sh").arg(&script).arg("one").arg(&node).env("PATH", path).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let node = node.display();
        let expected = format!(
            "kubelet --config {node}/kubelet.toml --node-name one --root {node}/root --bootstrap-kubeconfig {node}/bootstrap-kubeconfig\n\
             {node}/client-ca.crt 169.254."
        );
        assert!(said.starts_with(&expected), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let written = std::fs::read_to_string(format!("{node}/kubelet.toml")).unwrap();
        assert_eq!(written, user_data.settings, "nothing is expanded");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
