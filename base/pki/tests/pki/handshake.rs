use pilothouse_pki::{Authority, AuthorityRequest, Bundle, KeyAlgorithm};
use rustls::{CertificateError, Error};

use crate::support::{DAY, Side, authority, client_request, clock, handshake, server_request, subject};

const NAME: &str = "api.first.pilothouse.test";

#[test]
fn both_sides_accept_each_other_under_every_name() {
    let (clock, _) = clock();
    let top = authority("region", &clock);
    let trusts = Bundle::from(top.certificate());
    let server = top.issue(&server_request(), &clock).unwrap();
    let client = top.issue(&client_request(), &clock).unwrap();
    let (client, server) =
        (Side { identity: &client, trusts: &trusts }, Side { identity: &server, trusts: &trusts });
    for name in [NAME, "127.0.0.1", "::1"] {
        let seen = handshake(&client, &server, name, &clock).unwrap();
        assert_eq!(seen.subject().common_name(), "ada");
        assert_eq!(seen.subject().organizations(), ["system:masters", "ops", "dev"]);
    }
    let error = handshake(&client, &server, "other.pilothouse.test", &clock).unwrap_err();
    assert!(
        matches!(error, Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })),
        "{error:?}"
    );
}

#[test]
fn a_certificate_of_another_authority_is_refused_by_either_side() {
    let (clock, _) = clock();
    // The same name on purpose: only the key tells them apart.
    let (ours, theirs) = (authority("region", &clock), authority("region", &clock));
    let trusts = Bundle::from(ours.certificate());
    let good_server = ours.issue(&server_request(), &clock).unwrap();
    let good_client = ours.issue(&client_request(), &clock).unwrap();
    let bad_server = theirs.issue(&server_request(), &clock).unwrap();
    let bad_client = theirs.issue(&client_request(), &clock).unwrap();
    for (client, server) in [(&good_client, &bad_server), (&bad_client, &good_server)] {
        let client = Side { identity: client, trusts: &trusts };
        let server = Side { identity: server, trusts: &trusts };
        let error = handshake(&client, &server, NAME, &clock).unwrap_err();
        assert!(matches!(error, Error::InvalidCertificate(_)), "{error:?}");
    }
}

#[test]
fn a_client_certificate_does_not_serve() {
    let (clock, _) = clock();
    let top = authority("region", &clock);
    let trusts = Bundle::from(top.certificate());
    let client = top.issue(&client_request().with_names([NAME.parse().unwrap()]), &clock).unwrap();
    let side = Side { identity: &client, trusts: &trusts };
    let error = handshake(&side, &side, NAME, &clock).unwrap_err();
    assert!(matches!(error, Error::InvalidCertificate(_)), "{error:?}");
}

#[test]
fn a_certificate_is_good_from_shortly_before_its_issue_until_its_end() {
    let (clock, hands) = clock();
    let issued = clock.now();
    let top = authority("region", &clock);
    let trusts = Bundle::from(top.certificate());
    let server = top.issue(&server_request().with_lifetime(DAY), &clock).unwrap();
    let client = top.issue(&client_request().with_lifetime(2 * DAY), &clock).unwrap();
    let (client, server) =
        (Side { identity: &client, trusts: &trusts }, Side { identity: &server, trusts: &trusts });
    let at = |offset: i64| {
        hands.set(issued + jiff::SignedDuration::from_secs(offset));
        handshake(&client, &server, NAME, &clock).map(drop)
    };
    assert_eq!(at(-299), Ok(()), "a peer whose clock is a little behind");
    assert!(matches!(
        at(-301),
        Err(Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }
        ))
    ));
    assert_eq!(at(86_399), Ok(()));
    assert!(matches!(
        at(86_401),
        Err(Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }))
    ));
}

#[test]
fn a_chain_through_an_intermediate_needs_only_the_top_to_be_known() {
    let (clock, _) = clock();
    let request = AuthorityRequest::new(subject("top")).with_path_length(Some(1));
    let top = Authority::self_signed(&request, &clock).unwrap();
    let middle = top.intermediate(&AuthorityRequest::new(subject("middle")), &clock).unwrap();
    let trusts = Bundle::from(top.certificate());
    let server = middle.issue(&server_request(), &clock).unwrap();
    let client = middle.issue(&client_request(), &clock).unwrap();
    assert_eq!(server.chain().count(), 2, "leaf and middle; the top is not sent");
    let (client, server) =
        (Side { identity: &client, trusts: &trusts }, Side { identity: &server, trusts: &trusts });
    handshake(&client, &server, NAME, &clock).unwrap();
}

#[test]
fn rsa_and_elliptic_keys_mix() {
    let (clock, _) = clock();
    let request = AuthorityRequest::new(subject("region")).with_key_algorithm(KeyAlgorithm::Rsa2048);
    let top = Authority::self_signed(&request, &clock).unwrap();
    let trusts = Bundle::from(top.certificate());
    let server = top.issue(&server_request().with_key_algorithm(KeyAlgorithm::Rsa3072), &clock).unwrap();
    let client = top.issue(&client_request(), &clock).unwrap();
    let (client, server) =
        (Side { identity: &client, trusts: &trusts }, Side { identity: &server, trusts: &trusts });
    handshake(&client, &server, NAME, &clock).unwrap();
}

#[test]
fn during_a_rotation_leaves_of_both_authorities_are_accepted_and_afterwards_only_new_ones() {
    let (clock, _) = clock();
    let (old, new) = (authority("region", &clock), authority("region", &clock));
    let mut trusts = Bundle::from(old.certificate());
    assert!(trusts.add(new.certificate().clone()).unwrap());
    assert!(!trusts.add(new.certificate().clone()).unwrap(), "twice is once");

    let old_server = old.issue(&server_request(), &clock).unwrap();
    let new_client = new.issue(&client_request(), &clock).unwrap();
    let shake = |trusts: &Bundle| {
        let client = Side { identity: &new_client, trusts };
        let server = Side { identity: &old_server, trusts };
        handshake(&client, &server, NAME, &clock)
    };
    shake(&trusts).unwrap();

    assert!(trusts.drop_authority(old.certificate().fingerprint()));
    assert!(!trusts.drop_authority(old.certificate().fingerprint()));
    shake(&trusts).unwrap_err();
}
