//! What clusters may leave behind on a machine whose region goes on: nothing.

use std::fs;

use pilothouse_test_support::eventually;
use pilothouse_test_support::requirement::Requirement;

use crate::region::{LIMIT, Region};

/// What a region without clusters consists of, by the verbs that its processes were started with.
const REGION: [&str; 3] = ["kubelet", "node-anchor", "up"];

impl Region {
    /// Waits until nothing runs but the region itself, no pod of the node has anything mounted, and nobody answers to the names
    /// of these clusters, which are gone.
    pub(crate) async fn is_alone(&self, clusters: &[&str]) {
        eventually("only the region runs", LIMIT, || {
            let (processes, mounts) = (self.processes(), self.pod_mounts());
            let mut verbs: Vec<_> = processes.iter().filter_map(|line| line.split(' ').nth(1)).collect();
            verbs.sort_unstable();
            let alone = verbs == REGION && mounts.is_empty();
            async move { if alone { Ok(()) } else { Err(format!("{processes:#?}, {mounts:#?}")) } }
        })
        .await;
        if Requirement::new("dig", "bind9-dnsutils").find().is_none() {
            return;
        }
        for cluster in clusters {
            let name = format!("api.{cluster}.pilothouse.test");
            eventually(&format!("nobody answers to {name}"), LIMIT, || {
                let said = self.dig(&name);
                async move { if said.contains("status: NXDOMAIN") { Ok(()) } else { Err(said) } }
            })
            .await;
        }
    }

    /// What is mounted for pods wherever processes of the region are.
    fn pod_mounts(&self) -> Vec<String> {
        let node = self.data_dir().join("node");
        let folders = ["root/pods/", "volumes/"].map(|folder| format!("{}/{folder}", node.display()));
        let of_pod = |line: &&str| folders.iter().any(|folder| line.contains(folder));
        let mounts = |(number, _): (String, String)| {
            // Who has ended meanwhile has nothing mounted.
            let mounts = fs::read_to_string(format!("/proc/{number}/mountinfo")).unwrap_or_default();
            mounts.lines().filter(of_pod).map(str::to_owned).collect::<Vec<_>>()
        };
        self.numbered_processes().into_iter().flat_map(mounts).collect()
    }
}
