//! Frontend and backend in one process, to be killed together.

use std::env;

use pilothouse_clusters_service_api as clusters_service;
use pilothouse_http::{ClientBuilder, Health, ListenerConfig};
use pilothouse_runtime::{Clock, OnExit, Shutdown, Tasks};
use pilothouse_store::{Options, Store};
use pilothouse_test_support::process;
use prometheus_client::registry::Registry;

use crate::bodies::LOCATION;
use crate::provider::LIMIT;

/// The test below, as the harness names it.
pub(super) const TEST: &str = "faults::provider::both_in_a_child_process";

/// Where the store is, where Clusters Service is, which ports to listen on, and how long a lease is, in this order.
pub(super) const VARIABLES: [&str; 5] = [
    "PILOTHOUSE_TEST_PROVIDER_STORE",
    "PILOTHOUSE_TEST_PROVIDER_CLUSTERS_SERVICE",
    "PILOTHOUSE_TEST_PROVIDER_PORT",
    "PILOTHOUSE_TEST_PROVIDER_ADMIN_PORT",
    "PILOTHOUSE_TEST_PROVIDER_LEASE",
];

/// Longer than any request of a life takes, so that everything that happens is an answer to something.
pub(super) const RESYNC: &str = "60s";

#[tokio::test(flavor = "multi_thread")]
async fn both_in_a_child_process() {
    if !process::is_child() {
        return;
    }
    let [store, service, port, admin_port, lease] = VARIABLES.map(|name| env::var(name).unwrap());
    let catalog = pilothouse_records::catalog().unwrap();
    let store = Store::open(Options::new(store.parse().unwrap(), catalog, Shutdown::new())).await.unwrap();
    let http = ClientBuilder::new(LIMIT).build().unwrap();
    let client = clusters_service::Client::try_new(http, &service.parse().unwrap()).unwrap();
    let shutdown = Shutdown::new();
    let tasks = Tasks::new("provider", shutdown.clone());

    let deps = pilothouse_backend::Deps {
        store: store.clone(),
        clusters_service: client.clone(),
        clock: Clock::system(),
        health: Health::new(shutdown.clone()),
        registry: &mut Registry::default(),
    };
    let config = pilothouse_backend::Config {
        lease: lease.parse().unwrap(),
        resync: RESYNC.parse().unwrap(),
        ..pilothouse_backend::Config::default()
    };
    let backend = pilothouse_backend::Service::build(config, deps).await.unwrap();
    let switch = shutdown.clone();
    tasks.spawn("backend", OnExit::StopProcess, async move { Ok(backend.run(switch).await?) });

    let deps = pilothouse_frontend::Deps {
        store,
        clusters_service: client,
        clock: Clock::system(),
        health: Health::new(shutdown.clone()),
        registry: &mut Registry::default(),
    };
    let admin = pilothouse_frontend::Admin {
        listener: ListenerConfig::loopback(admin_port.parse().unwrap()),
        access: Default::default(),
    };
    let config = pilothouse_frontend::Config {
        location: LOCATION.to_owned(),
        listener: ListenerConfig::loopback(port.parse().unwrap()),
        admin: Some(admin),
        ..pilothouse_frontend::Config::default()
    };
    let frontend = pilothouse_frontend::Service::build(config, deps).await.unwrap();
    // Until it is killed, or something goes wrong.
    let ended = frontend.run(shutdown.clone()).await;
    panic!("the provider ended by itself: {ended:?}, {:?}", shutdown.reason());
}
