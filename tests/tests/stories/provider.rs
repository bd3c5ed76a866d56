//! The services of a region, whatever their processes are, asked by `curl`.

use std::process::Command;
use std::time::Duration;

use pilothouse_arm::dns::region_zone;
use pilothouse_test_support::eventually;
use pilothouse_test_support::requirement::Requirement;
use serde_json::{Value, json};

use crate::region::{LIMIT, Region};

pub(crate) const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000001";

/// Where they are.
#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) frontend: String,
    pub(crate) clusters_service: String,
    pub(crate) maestro: String,
    pub(crate) cloud: String,
    /// Below which clusters have their names.
    pub(crate) domain: &'static str,
    /// How `curl` shows that it is the backend, where that has to be shown.
    pub(crate) as_backend: Vec<String>,
    /// The same for Clusters Service.
    pub(crate) as_clusters_service: Vec<String>,
}

/// How long an answer may take. Whoever stands still, in a story that wants it so, is noticed only after that.
const ANSWER: Duration = Duration::from_secs(10);

/// `curl` with these arguments: the status, and the body as JSON.
pub(crate) fn curl(arguments: &[&str]) -> Result<(u16, Value), String> {
    curl_within(ANSWER, arguments)
}

fn curl_within(limit: Duration, arguments: &[&str]) -> Result<(u16, Value), String> {
    let program = Requirement::new("curl", "curl").find().ok_or("curl is missing")?;
    let output = Command::new(program)
        .args(["-s", "--max-time", &limit.as_secs().to_string(), "-w", "\n%{http_code}"])
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let (body, status) = text.rsplit_once('\n').ok_or_else(|| format!("curl said {text:?}"))?;
    Ok((status.parse().map_err(|_| text.to_string())?, serde_json::from_str(body).unwrap_or_default()))
}

/// What is there to read, for somebody with these credentials.
fn read(url: &str, credentials: &[String]) -> Result<Value, String> {
    let credentials = credentials.iter().map(String::as_str);
    let (status, found) = curl(&credentials.chain([url]).collect::<Vec<_>>())?;
    if status == 200 { Ok(found) } else { Err(format!("{url}: {status} {found}")) }
}

// === impl Provider ===

impl Provider {
    /// A request to the frontend. The status is 0 if there was no answer.
    pub(crate) fn arm(&self, method: &str, id: &str, body: Option<&Value>) -> (u16, Value) {
        self.arm_within(ANSWER, method, id, body)
    }

    /// The same of somebody who waits longer: one of many who ask at once.
    pub(crate) fn arm_within(
        &self,
        limit: Duration,
        method: &str,
        id: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let url = format!("{}{id}?api-version=2026-10-01", self.frontend);
        let body = body.map(Value::to_string);
        let mut arguments = vec!["-X", method, &url];
        if let Some(body) = &body {
            arguments.extend(["-H", "Content-Type: application/json", "-d", body]);
        }
        curl_within(limit, &arguments).unwrap()
    }

    /// Says that the subscription may be used.
    pub(crate) fn register(&self) {
        let registration =
            json!({ "state": "Registered", "registrationDate": "Sun, 15 Nov 2026 10:00:00 GMT" });
        let (status, answer) =
            self.arm("PUT", &format!("/subscriptions/{SUBSCRIPTION}"), Some(&registration));
        assert_eq!(status, 200, "{answer}");
    }

    /// Waits until a resource has this state.
    pub(crate) async fn reaches(&self, id: &str, state: &str) {
        eventually(&format!("{id} is {state}"), LIMIT, || {
            let (status, body) = self.arm("GET", id, None);
            let found = body["properties"]["provisioningState"] == state;
            async move { if found { Ok(()) } else { Err(format!("{status} {body}")) } }
        })
        .await;
    }

    pub(crate) async fn is_gone(&self, id: &str) {
        eventually(&format!("{id} is gone"), LIMIT, || {
            let (status, body) = self.arm("GET", id, None);
            async move { if status == 404 { Ok(()) } else { Err(format!("{status} {body}")) } }
        })
        .await;
    }

    /// Everything that Clusters Service has.
    pub(crate) fn clusters(&self) -> Vec<Value> {
        self.try_clusters().unwrap()
    }

    pub(crate) fn try_clusters(&self) -> Result<Vec<Value>, String> {
        let url = format!("{}/api/clusters_mgmt/v1/clusters?size=500", self.clusters_service);
        let found = read(&url, &self.as_backend)?;
        Ok(found["items"].as_array().unwrap().clone())
    }

    /// How many bundles Maestro keeps.
    pub(crate) fn bundles(&self) -> Result<u64, String> {
        let bundles =
            read(&format!("{}/api/maestro/v1/resource-bundles", self.maestro), &self.as_clusters_service)?;
        Ok(bundles["total"].as_u64().unwrap())
    }

    /// The resource groups of the cloud.
    pub(crate) fn resource_groups(&self) -> Result<Vec<String>, String> {
        let url =
            format!("{}/subscriptions/{SUBSCRIPTION}/resourcegroups?api-version=2021-04-01", self.cloud);
        let groups = read(&url, &self.as_clusters_service)?;
        Ok(groups["value"].as_array().unwrap().iter().map(|group| group["name"].to_string()).collect())
    }

    /// Where the region's zone says that names are somebody else's: a delegation for each cluster.
    fn delegations(&self) -> Result<Vec<String>, String> {
        let zone = region_zone(self.domain);
        let found =
            read(&format!("{}{zone}/NS?api-version=2018-05-01", self.cloud), &self.as_clusters_service)?;
        Ok(found["value"].as_array().unwrap().iter().map(|record| record["name"].to_string()).collect())
    }

    /// A cluster is there, and nobody has it twice, neither these services nor the management cluster that `kubectl` asks.
    pub(crate) fn only_once(
        &self,
        name: &str,
        kubectl: impl FnOnce(&[&str]) -> Result<String, String>,
    ) -> Result<(), String> {
        let known: Vec<_> = self.try_clusters()?.iter().map(|cluster| cluster["name"].to_string()).collect();
        let (groups, delegations) = (self.resource_groups()?, self.delegations()?);
        let hosted = kubectl(&["get", "hostedclusters", "-A", "-o", "jsonpath={.items[*].metadata.name}"])?;
        let one = format!("{name:?}");
        let once = known == [one.as_str()]
            && groups.len() == 1
            && delegations == [one.as_str()]
            && hosted.split(' ').eq([name]);
        if once { Ok(()) } else { Err(format!("{known:?}, {groups:?}, {delegations:?}, {hosted}")) }
    }

    /// Nobody knows a cluster any more, neither these services nor the management cluster that `kubectl` asks.
    pub(crate) fn nothing_left(
        &self,
        kubectl: impl FnOnce(&[&str]) -> Result<String, String>,
    ) -> Result<(), String> {
        let (clusters, bundles, groups) = (self.try_clusters()?, self.bundles()?, self.resource_groups()?);
        let delegations = self.delegations()?;
        let kinds = "hostedclusters,nodepools,managedclusters,manifestworks,appliedmanifestworks,routes,namespaces,persistentvolumeclaims,persistentvolumes";
        let objects = kubectl(&["get", kinds, "-A", "-o", "name"])?;
        let objects: Vec<_> = objects
            .lines()
            .filter(|object| !object.starts_with("namespace/") || object.starts_with("namespace/ocm-"))
            // The management cluster itself, where somebody asked for an engine.
            .filter(|object| !object.ends_with("/local-cluster"))
            .collect();
        let nothing = clusters.is_empty()
            && bundles == 0
            && groups.is_empty()
            && delegations.is_empty()
            && objects.is_empty();
        if nothing {
            Ok(())
        } else {
            Err(format!("{clusters:?}, {bundles} bundles, {groups:?}, {delegations:?}, {objects:?}"))
        }
    }
}

// === impl Region ===

impl Region {
    pub(crate) fn cluster_id(name: &str) -> String {
        format!(
            "/subscriptions/{SUBSCRIPTION}/resourceGroups/first/providers/Microsoft.RedHatOpenshift/hcpOpenShiftClusters/{name}"
        )
    }

    pub(crate) fn provider(&self) -> Provider {
        let endpoints = self.endpoints();
        Provider {
            frontend: endpoints.frontend,
            clusters_service: endpoints.clusters_service,
            maestro: endpoints.maestro,
            cloud: endpoints.cloud,
            domain: "pilothouse.test",
            as_backend: Vec::new(),
            as_clusters_service: Vec::new(),
        }
    }

    /// A request to the frontend.
    pub(crate) fn arm(&self, method: &str, id: &str, body: Option<&Value>) -> (u16, Value) {
        self.provider().arm(method, id, body)
    }

    /// Waits until a resource has this state.
    pub(crate) async fn reaches(&self, id: &str, state: &str) {
        self.provider().reaches(id, state).await;
    }

    pub(crate) async fn is_gone(&self, id: &str) {
        self.provider().is_gone(id).await;
    }

    /// Everything that Clusters Service has.
    pub(crate) fn clusters_service_clusters(&self) -> Vec<Value> {
        self.provider().clusters()
    }
}
