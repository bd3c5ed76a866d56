//! Rotation, outages, and strangers who make us want keys.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::future::join_all;
use http::StatusCode;
use pilothouse_access::{Access, Config, ConfigError, Denial, Error, Fault, Jwt};
use pilothouse_http::{Listener, ListenerConfig, Metrics};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_test_support::eventually;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Rig, SigningKey, claims, identify};

/// Where an issuer publishes its keys.
#[derive(Clone, Default)]
struct Published {
    keys: Arc<Mutex<Vec<Value>>>,
    /// What it answers with; 0 is well.
    status: Arc<AtomicU16>,
    asked: Arc<AtomicUsize>,
}

async fn publish(State(published): State<Published>) -> Response {
    published.asked.fetch_add(1, Ordering::SeqCst);
    match published.status.load(Ordering::SeqCst) {
        0 => json!({ "keys": *published.keys.lock().unwrap() }).to_string().into_response(),
        status => StatusCode::from_u16(status).unwrap().into_response(),
    }
}

async fn serve(published: &Published, tasks: &Tasks) -> url::Url {
    let listener =
        Listener::bind("the issuer", &ListenerConfig::loopback(0), &Clock::system()).await.unwrap();
    let url = format!("http://{}/keys", listener.local_address()).parse().unwrap();
    let router = Router::new().route("/keys", get(publish)).with_state(published.clone());
    let own = tasks.clone();
    let metrics = Metrics::new(&mut Registry::default());
    tasks.spawn("issuer", OnExit::LogError, async move { listener.serve(router, metrics, &own).await });
    url
}

/// An issuer over HTTP whose keys may be read again after `pause` seconds.
async fn rig(pause: u64, tasks: &Tasks) -> (Rig, Published) {
    let mut rig = Rig::new();
    let published = Published::default();
    *published.keys.lock().unwrap() = vec![rig.key.public()];
    let jwt = rig.config.jwt.as_mut().unwrap();
    jwt.keys_file = None;
    jwt.keys_url = Some(serve(&published, tasks).await);
    jwt.keys_pause = std::time::Duration::from_secs(pause).into();
    (rig, published)
}

async fn stop(tasks: Tasks) {
    tasks.shutdown().request(Reason::Asked("the test is over".into()));
    tasks.drain(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_rotated_key_is_found_and_the_old_one_forgotten() {
    let tasks = Tasks::new("test", Shutdown::new());
    let (mut rig, published) = rig(0, &tasks).await;
    let access = rig.access();
    identify(&access, &rig.key.sign(&claims())).await.unwrap();
    assert_eq!(published.asked.load(Ordering::SeqCst), 1);
    identify(&access, &rig.key.sign(&claims())).await.unwrap();
    assert_eq!(published.asked.load(Ordering::SeqCst), 1, "known keys are not asked for");

    let second = SigningKey::new("second");
    *published.keys.lock().unwrap() = vec![second.public()];
    identify(&access, &second.sign(&claims())).await.unwrap();
    let refused = identify(&access, &rig.key.sign(&claims())).await.unwrap_err();
    assert_eq!(refused, Denial::Token(Fault::UnknownKey));
    stop(tasks).await;
}

#[tokio::test]
async fn strangers_do_not_make_us_hammer_the_issuer() {
    let tasks = Tasks::new("test", Shutdown::new());
    let (mut rig, published) = rig(3600, &tasks).await;
    let access = rig.access();
    identify(&access, &rig.key.sign(&claims())).await.unwrap();
    let strangers = (0..200).map(|number| {
        let (access, stranger) = (access.clone(), SigningKey::new(&format!("made-up-{number}")));
        async move { identify(&access, &stranger.sign(&claims())).await.unwrap_err() }
    });
    for refused in join_all(strangers).await {
        assert_eq!(refused, Denial::Token(Fault::UnknownKey));
    }
    assert_eq!(published.asked.load(Ordering::SeqCst), 1);
    assert!(rig.numbers().contains("access_key_reads_total 1\n"), "{}", rig.numbers());
    stop(tasks).await;
}

#[tokio::test]
async fn many_who_wait_for_the_first_keys_cause_one_call() {
    let tasks = Tasks::new("test", Shutdown::new());
    let (mut rig, published) = rig(0, &tasks).await;
    let access = rig.access();
    let token = rig.key.sign(&claims());
    let all = (0..50).map(|_| {
        let (access, token) = (access.clone(), token.clone());
        async move { identify(&access, &token).await }
    });
    for found in join_all(all).await {
        found.unwrap();
    }
    assert_eq!(published.asked.load(Ordering::SeqCst), 1);
    stop(tasks).await;
}

#[tokio::test]
async fn the_last_keys_stay_in_use_while_there_are_no_others() {
    let tasks = Tasks::new("test", Shutdown::new());
    let (mut rig, published) = rig(0, &tasks).await;
    let access = rig.access();
    published.status.store(500, Ordering::SeqCst);
    let token = rig.key.sign(&claims());
    // Nobody's fault among those who call: they may try again.
    let refused = identify(&access, &token).await.unwrap_err();
    assert_eq!(refused, Denial::KeysUnavailable);
    assert_eq!((refused.error().status(), refused.error().retry_after()), (503, Some(5)));

    published.status.store(0, Ordering::SeqCst);
    identify(&access, &token).await.unwrap();
    published.status.store(500, Ordering::SeqCst);
    let stranger = SigningKey::new("second").sign(&claims());
    assert_eq!(identify(&access, &stranger).await.unwrap_err(), Denial::Token(Fault::UnknownKey));
    identify(&access, &token).await.unwrap();
    // An empty set is an accident, not a rotation.
    published.status.store(0, Ordering::SeqCst);
    published.keys.lock().unwrap().clear();
    assert_eq!(identify(&access, &stranger).await.unwrap_err(), Denial::Token(Fault::UnknownKey));
    identify(&access, &token).await.unwrap();
    stop(tasks).await;
}

#[tokio::test]
async fn keys_are_read_again_by_age_without_anybody_asking() {
    let tasks = Tasks::new("test", Shutdown::new());
    let (mut rig, published) = rig(0, &tasks).await;
    rig.config.jwt.as_mut().unwrap().keys_age = std::time::Duration::from_millis(5).into();
    let access = rig.access();
    access.watch(&tasks);
    let second = SigningKey::new("second");
    eventually("the keys were read twice", PATIENCE, || async {
        match published.asked.load(Ordering::SeqCst) {
            0 | 1 => Err("not yet"),
            _ => Ok(()),
        }
    })
    .await;
    // A key that is withdrawn goes, though no token with another one came by.
    *published.keys.lock().unwrap() = vec![second.public()];
    eventually("the first key is forgotten", PATIENCE, || async {
        match identify(&access, &rig.key.sign(&claims())).await {
            Err(Denial::Token(Fault::UnknownKey)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    stop(tasks).await;
}

#[test]
fn keys_come_from_one_place_and_not_in_the_clear() {
    let jwt = |url: Option<&str>, file: Option<&str>| Jwt {
        keys_url: url.map(|url| url.parse().unwrap()),
        keys_file: file.map(Into::into),
        ..Jwt::with_keys_file("i", "a", "")
    };
    for (jwt, expected) in [
        (jwt(None, None), Some(ConfigError::KeysPlace)),
        (jwt(Some("https://i.test/k"), Some("k")), Some(ConfigError::KeysPlace)),
        (jwt(Some("http://i.test/k"), None), Some(ConfigError::KeysInTheClear("i.test".into()))),
        (jwt(Some("http://localhost/k"), None), Some(ConfigError::KeysInTheClear("localhost".into()))),
        (jwt(Some("https://i.test/k"), None), None),
        (jwt(Some("http://[::1]:80/k"), None), None),
        (jwt(None, Some("k")), None),
        (Jwt { issuer: " ".into(), ..jwt(None, Some("k")) }, Some(ConfigError::Empty("issuer"))),
    ] {
        let config = Config { jwt: Some(jwt.clone()), ..Config::default() };
        let found = match Access::build(config, Clock::system(), &mut Registry::default()) {
            Ok(_) => None,
            Err(Error::Config(error)) => Some(error),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(found, expected, "{jwt:?}");
    }
}
