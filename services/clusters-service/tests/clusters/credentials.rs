//! Credentials of clusters' administrators, whatever falls in between.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::ByteString;
use pilothouse_clusters_service_api::{
    BreakGlassCredential, BreakGlassCredentialStatus as Status, Change, Cluster, ClusterId, ClusterState,
    Error, Event, ListQuery, NewBreakGlassCredential, properties,
};
use pilothouse_pki::{Authority, AuthorityRequest, Certificate, LeafRequest, SigningRequest, Subject};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::maestro::{denied_report, revocation_report, signed_report};
use crate::support::{PATIENCE, Running, World, context, new_cluster};

fn asked_by(operation: &str) -> NewBreakGlassCredential {
    NewBreakGlassCredential {
        properties: [(properties::OPERATION_ID.to_owned(), operation.to_owned())].into(),
        ..NewBreakGlassCredential::default()
    }
}

/// So many minutes later. The controller sleeps by the real clock, so it is woken: whoever subscribes anew looks at everything.
fn later(world: &World, minutes: u64) {
    world.time.advance(Duration::from_secs(minutes * 60));
    world.maestro.drop_subscribers();
}

async fn ready(world: &World, service: &Running) -> Cluster {
    world.maestro.play_agent();
    let cluster = service.create(&new_cluster("first")).await;
    service.until(&cluster.id, ClusterState::Ready).await
}

async fn until(service: &Running, credential: &BreakGlassCredential, status: Status) -> BreakGlassCredential {
    let (cluster, id) = (&credential.cluster_id, &credential.id);
    eventually("the credential is in its state", PATIENCE, || async {
        let found = service.client.break_glass_get(&context(), cluster, id).await.unwrap();
        if found.status == status { Ok(found) } else { Err(format!("{:?}: {}", found.status, found.message)) }
    })
    .await
}

fn credential_work(credential: &BreakGlassCredential) -> String {
    format!("{}-credential-{}", credential.cluster_id, credential.id)
}

/// The work that revokes the credentials of a cluster, once it is posted.
async fn revocation_work(world: &World, cluster: &ClusterId) -> String {
    let prefix = format!("{cluster}-revocation-");
    eventually("the revocation is posted", PATIENCE, || async {
        let names = world.maestro.names();
        names.iter().find(|name| name.starts_with(&prefix)).cloned().ok_or_else(|| format!("{names:?}"))
    })
    .await
}

async fn posted(world: &World, work: &str) -> Vec<Value> {
    eventually("the work is posted", PATIENCE, || async {
        let bundle = world.maestro.bundle(work).ok_or_else(|| format!("{:?}", world.maestro.names()))?;
        Ok::<_, String>(
            bundle.bundle.manifests[0]["spec"]["workload"]["manifests"].as_array().unwrap().clone(),
        )
    })
    .await
}

/// What a management cluster does with a request: signs what is in it.
fn sign(world: &World, request: &Value) -> (String, String) {
    let subject = Subject::try_new("signer").unwrap();
    let authority = Authority::self_signed(&AuthorityRequest::new(subject), &world.clock).unwrap();
    let text: ByteString = serde_json::from_value(request["spec"]["request"].clone()).unwrap();
    let asked = SigningRequest::from_pem(&text.0).unwrap();
    let granted =
        LeafRequest::client(asked.subject().clone()).with_lifetime(Duration::from_secs(24 * 60 * 60));
    let chain = authority.sign_request(&asked, &granted, &world.clock).unwrap();
    let text: String = chain.iter().map(Certificate::to_pem).collect();
    let certificate = serde_json::to_value(ByteString(text.into_bytes())).unwrap();
    (certificate.as_str().unwrap().to_owned(), authority.certificate().to_pem())
}

async fn issue(world: &World, service: &Running, cluster: &Cluster, operation: &str) -> BreakGlassCredential {
    let made =
        service.client.break_glass_create(&context(), &cluster.id, &asked_by(operation)).await.unwrap();
    let work = credential_work(&made);
    let manifests = posted(world, &work).await;
    let (certificate, authorities) = sign(world, &manifests[0]);
    world.maestro.report(&work, signed_report(&certificate, &authorities));
    until(service, &made, Status::Issued).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_never_leaves_and_what_is_signed_is_handed_out_for_a_day() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    let mut events: Pin<Box<dyn Stream<Item = Result<Event, Error>> + Send>> =
        Box::pin(service.client.watch(None).await.unwrap());

    let tried = service.client.break_glass_preflight(&context(), &cluster.id, &asked_by("a")).await.unwrap();
    assert_eq!(
        (tried.status, tried.username.as_str()),
        (Status::Created, "system:customer-break-glass:system-admin")
    );
    let made = service.client.break_glass_create(&context(), &cluster.id, &asked_by("a")).await.unwrap();
    let again = service.client.break_glass_create(&context(), &cluster.id, &asked_by("a")).await.unwrap();
    assert_eq!(made.id, again.id, "the same operation is the same credential");

    let work = credential_work(&made);
    let manifests = posted(&world, &work).await;
    assert!(!json!(manifests).to_string().contains("PRIVATE"), "{manifests:?}");
    let namespace = format!("ocm-local-{}-first", cluster.id);
    assert_eq!(manifests[0]["kind"], "CertificateSigningRequest");
    assert_eq!(
        manifests[0]["spec"]["signerName"],
        format!("hypershift.openshift.io/{namespace}-first.customer-break-glass")
    );
    assert_eq!(manifests[1]["kind"], "CertificateSigningRequestApproval");
    assert_eq!(manifests[1]["metadata"]["namespace"], namespace);
    assert_eq!(manifests[0]["metadata"]["name"], manifests[1]["metadata"]["name"]);

    let (certificate, authorities) = sign(&world, &manifests[0]);
    world.maestro.report(&work, signed_report(&certificate, &authorities));
    let issued = until(&service, &made, Status::Issued).await;
    let kubeconfig = issued.kubeconfig.expect("a kubeconfig");
    for part in
        ["server: https://127.0.0.1:9443", "tls-server-name: api.first.pilothouse.test", "client-key-data: "]
    {
        assert!(kubeconfig.expose().contains(part), "{part} is missing");
    }
    let expected = world.clock.now().checked_add(jiff::SignedDuration::from_hours(24)).unwrap();
    assert_eq!(issued.expiration_timestamp, Some(expected));
    // What was signed is here; the request goes, and nothing of it stays.
    eventually("the request is gone", PATIENCE, || async {
        if world.maestro.bundle(&work).is_none() {
            Ok(())
        } else {
            Err(format!("{:?}", world.maestro.names()))
        }
    })
    .await;

    let listed =
        service.client.break_glass_list(&context(), &cluster.id, &ListQuery::default()).await.unwrap();
    assert_eq!((listed.total, listed.items[0].kubeconfig.is_none()), (1, true));
    let mut told = Vec::new();
    while told.last() != Some(&Status::Issued) {
        let event = tokio::time::timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap();
        if let Change::BreakGlassCredential(_, credential) = event.change {
            assert!(credential.kubeconfig.is_none());
            told.push(credential.status);
        }
    }
    assert_eq!(told.first(), Some(&Status::Created));

    // Its time is over, and some time later it is forgotten.
    later(&world, 24 * 60);
    let expired = until(&service, &made, Status::Expired).await;
    assert!(expired.kubeconfig.is_none());
    // The controller notes the end first, and counts from there.
    later(&world, 25 * 60);
    eventually("it is forgotten", PATIENCE, || async {
        match service.client.break_glass_get(&context(), &cluster.id, &made.id).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_is_what_was_seen_refused_and_everything_survives_a_kill() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    let issued = issue(&world, &service, &cluster, "a").await;
    // One that is still waiting for its certificate.
    let waiting = service.client.break_glass_create(&context(), &cluster.id, &asked_by("b")).await.unwrap();
    posted(&world, &credential_work(&waiting)).await;

    service.client.break_glass_revoke_all(&context(), &cluster.id).await.unwrap();
    let gone = until(&service, &issued, Status::AwaitingRevocation).await;
    assert!(gone.kubeconfig.is_none(), "nobody is given it any more");
    let work = revocation_work(&world, &cluster.id).await;
    assert!(world.maestro.bundle(&credential_work(&waiting)).is_none(), "what was not signed goes first");
    let manifests = posted(&world, &work).await;
    assert_eq!(manifests[0]["kind"], "CertificateRevocationRequest");
    assert_eq!(manifests[0]["spec"], json!({"signerClass": "customer-break-glass"}));
    let refused =
        service.client.break_glass_create(&context(), &cluster.id, &asked_by("c")).await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");

    service.kill();
    let service = world.start().await;
    service.client.break_glass_revoke_all(&context(), &cluster.id).await.unwrap();
    world.maestro.report(&work, revocation_report("False"));
    eventually("it says what it waits for", PATIENCE, || async {
        let found = service.client.break_glass_get(&context(), &cluster.id, &issued.id).await.unwrap();
        let says = found.status == Status::AwaitingRevocation && found.message.contains("still lets in");
        if says { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    world.maestro.report(&work, revocation_report("True"));
    for credential in [&issued, &waiting] {
        let revoked = until(&service, credential, Status::Revoked).await;
        assert_eq!(revoked.revocation_timestamp, Some("2026-01-01T00:00:10Z".parse().unwrap()));
    }
    eventually("nothing is left of it", PATIENCE, || async {
        if world.maestro.bundle(&work).is_none() {
            Ok(())
        } else {
            Err(format!("{:?}", world.maestro.names()))
        }
    })
    .await;
    assert_eq!(world.maestro.created().keys().filter(|name| name.contains("-revocation-")).count(), 1);

    // Another one may be asked for, and revoked, again.
    let next = issue(&world, &service, &cluster, "d").await;
    service.client.break_glass_revoke_all(&context(), &cluster.id).await.unwrap();
    let work = revocation_work(&world, &cluster.id).await;
    world.maestro.report(&work, revocation_report("True"));
    until(&service, &next, Status::Revoked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_takes_too_long_says_so_and_keeps_nobody_out() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    let issued = issue(&world, &service, &cluster, "a").await;
    service.client.break_glass_revoke_all(&context(), &cluster.id).await.unwrap();
    let work = revocation_work(&world, &cluster.id).await;
    let refused =
        service.client.break_glass_create(&context(), &cluster.id, &asked_by("b")).await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");

    world.time.advance(Duration::from_secs(10 * 60));
    world.maestro.report(&work, revocation_report("False"));
    eventually("it says that it is overdue", PATIENCE, || async {
        let found = service.client.break_glass_get(&context(), &cluster.id, &issued.id).await.unwrap();
        let says = found.status == Status::AwaitingRevocation && found.message.starts_with("overdue; ");
        if says { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    issue(&world, &service, &cluster, "b").await;
    world.maestro.report(&work, revocation_report("True"));
    until(&service, &issued, Status::Revoked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_signed_fails_with_the_reason_and_goes_with_its_cluster() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    let subject = Subject::try_new("system:admin").unwrap();
    let key = pilothouse_pki::PrivateKey::generate(pilothouse_pki::KeyAlgorithm::default()).unwrap();
    let other = SigningRequest::write(&subject, [], &key).unwrap();
    let bad = NewBreakGlassCredential { certificate_signing_request: Some(other), ..asked_by("a") };
    let refusal = service.client.break_glass_preflight(&context(), &cluster.id, &bad).await.unwrap_err();
    assert!(
        refusal.is_invalid() && refusal.details()[0].target == "certificate_signing_request",
        "{refusal}"
    );

    let denied = service.client.break_glass_create(&context(), &cluster.id, &asked_by("b")).await.unwrap();
    let work = credential_work(&denied);
    posted(&world, &work).await;
    world.maestro.report(&work, denied_report("the organizations are wrong"));
    let denied = until(&service, &denied, Status::Failed).await;
    assert!(denied.message.contains("the organizations are wrong"), "{}", denied.message);

    let late = service.client.break_glass_create(&context(), &cluster.id, &asked_by("c")).await.unwrap();
    posted(&world, &credential_work(&late)).await;
    later(&world, 11);
    let late = until(&service, &late, Status::Failed).await;
    assert!(late.message.contains("request another"), "{}", late.message);

    let last = service.client.break_glass_create(&context(), &cluster.id, &asked_by("d")).await.unwrap();
    posted(&world, &credential_work(&last)).await;
    service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    service.until_gone(&cluster.id).await;
    assert_eq!(world.maestro.names(), [""; 0]);
    let missing = service.client.break_glass_get(&context(), &cluster.id, &last.id).await.unwrap_err();
    assert!(missing.is_not_found());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_into_what_does_not_answer() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    let refused =
        service.client.break_glass_preflight(&context(), &cluster.id, &asked_by("a")).await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
    service.client.break_glass_revoke_all(&context(), &cluster.id).await.unwrap();
    let none = service.client.break_glass_list(&context(), &cluster.id, &ListQuery::default()).await.unwrap();
    assert_eq!(none.total, 0);
    world.maestro.play_agent();
    service.until(&cluster.id, ClusterState::Ready).await;
    assert!(
        !world.maestro.created().keys().any(|name| name.contains("-revocation-")),
        "nobody was ever let in"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signer_is_replaced_though_nothing_that_it_signed_is_known_and_whoever_asks_waits_for_the_new_one()
{
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    for _ in 0..2 {
        service.client.break_glass_revoke_all(&context(), &cluster.id).await.unwrap();
    }
    let work = revocation_work(&world, &cluster.id).await;
    let made = service.client.break_glass_create(&context(), &cluster.id, &asked_by("a")).await.unwrap();
    eventually("it waits for the new signer", PATIENCE, || async {
        let found = service.client.break_glass_get(&context(), &cluster.id, &made.id).await.unwrap();
        if found.message.contains("signer to be replaced") { Ok(()) } else { Err(found.message) }
    })
    .await;
    assert!(world.maestro.bundle(&credential_work(&made)).is_none(), "the old signer is not asked");
    assert_eq!(world.maestro.created().keys().filter(|name| name.contains("-revocation-")).count(), 1);

    world.maestro.report(&work, revocation_report("True"));
    let manifests = posted(&world, &credential_work(&made)).await;
    let (certificate, authorities) = sign(&world, &manifests[0]);
    world.maestro.report(&credential_work(&made), signed_report(&certificate, &authorities));
    until(&service, &made, Status::Issued).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_is_good_for_as_long_as_it_is_asked_for_and_no_other_time_is_taken() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    let in_minutes = |minutes: u64| {
        let end = world.clock.now().checked_add(Duration::from_secs(minutes * 60)).unwrap();
        NewBreakGlassCredential { expiration_timestamp: Some(end), ..asked_by(&minutes.to_string()) }
    };
    for wrong in [0, 9, 24 * 60 + 1] {
        let refused = service.client.break_glass_create(&context(), &cluster.id, &in_minutes(wrong)).await;
        let refused = refused.unwrap_err();
        assert!(refused.is_invalid() && refused.details()[0].target == "expiration_timestamp", "{refused:?}");
        assert!(refused.details()[0].message.contains("from 2026-01-01T00:10:00Z to 2026-01-02T00:00:00Z"));
    }
    for minutes in [10, 60, 24 * 60] {
        let new = in_minutes(minutes);
        let made = service.client.break_glass_create(&context(), &cluster.id, &new).await.unwrap();
        let manifests = posted(&world, &credential_work(&made)).await;
        assert_eq!(manifests[0]["spec"]["expirationSeconds"], minutes * 60);
    }
    // A day is what it is without.
    let made = service.client.break_glass_create(&context(), &cluster.id, &asked_by("a")).await.unwrap();
    let manifests = posted(&world, &credential_work(&made)).await;
    assert_eq!(manifests[0]["spec"]["expirationSeconds"], 24 * 60 * 60);
}
