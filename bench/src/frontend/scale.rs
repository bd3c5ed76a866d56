//! Whether a store with many clusters makes anything slower: two providers, asked in turns.

use http::StatusCode;
use pilothouse_clusters_service_api::simulated::Simulated;
use tokio::time::Instant;

use super::body::{Place, populate};
use super::load::{Connection, Request};
use super::provider::Provider;
use crate::harness::{Budget, Figure, Folder, Program, Progress, Report, Samples, Size, in_turns};

/// Times that each thing is done in a round.
const REPEATS: usize = 100;
/// From one subscription to the next; has nothing in common with how many there are.
const STRIDE: usize = 617;
/// Rounds differ by so much on a machine with two processors; growth with the store would be a factor of hundreds.
const EQUAL: f64 = 1.5;

/// What is done.
#[derive(Clone, Copy, Debug)]
enum What {
    Get,
    GetAnywhere,
    ListPage,
    Create,
}

pub(super) async fn measure(
    program: &Program,
    folder: &Folder,
    clusters_service: &Simulated,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    // One hundred in all, and as many in each subscription.
    let (few, many) = ((1, 100), (size.pick(1_000, 10), 100));
    Progress.say("filling two stores");
    let start = Instant::now();
    populate(folder, "few", few.0, few.1).await?;
    populate(folder, "many", many.0, many.1).await?;
    let total = many.0 * many.1;
    report.condition("clusters in the large store", format!("{total} in {} subscriptions", many.0));
    report.figure(
        Figure::new("scale, filling the stores", start.elapsed().as_secs_f64(), "s")
            .note(format!("{total} clusters, 100 in a transaction; for orientation")),
    );
    let few = (Provider::start(program, folder, "few", clusters_service).await?, "few", few.0);
    let many = (Provider::start(program, folder, "many", clusters_service).await?, "many", many.0);
    for (what, name) in [
        (What::Get, "GET"),
        (What::GetAnywhere, "GET, never asked for before"),
        (What::ListPage, "list, one page"),
        (What::Create, "PUT of a new cluster"),
    ] {
        let rounds = size.pick(10, 2);
        let compared = in_turns(
            rounds,
            async |round| median(&many, what, round).await,
            async |round| median(&few, what, round).await,
        )
        .await?;
        let mut figure = Figure::new(format!("scale, {name}, {total} clusters / 100"), compared.ratio(), "×");
        // What was not asked for lately is read from the database, whatever else is in it; of a hundred, all are at hand.
        if !matches!(what, What::GetAnywhere) {
            figure = figure.budget(Budget::AtMost(EQUAL));
        }
        report.figure(figure.note(format!(
            "{}; medians of {REPEATS}, one connection: {:.2} and {:.2} ms",
            compared.spread(),
            compared.first.median(),
            compared.second.median()
        )));
    }
    few.0.stop();
    many.0.stop();
    Ok(())
}

/// Does one thing again and again; milliseconds. Of a provider: what it is called, and how many subscriptions it has.
async fn median(
    (provider, store, subscriptions): &(Provider, &str, usize),
    what: What,
    round: usize,
) -> anyhow::Result<f64> {
    // The one subscription that both stores have.
    let place = Place::new(1);
    let mut connection = Connection::open(provider.address()).await?;
    let mut samples = Samples::default();
    for number in 0..REPEATS {
        let (request, expected) = match what {
            What::Get => (Request::get(&place.cluster(number)), StatusCode::OK),
            What::GetAnywhere => {
                let anywhere = Place::new(1 + (round * REPEATS + number) * STRIDE % subscriptions);
                (Request::get(&anywhere.cluster(number)), StatusCode::OK)
            }
            What::ListPage => (Request::get(&place.clusters()), StatusCode::OK),
            What::Create => {
                // Both providers have the same Clusters Service, where names are taken once.
                let name = format!("{store}-{round}-{number}");
                (Request::put(&place.cluster_named(&name), &place.body(&name)), StatusCode::CREATED)
            }
        };
        let start = Instant::now();
        let answer = connection.call(&request).await?;
        samples.push_milliseconds(start.elapsed());
        anyhow::ensure!(
            answer.status == expected,
            "{}: {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        );
    }
    Ok(samples.median())
}
