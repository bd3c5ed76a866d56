use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

use pilothouse_pki::{Authority, AuthorityRequest, Bundle, Certificate, Error, Identity};

use crate::support::{DAY, authority, client_request, clock, server_request, subject};

#[test]
fn an_authority_read_back_signs_what_the_first_one_would_have() {
    let (clock, _) = clock();
    let first = authority("region", &clock);
    let pem = first.identity().chain_pem();
    let second = Authority::from_pem(pem.as_bytes(), first.identity().key().to_pem().as_bytes()).unwrap();
    let leaf = second.issue(&server_request(), &clock).unwrap();
    assert!(leaf.certificate().is_signed_by(first.certificate()));
    assert_eq!(leaf.certificate().names(), server_request().names());
    assert_eq!(leaf.certificate().usages(), server_request().usages());
}

#[test]
fn a_leaf_never_outlives_its_authority() {
    let (clock, hands) = clock();
    let request = AuthorityRequest::new(subject("region")).with_lifetime(10 * DAY);
    let top = Authority::self_signed(&request, &clock).unwrap();
    hands.advance(9 * DAY);
    let leaf = top.issue(&server_request(), &clock).unwrap();
    assert_eq!(leaf.certificate().not_after(), top.certificate().not_after());
    hands.advance(2 * DAY);
    let error = top.issue(&server_request(), &clock).unwrap_err();
    assert!(matches!(&error, Error::AuthorityExpired { name, .. } if name == "region"), "{error:?}");
}

#[test]
fn path_length_limits_how_many_authorities_stand_below() {
    let (clock, _) = clock();
    let leaves_only = authority("region", &clock);
    let error = leaves_only.intermediate(&AuthorityRequest::new(subject("below")), &clock).unwrap_err();
    assert_eq!(
        error.to_string(),
        "authority `region` has path length 0 and may not sign an authority with 0"
    );
    let request = AuthorityRequest::new(subject("top")).with_path_length(None);
    let unlimited = Authority::self_signed(&request, &clock).unwrap();
    unlimited.intermediate(&request, &clock).unwrap();
}

#[test]
fn a_leaf_is_not_taken_for_an_authority() {
    let (clock, _) = clock();
    let leaf = authority("region", &clock).issue(&server_request(), &clock).unwrap();
    let error = Authority::from_pem(leaf.chain_pem().as_bytes(), leaf.key().to_pem().as_bytes()).unwrap_err();
    assert!(matches!(error, Error::NotAnAuthority(_)));
    assert!(matches!(Bundle::from_pem(leaf.chain_pem().as_bytes()), Err(Error::NotAnAuthority(_))));
}

#[test]
fn certificate_and_key_of_different_pairs_are_refused() {
    let (clock, _) = clock();
    let top = authority("region", &clock);
    let one = top.issue(&client_request(), &clock).unwrap();
    let other = top.issue(&client_request(), &clock).unwrap();
    let error = Identity::from_pem(one.chain_pem().as_bytes(), other.key().to_pem().as_bytes()).unwrap_err();
    assert!(matches!(error, Error::KeyMismatch(of) if of == one.certificate().fingerprint()));
}

#[test]
fn serial_numbers_are_never_the_same() {
    let (clock, _) = clock();
    let top = authority("region", &clock);
    let serials: BTreeSet<_> = (0..50)
        .map(|_| top.issue(&client_request(), &clock).unwrap().certificate().serial().to_owned())
        .collect();
    assert_eq!(serials.len(), 50);
}

#[test]
fn files_hold_what_was_written_and_only_the_owner_reads_the_key() {
    let (clock, _) = clock();
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
    let identity = authority("region", &clock).issue(&server_request(), &clock).unwrap();
    identity.write(&certificate, &key).unwrap();
    let back = Identity::load(&certificate, &key).unwrap();
    assert_eq!(back.certificate(), identity.certificate());
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&certificate), mode(&key)), (0o644, 0o600));

    let missing = Identity::load(&certificate, &directory.path().join("none")).unwrap_err();
    assert!(matches!(missing, Error::File(_)));
}

#[test]
fn a_bundle_forgets_what_has_expired_and_tells() {
    let (clock, hands) = clock();
    let request = AuthorityRequest::new(subject("short")).with_lifetime(DAY);
    let short = Authority::self_signed(&request, &clock).unwrap();
    let long = authority("long", &clock);
    let mut bundle = Bundle::from(short.certificate());
    bundle.add(long.certificate().clone()).unwrap();
    assert_eq!(Bundle::from_pem(bundle.to_pem().as_bytes()).unwrap(), bundle);

    assert!(bundle.drop_expired(clock.now()).is_empty());
    hands.advance(2 * DAY);
    assert_eq!(bundle.drop_expired(clock.now()), [short.certificate().clone()]);
    assert_eq!(bundle.certificates(), [long.certificate().clone()]);
}

#[test]
fn a_certificate_changed_after_signing_is_not_signed_by_anybody() {
    let (clock, _) = clock();
    let top = authority("region", &clock);
    let leaf = top.issue(&server_request(), &clock).unwrap();
    let mut der = leaf.certificate().der().to_vec();
    let at = der.windows(8).position(|window| window == b"frontend").unwrap();
    der[at] = b'F';
    let forged = Certificate::from_der(der.into()).unwrap();
    assert_eq!(forged.subject().common_name(), "Frontend");
    assert!(leaf.certificate().is_signed_by(top.certificate()));
    assert!(!forged.is_signed_by(top.certificate()));
}
