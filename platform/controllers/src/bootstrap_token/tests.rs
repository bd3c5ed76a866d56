use k8s_openapi::ByteString;

use super::*;

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn secret(changes: &[(&str, &str)]) -> Secret {
    let mut data = BTreeMap::from([
        ("token-id", "abcdef"),
        ("token-secret", "0123456789abcdef"),
        ("usage-bootstrap-signing", "true"),
    ]);
    data.extend(changes.iter().copied());
    let data = data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())));
    Secret {
        metadata: ObjectMeta { name: Some("bootstrap-token-abcdef".to_owned()), ..ObjectMeta::default() },
        data: Some(data.collect()),
        type_: Some(TYPE.to_owned()),
        ..Secret::default()
    }
}

#[test]
fn signature_is_that_of_other_implementations() {
    let text = "Hello from the other side. I must have called a thousand times.";
    let expected = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8";
    assert_eq!(signature("joshua", "my voice is my passcode", text), expected);
}

#[test]
fn only_a_token_in_force_that_says_so_signs() {
    assert_eq!(signing(&secret(&[]), now()), Some(("abcdef", "0123456789abcdef")));
    assert!(signing(&secret(&[("expiration", "2026-11-15T12:00:01Z")]), now()).is_some());
    for odd in [
        ("expiration", "2026-11-15T12:00:00Z"),
        ("expiration", "tomorrow"),
        ("usage-bootstrap-signing", "false"),
        ("token-id", "bcdefg"),
        ("token-secret", ""),
    ] {
        assert_eq!(signing(&secret(&[odd]), now()), None, "{odd:?}");
    }
    assert_eq!(end_of(&secret(&[])), None, "it has no end");
    assert_eq!(end_of(&secret(&[("expiration", "tomorrow")])), Some(Timestamp::MIN));
}

#[test]
fn introduction_is_made_once_and_carries_a_signature_for_every_token() {
    let text = introduction("https://api:6443", "pem");
    let token = ("abcdef", "0123456789abcdef");
    let Plan::Create(data) = plan(None, Some(&text), &[token]) else { panic!("not created") };
    assert_eq!(data.keys().collect::<Vec<_>>(), ["jws-kubeconfig-abcdef", "kubeconfig"]);
    assert_eq!(plan(None, None, &[token]), Plan::Nothing);

    let map = |data: &BTreeMap<String, String>, ours: bool| {
        let labels = ours.then(|| BTreeMap::from([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())]));
        let metadata = ObjectMeta { labels, ..ObjectMeta::default() };
        ConfigMap { metadata, data: Some(data.clone()), ..ConfigMap::default() }
    };
    assert_eq!(plan(Some(&map(&data, true)), Some(&text), &[token]), Plan::Nothing);
    // The token is gone, and its signature with it.
    let Plan::Replace(unsigned) = plan(Some(&map(&data, true)), Some(&text), &[]) else { panic!("kept") };
    assert_eq!(unsigned.keys().collect::<Vec<_>>(), ["kubeconfig"]);
    // Only what we made is corrected.
    let moved = introduction("https://elsewhere:6443", "pem");
    let Plan::Replace(corrected) = plan(Some(&map(&data, true)), Some(&moved), &[token]) else {
        panic!("not corrected")
    };
    assert_eq!(corrected[KUBECONFIG], moved);
    assert_ne!(corrected["jws-kubeconfig-abcdef"], data["jws-kubeconfig-abcdef"]);
    assert_eq!(plan(Some(&map(&data, false)), Some(&moved), &[token]), Plan::Nothing);
}
