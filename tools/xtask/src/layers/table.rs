//! Who may depend on whom. This table is the rule; `docs/architecture.md` explains it.
//!
//! A folder belongs to the first row that names it; `*` stands for one folder. What a row does not list among
//! ours is forbidden; among everybody else's only what it lists is.

/// One layer.
#[derive(Debug)]
pub(super) struct Layer {
    /// Folders that belong to it.
    pub(super) folders: &'static [&'static str],
    /// Folders of ours that it may use. `./api` is the contract inside the folder itself.
    pub(super) may_use: &'static [&'static [&'static str]],
    /// Outside crates that it must not name.
    pub(super) must_not_use: &'static [&'static [&'static str]],
    /// What the row defends.
    pub(super) why: &'static str,
}

/// An edge that only tests may have.
#[derive(Debug)]
pub(super) struct TestEdge {
    pub(super) from: &'static str,
    pub(super) to: &'static str,
}

/// What a layer may use beyond its row in what only its feature `testing` turns on.
#[derive(Debug)]
pub(super) struct Testing {
    /// Folders that it holds for.
    pub(super) folders: &'static [&'static str],
    /// Folders of ours, and outside crates.
    pub(super) may_use: &'static [&'static [&'static str]],
}

const VOCABULARY: &[&str] = &["base/arm", "base/api", "base/crds"];
const BASE: &[&str] = &["base/*"];
const CONTRACTS: &[&str] = &["platform/*/api", "services/*/api"];
const SERVERS: &[&str] = &["platform/*", "services/*"];

/// A caller may care about every error of a library.
const UNTYPED_ERRORS: &[&str] = &["anyhow"];
const RUNTIMES: &[&str] = &["tokio", "tokio-util", "tokio-rustls", "hyper", "hyper-util", "reqwest"];
const HTTP_SERVERS: &[&str] = &["axum", "tower", "tower-http"];
/// Where a client of Kubernetes is put together, which takes `tower`, too.
const HTTP_ROUTERS: &[&str] = &["axum", "tower-http"];
const SQL: &[&str] = &["sqlx"];

/// From the bottom up.
pub(super) const LAYERS: &[Layer] = &[
    Layer {
        folders: &["base/arm", "base/cel", "base/crds"],
        may_use: &[],
        must_not_use: &[RUNTIMES, HTTP_SERVERS, SQL, UNTYPED_ERRORS],
        why: "vocabulary is pure and knows nobody",
    },
    Layer {
        folders: &["base/api"],
        may_use: &[&["base/arm"]],
        must_not_use: &[RUNTIMES, HTTP_SERVERS, SQL, UNTYPED_ERRORS],
        why: "vocabulary is pure; the API model names ARM's words and nothing else",
    },
    Layer {
        folders: &["base/runtime"],
        may_use: &[VOCABULARY],
        must_not_use: &[HTTP_SERVERS, SQL, UNTYPED_ERRORS],
        why: "mechanism stands on vocabulary alone",
    },
    Layer {
        folders: &["base/pki"],
        may_use: &[VOCABULARY, &["base/runtime"]],
        must_not_use: &[HTTP_SERVERS, SQL, UNTYPED_ERRORS],
        why: "certificates are made and read without a connection",
    },
    Layer {
        folders: &["base/http"],
        may_use: &[VOCABULARY, &["base/runtime", "base/pki"]],
        must_not_use: &[SQL, UNTYPED_ERRORS],
        why: "mechanism knows neither the store nor any service",
    },
    Layer {
        folders: &["base/access"],
        may_use: &[&["base/arm", "base/runtime", "base/pki", "base/http"]],
        must_not_use: &[SQL, UNTYPED_ERRORS],
        why: "who calls is known from the connection and the request, without a look into the store",
    },
    Layer {
        folders: &["base/upstream"],
        may_use: &[&["base/http"]],
        must_not_use: &[HTTP_SERVERS, SQL, UNTYPED_ERRORS],
        why: "programs of others are found, fetched and built without knowing who runs them",
    },
    Layer {
        folders: &["base/informer"],
        may_use: &[&["base/runtime"]],
        must_not_use: &[HTTP_ROUTERS, SQL, UNTYPED_ERRORS],
        why: "a cached watch knows any Kubernetes API and no resource in particular",
    },
    Layer {
        folders: &["base/nameserver"],
        may_use: &[&["base/runtime"]],
        must_not_use: &[HTTP_SERVERS, SQL, UNTYPED_ERRORS],
        why: "questions about names are taken without knowing who has the answers",
    },
    Layer {
        folders: &["base/store"],
        may_use: &[&["base/runtime"]],
        must_not_use: &[HTTP_SERVERS, UNTYPED_ERRORS],
        why: "documents are opaque to the store",
    },
    Layer {
        folders: &["base/records"],
        may_use: &[&["base/arm", "base/api", "base/runtime", "base/store"]],
        must_not_use: &[HTTP_SERVERS, SQL, UNTYPED_ERRORS],
        why: "records are types over the store; SQL stays below it",
    },
    Layer {
        folders: &["base/work"],
        may_use: &[VOCABULARY, &["base/cel", "base/informer", "base/runtime", "base/http", "base/pki"]],
        must_not_use: &[SQL, UNTYPED_ERRORS],
        why: "applying manifests knows the Kubernetes API and no store",
    },
    Layer {
        // For what their feature `testing` builds, see also [`TESTING`].
        folders: CONTRACTS,
        may_use: &[VOCABULARY, &["base/runtime", "base/http"]],
        must_not_use: &[HTTP_SERVERS, SQL, UNTYPED_ERRORS],
        why: "a contract does not know the server it describes",
    },
    Layer {
        folders: &["platform/*"],
        may_use: &[BASE, &["./api"]],
        must_not_use: &[SQL, UNTYPED_ERRORS],
        why: "the platform knows neither the services nor its other parts",
    },
    Layer {
        folders: &["services/*"],
        may_use: &[BASE, CONTRACTS],
        must_not_use: &[SQL, UNTYPED_ERRORS],
        why: "services reach one another, and the platform, over their protocols",
    },
    Layer {
        folders: &["region"],
        may_use: &[BASE, CONTRACTS, SERVERS],
        must_not_use: &[SQL, UNTYPED_ERRORS],
        why: "the region composes what stands below it",
    },
    // One package, two binaries. Cargo knows dependencies per package only, so that `hcp` keeps to `crds`, `pki` and
    // a Kubernetes client is left to review.
    Layer {
        folders: &["bin"],
        may_use: &[BASE, CONTRACTS, SERVERS, &["region"]],
        must_not_use: &[SQL, HTTP_SERVERS],
        why: "the commands call the crates that do the work and hold no logic of their own",
    },
    Layer {
        folders: &["tools/test-support"],
        may_use: &[],
        must_not_use: &[SQL],
        why: "whatever is tested may use it, so it uses nothing of ours",
    },
    Layer {
        folders: &["tools/xtask"],
        may_use: &[BASE, CONTRACTS, SERVERS, &["region"]],
        must_not_use: &[],
        why: "generators may read every crate; nobody uses the generators",
    },
    Layer {
        folders: &["bench", "tests"],
        may_use: &[BASE, CONTRACTS, SERVERS, &["bin", "region", "tools/test-support"]],
        must_not_use: &[],
        why: "what measures and tests the whole may use all of it, except the tools that check it",
    },
];

/// A simulated service speaks its contract over a real port, so that whoever is tested against it cannot tell; it lives
/// with the contract, so that the two cannot part. Nobody but tests builds it.
pub(super) const TESTING: &[Testing] =
    &[Testing { folders: CONTRACTS, may_use: &[HTTP_SERVERS, &["base/pki"]] }];

/// What tests may use beyond their crate's layer. Anything else wants an argument first.
pub(super) const TEST_EDGES: &[TestEdge] = &[
    // Private servers, and waiting on conditions.
    TestEdge { from: "*", to: "tools/test-support" },
    TestEdge { from: "*/*", to: "tools/test-support" },
    TestEdge { from: "*/*/api", to: "tools/test-support" },
    // Whoever speaks to a Kubernetes API is tested against a live one.
    TestEdge { from: "base/work", to: "platform/kubeapi" },
    TestEdge { from: "platform/controllers", to: "platform/kubeapi" },
    TestEdge { from: "platform/kubelet", to: "platform/kubeapi" },
    TestEdge { from: "platform/virt", to: "platform/kubeapi" },
    TestEdge { from: "services/hypershift", to: "platform/kubeapi" },
    TestEdge { from: "services/maestro", to: "platform/kubeapi" },
    TestEdge { from: "services/mce", to: "platform/kubeapi" },
    // The same with an MQTT broker.
    TestEdge { from: "services/maestro", to: "platform/broker" },
    // What people do with nodes needs a whole cluster.
    TestEdge { from: "platform/kubelet", to: "platform/controllers" },
    // What the simulated Clusters Service signs is read back.
    TestEdge { from: "services/clusters-service/api", to: "base/pki" },
];
