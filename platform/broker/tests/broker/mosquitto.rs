//! The clients of the broker everybody else compares with.

use std::process::Stdio;
use std::time::Duration;

use pilothouse_test_support::eventually;
use pilothouse_test_support::requirement::Requirement;
use tokio::process::Command;

use crate::support::{Broker, LIMIT};

const PUBLISH: Requirement = Requirement::new("mosquitto_pub", "mosquitto-clients");
const SUBSCRIBE: Requirement = Requirement::new("mosquitto_sub", "mosquitto-clients");

#[tokio::test]
async fn mosquitto_clients_hear_each_other_with_properties_in_order() {
    let (Some(publish), Some(subscribe)) = (PUBLISH.find(), SUBSCRIBE.find()) else { return };
    let broker = Broker::start().await;
    let port = broker.address.port().to_string();
    let common = ["-h", "127.0.0.1", "-p", &port, "-V", "mqttv5", "-q", "1"];
    let subscriber = Command::new(subscribe)
        .args(common)
        .args(["-t", "a/+", "-C", "1", "-F", "%t|%C|%P|%p"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    eventually("the subscription stands", LIMIT, || async {
        let metrics = broker.metrics();
        if metrics.contains("subscriptions 1") { Ok(()) } else { Err(metrics) }
    })
    .await;
    let published = Command::new(publish)
        .args(common)
        .args(["-t", "a/b", "-m", "hello"])
        .args(["-D", "publish", "content-type", "application/json"])
        .args(["-D", "publish", "user-property", "ce-b", "1"])
        .args(["-D", "publish", "user-property", "ce-a", "2"])
        .args(["-D", "publish", "user-property", "ce-b", "3"])
        .status();
    let published = tokio::time::timeout(Duration::from_secs(20), published).await.unwrap().unwrap();
    assert!(published.success());
    let output = tokio::time::timeout(LIMIT, subscriber.wait_with_output()).await.unwrap().unwrap();
    let heard = String::from_utf8(output.stdout).unwrap();
    assert_eq!(heard.trim_end(), "a/b|application/json|ce-b:1 ce-a:2 ce-b:3|hello");
}
