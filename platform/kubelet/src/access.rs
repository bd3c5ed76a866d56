//! Who may ask this node for something.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use pilothouse_http::{Peer, PeerIdentity};
use tokio::time::Instant;

/// How long an answer is believed. A no is asked for again sooner: somebody may have just been given the right.
const BELIEVED: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];
/// More answers than this are not kept: there are few who ask a node directly.
const MOST: usize = 256;

/// Decides about callers.
pub(crate) struct Access {
    client: kube::Client,
    node: String,
    /// The names of the API server, who decided already.
    trusted: Vec<String>,
    known: Mutex<HashMap<Question, (Instant, bool)>>,
}

type Question = (String, Vec<String>, &'static str);

impl Access {
    pub(crate) fn new(client: kube::Client, node: String, trusted: Vec<String>) -> Self {
        Self { client, node, trusted, known: Mutex::default() }
    }

    /// # Errors
    ///
    /// With what to tell a caller who may not.
    pub(crate) async fn allows(&self, peer: Option<&Peer>, method: &Method) -> Result<(), String> {
        let Some(peer) = peer.and_then(Peer::identity) else {
            return Err("Forbidden: show a certificate of this cluster".to_owned());
        };
        if self.trusted.iter().any(|name| name == peer.common_name()) {
            return Ok(());
        }
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "get",
        };
        let refused = || {
            format!("Forbidden (user={}, verb={verb}, resource=nodes, subresource=proxy)", peer.common_name())
        };
        match self.ask(peer, verb).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(refused()),
            Err(error) => Err(format!("{}: the API server could not be asked: {error}", refused())),
        }
    }

    async fn ask(&self, peer: &PeerIdentity, verb: &'static str) -> Result<bool, kube::Error> {
        let question = (peer.common_name().to_owned(), peer.organizations().to_vec(), verb);
        let known = self.lock().get(&question).copied();
        if let Some((since, allowed)) = known
            && since.elapsed() < BELIEVED[usize::from(allowed)]
        {
            return Ok(allowed);
        }
        let mut groups = question.1.clone();
        groups.push("system:authenticated".to_owned());
        let attributes = ResourceAttributes {
            verb: Some(verb.to_owned()),
            version: Some("v1".to_owned()),
            resource: Some("nodes".to_owned()),
            subresource: Some("proxy".to_owned()),
            name: Some(self.node.clone()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(question.0.clone()),
            groups: Some(groups),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviewed = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        let allowed = reviewed.status.is_some_and(|status| status.allowed);
        let mut known = self.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(question, (Instant::now(), allowed));
        Ok(allowed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Question, (Instant, bool)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
