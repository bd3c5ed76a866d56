//! The resource provider and Clusters Service of a region, whatever their processes are, asked by `curl`.

use std::process::Command;

use pilothouse_test_support::eventually;
use pilothouse_test_support::requirement::Requirement;
use serde_json::{Value, json};

use crate::region::{LIMIT, Region};

pub(crate) const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000001";

/// Where they are.
pub(crate) struct Provider {
    pub(crate) frontend: String,
    pub(crate) clusters_service: String,
}

/// `curl` with these arguments: the status, and the body as JSON.
pub(crate) fn curl(arguments: &[&str]) -> Result<(u16, Value), String> {
    let program = Requirement::new("curl", "curl").find().ok_or("curl is missing")?;
    let output = Command::new(program)
        .args(["-s", "--max-time", "10", "-w", "\n%{http_code}"])
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let (body, status) = text.rsplit_once('\n').ok_or_else(|| format!("curl said {text:?}"))?;
    Ok((status.parse().map_err(|_| text.to_string())?, serde_json::from_str(body).unwrap_or_default()))
}

// === impl Provider ===

impl Provider {
    /// A request to the frontend. The status is 0 if there was no answer.
    pub(crate) fn arm(&self, method: &str, id: &str, body: Option<&Value>) -> (u16, Value) {
        let url = format!("{}{id}?api-version=2026-10-01", self.frontend);
        let body = body.map(Value::to_string);
        let mut arguments = vec!["-X", method, &url];
        if let Some(body) = &body {
            arguments.extend(["-H", "Content-Type: application/json", "-d", body]);
        }
        curl(&arguments).unwrap()
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
        let url = format!("{}/api/clusters_mgmt/v1/clusters?size=500", self.clusters_service);
        let (status, found) = curl(&[&url]).unwrap();
        assert_eq!(status, 200, "{found}");
        found["items"].as_array().unwrap().clone()
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
        Provider { frontend: endpoints.frontend, clusters_service: endpoints.clusters_service }
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
