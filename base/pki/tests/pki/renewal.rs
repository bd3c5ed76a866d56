use std::collections::BTreeSet;

use pilothouse_pki::{KeyAlgorithm, LeafRequest, RenewalReason, Usage, Wanted};

use crate::support::{DAY, authority, client_request, clock, server_request, subject};

#[test]
fn renewal_is_spread_over_a_fifth_of_the_lifetime_and_never_moves() {
    let (clock, _) = clock();
    let top = authority("region", &clock);
    let request = client_request().with_lifetime(10 * DAY);
    let mut instants = BTreeSet::new();
    for _ in 0..60 {
        let certificate = top.issue(&request, &clock).unwrap().certificate().clone();
        let at = certificate.renew_at();
        assert_eq!(at, certificate.renew_at());
        let lifetime = certificate.not_after().duration_since(certificate.not_before()).as_secs_f64();
        let share = at.duration_since(certificate.not_before()).as_secs_f64() / lifetime;
        assert!((0.599..0.801).contains(&share), "{share}");
        instants.insert(at);
    }
    assert!(instants.len() > 30, "only {} different instants", instants.len());
    let width = instants.last().unwrap().duration_since(*instants.first().unwrap());
    assert!(width.as_hours() > 24, "a fleet would renew within {width:?}");
}

#[test]
fn a_certificate_that_says_what_is_wanted_is_kept_until_it_is_due() {
    let (clock, hands) = clock();
    let top = authority("region", &clock);
    let request = server_request();
    let leaf = top.issue(&request, &clock).unwrap();
    let certificate = leaf.certificate();
    let wanted = Wanted { request: &request, authority: top.certificate() };
    assert_eq!(certificate.needs_renewal(clock.now(), wanted), None);

    let since = certificate.renew_at();
    hands.set(since);
    assert_eq!(certificate.needs_renewal(clock.now(), wanted), Some(RenewalReason::Due { since }));
    hands.advance(7 * DAY);
    assert_eq!(
        certificate.needs_renewal(clock.now(), wanted),
        Some(RenewalReason::Expired { at: certificate.not_after() })
    );
}

#[test]
fn every_difference_to_what_is_wanted_is_named() {
    let (clock, _) = clock();
    let (top, other) = (authority("region", &clock), authority("region", &clock));
    let request = server_request();
    let leaf = top.issue(&request, &clock).unwrap();
    let reason = |request: &LeafRequest| {
        let wanted = Wanted { request, authority: top.certificate() };
        leaf.certificate().needs_renewal(clock.now(), wanted).unwrap().to_string()
    };
    let replaced = LeafRequest::server(
        subject("frontend"),
        ["api.second.pilothouse.test", "127.0.0.1", "::1", "spiffe://region/frontend"]
            .map(|name| name.parse().unwrap()),
    );
    assert_eq!(
        reason(&replaced),
        "its names differ (missing: api.second.pilothouse.test; surplus: api.first.pilothouse.test)"
    );
    assert_eq!(
        reason(&LeafRequest::server(subject("backend"), request.names().clone())),
        "it is about `CN=frontend` instead of `CN=backend`"
    );
    assert_eq!(reason(&request.clone().with_usage(Usage::Client)), "it should be good for: server, client");
    assert_eq!(
        reason(&request.clone().with_key_algorithm(KeyAlgorithm::Rsa2048)),
        "its key should be RSA 2048"
    );
    let wanted = Wanted { request: &request, authority: other.certificate() };
    assert_eq!(
        leaf.certificate().needs_renewal(clock.now(), wanted).unwrap().to_string(),
        "it is not signed by the present authority `region`"
    );
}

#[test]
fn groups_in_another_order_are_the_same_groups() {
    let (clock, _) = clock();
    let top = authority("region", &clock);
    let leaf = top.issue(&client_request(), &clock).unwrap();
    let shuffled =
        LeafRequest::client(subject("ada").with_organizations(["dev", "ops", "system:masters"]).unwrap());
    let wanted = Wanted { request: &shuffled, authority: top.certificate() };
    assert_eq!(leaf.certificate().needs_renewal(clock.now(), wanted), None);
}
