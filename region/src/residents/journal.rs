//! Whose line is it.

use std::sync::Arc;

use pilothouse_kubelet::residents::{Printed, Service};
use pilothouse_runtime::telemetry::{Keeper, Origin};

use super::Part;

/// The owner of the tasks that services are run in.
const REGION: &str = "region";

/// Gives every service what it said.
pub(super) struct Sorter {
    shelves: Vec<Shelf>,
}

struct Shelf {
    owner: &'static str,
    module: &'static str,
    printed: Arc<Printed>,
}

// === impl Sorter ===

impl Sorter {
    pub(super) fn new(parts: &[Part], service: &Service) -> Self {
        // Both are in the order of the parts.
        let shelves = parts.iter().zip(service.printed());
        let shelves = shelves.map(|(part, printed)| {
            let (owner, module) = (part.owner, part.module);
            Shelf { owner, module, printed }
        });
        Self { shelves: shelves.collect() }
    }
}

impl Keeper for Sorter {
    fn keep(&self, origin: &Origin<'_>, line: &[u8]) {
        if let Some(shelf) = self.shelves.iter().find(|shelf| is_of(shelf.owner, shelf.module, origin)) {
            // There is nobody to tell: what is said about this would come here, too.
            let _ = shelf.printed.add(line);
        }
    }
}

/// Whether a part said something: its own code did, or code that everybody uses, in a task of its.
fn is_of(owner: &str, module: &str, origin: &Origin<'_>) -> bool {
    let Origin { target, owner: whose, task } = *origin;
    let own = target.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    own || whose == Some(owner) || (whose == Some(REGION) && task == Some(owner))
}

#[cfg(test)]
mod tests {
    use super::super::MAESTRO_SERVER;
    use super::*;
    use crate::config::Authentication;
    use crate::ports::Ports;

    #[test]
    fn lines_are_given_to_whoever_said_them() {
        let agent = Some("maestro-agent");
        for (target, owner, task, expected) in [
            ("pilothouse_maestro::agent::works", None, None, true),
            ("pilothouse_maestro::agent", None, None, true),
            // Other code, however alike the names are.
            ("pilothouse_maestro::agents", None, None, false),
            ("pilothouse_maestro::server", None, None, false),
            // Code that everybody uses, in tasks of its and of others.
            ("pilothouse_http::server", agent, Some("serve"), true),
            ("pilothouse_store", Some("region"), agent, true),
            ("pilothouse_store", Some("region"), Some("maestro-server"), false),
            ("pilothouse_store", Some("gateway"), agent, false),
        ] {
            let origin = Origin { target, owner, task };
            assert_eq!(is_of("maestro-agent", "pilothouse_maestro::agent", &origin), expected, "{origin:?}");
        }
    }

    #[test]
    fn what_shared_code_says_in_the_task_of_a_service_is_its_own_and_nobody_elses() {
        let parts = super::super::parts(&Ports::default(), Authentication::None);
        // The names of the tasks that `services.rs` runs them in.
        for task in [
            "frontend",
            "backend",
            "clusters-service",
            MAESTRO_SERVER,
            "maestro-agent",
            "hypershift",
            "dns",
            "mce",
        ] {
            let origin = Origin { target: "pilothouse_store", owner: Some(REGION), task: Some(task) };
            let whose = parts.iter().filter(|part| is_of(part.owner, part.module, &origin));
            assert_eq!(whose.map(|part| part.owner).collect::<Vec<_>>(), [task]);
        }
    }
}
