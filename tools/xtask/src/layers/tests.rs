//! Each rule of the table, shown red and green on small made-up workspaces.

use super::*;

fn member(folder: &str) -> Member {
    Member { name: folder.replace('/', "-"), folder: folder.to_owned(), ..Member::default() }
}

impl Member {
    fn uses(mut self, folder: &str) -> Self {
        self.uses.push(Use {
            package: folder.replace('/', "-"),
            folder: Some(folder.to_owned()),
            ..Use::default()
        });
        self
    }

    fn uses_in_tests(self, folder: &str) -> Self {
        let mut member = self.uses(folder);
        member.uses.last_mut().unwrap().test_only = true;
        member
    }

    fn uses_outside(mut self, package: &str) -> Self {
        self.uses.push(Use { package: package.to_owned(), ..Use::default() });
        self
    }

    /// The last use is turned on by the feature `testing` only.
    fn for_testing(mut self) -> Self {
        self.uses.last_mut().unwrap().for_testing = true;
        self
    }

    /// The last use turns on the other's feature `testing`.
    fn with_testing(mut self) -> Self {
        self.uses.last_mut().unwrap().wants_testing = true;
        self
    }
}

fn broken(member: Member) -> Vec<String> {
    check_member(&member).iter().map(Violation::to_string).collect()
}

#[test]
fn allowed_edges_pass() {
    for member in [
        member("base/api").uses("base/arm"),
        member("base/http").uses("base/runtime").uses("base/arm").uses("base/pki"),
        member("base/store").uses("base/runtime").uses_outside("sqlx").uses_in_tests("tools/test-support"),
        member("base/records").uses("base/store").uses("base/api"),
        member("platform/dns").uses("base/store").uses("platform/dns/api"),
        member("services/maestro/api").uses("base/http").uses("base/crds"),
        member("services/backend").uses("services/clusters-service/api").uses("platform/vault/api"),
        member("region").uses("services/backend").uses("platform/dns").uses("base/store"),
        member("bin").uses("region").uses("services/gateway").uses_outside("anyhow"),
        member("tests").uses("region").uses("tools/test-support"),
    ] {
        let folder = member.folder.clone();
        assert_eq!(broken(member), Vec::<String>::new(), "{folder}");
    }
}

#[test]
fn forbidden_edges_are_named() {
    for (member, offender) in [
        (member("base/arm").uses("base/api"), "`base/api`"),
        (member("base/crds").uses("base/runtime"), "`base/runtime`"),
        (member("base/runtime").uses("base/http"), "`base/http`"),
        (member("base/http").uses("base/store"), "`base/store`"),
        (member("base/pki").uses("base/http"), "`base/http`"),
        (member("base/store").uses("base/api"), "documents are opaque to the store"),
        (member("base/store").uses("tools/test-support"), "`tools/test-support`"),
        (member("platform/kubelet").uses("platform/dns"), "`platform/dns`"),
        (member("platform/kubelet").uses("platform/dns/api"), "`platform/dns/api`"),
        (member("platform/broker").uses("services/maestro"), "`services/maestro`"),
        (member("services/maestro/api").uses("services/maestro"), "does not know the server"),
        (member("services/frontend").uses("services/backend"), "over their protocols"),
        (member("services/frontend").uses("platform/vault"), "`platform/vault`"),
        (member("services/frontend").uses_in_tests("services/backend"), "in its tests"),
        (member("region").uses("bin"), "`bin`"),
        (member("tools/test-support").uses("base/store"), "`base/store`"),
    ] {
        let lines = broken(member);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(offender), "{lines:?}");
    }
}

#[test]
fn a_contract_may_have_a_simulated_server_that_only_tests_build() {
    for member in [
        member("services/maestro/api").uses_outside("axum").for_testing(),
        member("services/maestro/api").uses("base/pki").for_testing(),
        member("services/maestro/api").uses_in_tests("services/maestro/api").with_testing(),
        member("services/backend").uses_in_tests("services/maestro/api").with_testing(),
        member("bench").uses("services/maestro/api").with_testing(),
    ] {
        assert_eq!(broken(member), Vec::<String>::new());
    }
    for (member, offender) in [
        (member("services/maestro/api").uses_outside("axum"), "`axum`"),
        (member("services/maestro/api").uses_outside("sqlx").for_testing(), "`sqlx`"),
        (member("services/maestro/api").uses("base/store").for_testing(), "`base/store`"),
        (member("base/arm").uses_outside("axum").for_testing(), "`axum`"),
        (member("services/backend").uses("services/maestro/api").with_testing(), "outside of tests"),
    ] {
        let lines = broken(member);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(offender), "{lines:?}");
    }
}

#[test]
fn vocabulary_stays_free_of_machinery() {
    for package in ["tokio", "axum", "sqlx", "reqwest", "anyhow"] {
        let lines = broken(member("base/arm").uses_outside(package).uses_outside("serde"));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(package), "{lines:?}");
    }
}

#[test]
fn sql_stays_in_the_store() {
    for folder in ["base/records", "base/runtime", "platform/kubeapi", "services/backend", "bin"] {
        assert_eq!(broken(member(folder).uses_outside("sqlx")).len(), 1, "{folder}");
    }
}

#[test]
fn folder_outside_the_layers_is_refused() {
    assert_eq!(
        broken(member("services/frontend/deep/inside")),
        ["services/frontend/deep/inside/Cargo.toml: `services/frontend/deep/inside` belongs to no layer; \
          name it in tools/xtask/src/layers/table.rs, or move it into a folder that is"]
    );
}

#[test]
fn exception_without_a_use_has_to_go() {
    let edges =
        [TestEdge { from: "base/http", to: "base/pki" }, TestEdge { from: "*", to: "tools/test-support" }];
    let with =
        Workspace { members: vec![member("base/http").uses_in_tests("base/pki")], ..Workspace::default() };
    assert_eq!(unused_exceptions(&with, &edges), []);
    let without = Workspace { members: vec![member("base/http")], ..Workspace::default() };
    assert_eq!(unused_exceptions(&without, &edges).len(), 1);
}

#[test]
fn star_stands_for_one_folder() {
    assert!(matches("platform/*", "platform/dns"));
    assert!(!matches("platform/*", "platform/dns/api"));
    assert!(matches("platform/*/api", "platform/dns/api"));
    assert!(!matches("platform/*", "services/dns"));
}
