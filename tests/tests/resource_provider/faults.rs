//! Killed between any two writes, the work ends the same way, once.
//!
//! On PostgreSQL frontend and backend are processes of their own over one store, and one of them is killed; on SQLite,
//! which one process has for itself, they are one process. A first life of a cluster, with everything that can be below it,
//! tells which points the process passes for each request (`pilothouse_runtime::fault`). Then there is a life for every
//! point: in each request the process kills itself there, another one is started, and what comes of it is what would have
//! come of it anyway.
//!
//! Nothing is left to chance. Clusters Service stands still until what it was asked for is written down, so each request has
//! the same writes in every life, and a point that was passed once and is not passed again is a failure. Only renewals go by
//! the clock ([`RENEWALS`]): whoever is to die at one is kept waiting until it comes.

mod provider;
mod site;
mod step;

use std::collections::HashMap;

use pilothouse_clusters_service_api::simulated::Mode;
use pilothouse_test_support::process::Running;
use pilothouse_test_support::{Engine, eventually};

use self::site::{Site, Victim, died};
use self::step::{LIFE, Step};
use crate::provider::LIMIT;

/// What a client does that was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    AsksAgain,
    /// For ever: what was stored comes about without it, and what was not stored leaves no trace.
    GoesAway,
}

/// Passings that come by themselves as long as there is work under way.
const RENEWALS: [&str; 2] = ["store.lease.renew.before:1", "store.lease.renew.after:1"];

/// A passing of a point, as the variable names it.
type Passing = String;

/// Lives a life in which nobody is killed, and tells what the process passes for each request.
async fn traced_life(site: &Site, name: &str) -> HashMap<Step, Vec<Passing>> {
    let mut passings = HashMap::new();
    let mut calm = site.start_calm().await;
    for step in LIFE {
        site.prepare(step, name).await;
        site.until_quiet().await;
        calm.kill();
        calm = site.start_calm().await;
        site.clusters_service.set_mode(Mode::Explicit);
        site.ask(step, name).await;
        eventually(&format!("{step:?} of {name} is asked for"), LIMIT, || async {
            if site.is_asked(step, name).await { Ok(()) } else { Err("not yet") }
        })
        .await;
        site.clusters_service.set_mode(Mode::Automatic);
        site.until_done(step, name, true).await;
        let trace = site.until_quiet().await;
        let mut counts = HashMap::<&str, usize>::new();
        let numbered = trace.iter().map(|point| {
            let count = counts.entry(point).or_default();
            *count += 1;
            format!("{point}:{count}")
        });
        let mut numbered: Vec<_> = numbered.collect();
        if counts_leases(&trace) {
            numbered.extend(RENEWALS.map(str::to_owned));
        }
        passings.insert(step, numbered);
    }
    passings
}

fn counts_leases(trace: &[String]) -> bool {
    trace.iter().any(|point| point.starts_with("store.lease."))
}

/// Lives a life in which every request that has an n-th passing is cut off there.
async fn life(site: &Site, passings: &HashMap<Step, Vec<Passing>>, number: usize, client: Client) {
    let name = format!("life{number}");
    let mut calm = site.start_calm().await;
    for step in LIFE {
        let Some(passing) = passings[&step].get(number) else {
            site.prepare(step, &name).await;
            site.ask(step, &name).await;
            site.until_done(step, &name, true).await;
            continue;
        };
        site.prepare(step, &name).await;
        site.until_quiet().await;
        let before = site.seen(step, &name).await;
        calm.kill();
        site.clusters_service.set_mode(Mode::Explicit);
        let mut doomed = site.start_doomed(passing).await;
        let answered = site.ask_once(step, &name).await;
        meets_its_end(site, &mut doomed, step, &name, passing).await;
        site.clusters_service.set_mode(Mode::Automatic);
        calm = site.start_calm().await;
        // Who speaks of subscriptions does so until somebody answers.
        let goes_away = client == Client::GoesAway && step != Step::SubscriptionDelete;
        let forgotten = goes_away && !answered && !site.is_stored(step, &name).await;
        if forgotten {
            assert_eq!(site.seen(step, &name).await, before, "{step:?} of {name}, cut off at {passing}");
        }
        // Whoever was not answered asks again; or nothing is there, and somebody else asks for the first time.
        if !answered && (!goes_away || forgotten) {
            site.ask(step, &name).await;
        }
        site.until_done(step, &name, answered || goes_away).await;
    }
    site.until_quiet().await;
    calm.kill();
}

/// Turns the crank until the process has killed itself.
async fn meets_its_end(site: &Site, doomed: &mut Running, step: Step, name: &str, passing: &str) {
    let what = format!("{step:?} of {name} is cut off at {passing}");
    eventually(&what, LIMIT, || {
        let dead = died(doomed);
        async move {
            if dead {
                return Ok(());
            }
            if !RENEWALS.contains(&passing) && site.is_asked(step, name).await {
                site.clusters_service.set_mode(Mode::Automatic);
            }
            Err("it lives")
        }
    })
    .await;
}

async fn killed_everywhere(engine: Engine, victim: Victim, expected: usize, client: Client) {
    let Some(site) = Site::new(engine, victim).await else { return };
    let _other = site.start_other().await;
    let passings = traced_life(&site, "traced").await;
    let all: usize = passings.values().map(Vec::len).sum();
    assert_eq!(all, expected, "{passings:?}");
    let longest = passings.values().map(Vec::len).max().unwrap_or_default();
    for number in 0..longest {
        life(&site, &passings, number, client).await;
    }
    assert!(site.clusters_service.clusters().is_empty());
    assert_eq!(site.clusters_service.most_at_once_of_any(), 1, "never two at the same cluster");
}

/// For each request: taking the work and giving it back, asking for it, writing that down, writing down its end, and
/// renewing, each before and after. Of the four deletions it is also written down that they are under way.
const OF_BACKEND: usize = 12 * LIFE.len() + 2 * 4;
/// The one transaction of each request, before and after, and two more for a subscription.
const OF_FRONTEND: usize = 2 * LIFE.len() + 4;

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_killed_between_any_two_writes_is_followed_by_one_that_ends_the_work() {
    Box::pin(killed_everywhere(Engine::Postgres, Victim::Backend, OF_BACKEND, Client::AsksAgain)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frontend_killed_between_any_two_writes_has_taken_the_request_or_not() {
    Box::pin(killed_everywhere(Engine::Postgres, Victim::Frontend, OF_FRONTEND, Client::AsksAgain)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_client_never_comes_back_comes_about_or_leaves_nothing() {
    Box::pin(killed_everywhere(Engine::Postgres, Victim::Frontend, OF_FRONTEND, Client::GoesAway)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_in_one_process_killed_between_any_two_writes_goes_on_where_it_was() {
    let all = OF_BACKEND + OF_FRONTEND;
    Box::pin(killed_everywhere(Engine::Sqlite, Victim::Both, all, Client::AsksAgain)).await;
}
