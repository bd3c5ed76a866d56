//! Carrying out a plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::try_join_all;
use futures::try_join;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use pilothouse_crds::{Machine, PlatformType, VirtualMachine};
use pilothouse_informer::ObjectKey;
use serde_json::json;
use tracing::info;

use super::NodePools;
use super::bootstrap_token::{self, Token};
use super::fleet::{self, Hosted, Member};
use super::machine::UPDATING;
use super::plan::Action;
use super::template::Template;
use crate::apply;
use crate::error::{Error, has_reason, is_missing};
use crate::names;

impl NodePools {
    /// Makes sure of everything a worker reads, and that its cluster lets it in. Gives back the token.
    pub(super) async fn ensure_user_data(
        &self,
        template: &Template<'_>,
        hosted: &Hosted,
        joining: bool,
    ) -> Result<Token, Error> {
        let now = self.clock.now();
        let cached = self.cached_secret(template, &template.token_name());
        let known = cached.as_deref().and_then(Token::read).filter(|token| token.is_good(now));
        let fresh = known.is_none();
        let token = known.unwrap_or_else(|| Token::draw(now));
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), template.namespace);
        let desired = template.token(&token);
        let keep = async {
            match cached {
                Some(cached) => apply::ensure(&secrets, Some(cached), &desired).await,
                None => apply::ensure_exists(&secrets, &desired).await,
            }
        };
        let (kept, (), ()) = try_join!(
            keep,
            self.ensure_user_data_secret(template, &token),
            self.introduce(template, hosted, &token, fresh || joining),
        )?;
        // The cache was behind: somebody had drawn one before.
        match Token::read(&kept).filter(|kept| *kept != token && kept.is_good(now)) {
            None => Ok(token),
            Some(kept) => {
                try_join!(
                    self.ensure_user_data_secret(template, &kept),
                    self.introduce(template, hosted, &kept, true),
                )?;
                Ok(kept)
            }
        }
    }

    async fn ensure_user_data_secret(&self, template: &Template<'_>, token: &Token) -> Result<(), Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), template.namespace);
        let desired = template.user_data(token)?;
        let cached = self.cached_secret(template, &template.user_data_name());
        apply::ensure(&secrets, cached, &desired).await?;
        Ok(())
    }

    fn cached_secret(&self, template: &Template<'_>, name: &str) -> Option<Arc<Secret>> {
        self.caches.secrets.get(&ObjectKey::namespaced(template.namespace, name))
    }

    /// Makes a token known to the hosted cluster, unless it was and nobody needs it now.
    async fn introduce(
        &self,
        template: &Template<'_>,
        hosted: &Hosted,
        token: &Token,
        needed: bool,
    ) -> Result<(), Error> {
        if !needed && self.introduced.lock().get(template.key) == Some(&token.hosted_name()) {
            return Ok(());
        }
        let secrets: Api<Secret> = Api::namespaced(hosted.client.clone(), bootstrap_token::NAMESPACE);
        match secrets.create(&PostParams::default(), &token.hosted(&template.key.name)).await {
            Ok(_) => {
                info!(pool = %template.key, token = token.hosted_name(), "nodes may join by a new token")
            }
            Err(error) if has_reason(&error, "AlreadyExists") => {}
            Err(error) => {
                return Err(Error::Hosted {
                    cluster: template.cluster.to_string(),
                    action: format!("create Secret {}", token.hosted_name()),
                    source: error.into(),
                });
            }
        }
        self.introduced.lock().insert(template.key.clone(), token.hosted_name());
        Ok(())
    }

    /// Makes the records of new workers.
    pub(super) async fn create_machines(
        &self,
        template: &Template<'_>,
        actions: &[Action],
    ) -> Result<Vec<Arc<Machine>>, Error> {
        let machines: Api<Machine> = Api::namespaced(self.client.clone(), template.namespace);
        let created = actions.iter().filter_map(|action| match action {
            Action::Create(name) => Some(name),
            _ => None,
        });
        let created = created.map(async |name| {
            info!(pool = %template.key, worker = name, "making a worker");
            apply::ensure_exists(&machines, &template.machine(name)?).await
        });
        try_join_all(created).await
    }

    /// Makes what machines run on, where it is missing.
    pub(super) async fn ensure_running(
        &self,
        template: &Template<'_>,
        machines: impl IntoIterator<Item = Arc<Machine>>,
    ) -> Result<(), Error> {
        let made = machines.into_iter().map(async |machine| {
            match template.platform() {
                PlatformType::KubeVirt => {
                    let api: Api<VirtualMachine> = Api::namespaced(self.client.clone(), template.namespace);
                    apply::ensure_exists(&api, &template.virtual_machine(&machine)?).await?;
                }
                _ => {
                    let api: Api<Pod> = Api::namespaced(self.client.clone(), template.namespace);
                    apply::ensure_exists(&api, &template.pod(&machine)).await?;
                }
            }
            Ok::<(), Error>(())
        });
        try_join_all(made).await?;
        Ok(())
    }

    /// Asks machines to go, or to change.
    pub(super) async fn begin(&self, template: &Template<'_>, actions: &[Action]) -> Result<(), Error> {
        let machines: Api<Machine> = Api::namespaced(self.client.clone(), template.namespace);
        for action in actions {
            match action {
                Action::Create(_) => {}
                Action::Delete(worker) => {
                    info!(pool = %template.key, worker, "removing a worker");
                    apply::ensure_deleted(&machines, worker, &DeleteParams::default()).await?;
                }
                Action::Update(worker) => {
                    info!(pool = %template.key, worker, "changing a worker in place");
                    let since = self.clock.now().to_string();
                    let patch = json!({ "metadata": { "annotations": { UPDATING: since } } });
                    machines
                        .patch(worker, &PatchParams::default(), &Patch::Merge(patch))
                        .await
                        .map_err(|error| Error::management("change", format!("Machine {worker}"), error))?;
                }
            }
        }
        Ok(())
    }

    /// Says on each worker's pod which addresses its own pods have: only its node knows, and the node around it has to route
    /// there.
    pub(super) async fn announce_ranges(&self, namespace: &str, members: &[Member]) -> Result<(), Error> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        for member in members {
            let (Some(node), Some(pod)) = (&member.node, &member.pod) else { continue };
            let range = node.spec.as_ref().and_then(|spec| spec.pod_cidr.as_deref());
            let Some(range) = range.filter(|_| pod.metadata.deletion_timestamp.is_none()) else { continue };
            if names::annotation(&pod.metadata, names::POD_RANGE) == Some(range) {
                continue;
            }
            let name = pod.name_any();
            let patch =
                json!({ "metadata": { "annotations": { names::POD_RANGE: range }, "uid": pod.uid() } });
            match pods.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => {}
                Err(error) if is_missing(&error) => {}
                Err(error) => {
                    return Err(Error::management("annotate", format!("pod {namespace}/{name}"), error));
                }
            }
        }
        Ok(())
    }

    /// Removes the nodes that nobody has a machine for; the scheduler would go on counting on them.
    pub(super) async fn forget_strangers(
        &self,
        key: &ObjectKey,
        cluster: &ObjectKey,
        namespace: &str,
        members: &[Member],
        hosted: &Hosted,
    ) -> Result<(), Error> {
        let machines: Api<Machine> = Api::namespaced(self.client.clone(), namespace);
        let is_known = |node: &Arc<Node>| members.iter().any(|member| member.name() == node.name_any());
        for node in fleet::nodes(key, hosted).into_iter().filter(|node| !is_known(node)) {
            // Asked: the cache may be behind what was made a moment ago.
            let found = machines.get_opt(&node.name_any()).await;
            let found =
                found.map_err(|error| Error::management("show the machine of", node.name_any(), error))?;
            if found.is_none() {
                self.forget_node(cluster, hosted, &node).await?;
            }
        }
        Ok(())
    }

    /// Removes the pods that no machine has: workers of an earlier version of this operator.
    pub(super) async fn dismiss_strangers(&self, key: &ObjectKey, namespace: &str) -> Result<(), Error> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        for pod in self.caches.pods.list_in(namespace) {
            let own = names::node_pool_of(&pod.metadata).as_ref() == Some(key);
            if own && pod.owner_references().is_empty() && pod.metadata.deletion_timestamp.is_none() {
                info!(pool = %key, pod = pod.name_any(), "removing a worker that no machine has");
                apply::ensure_deleted(&pods, &pod.name_any(), &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    /// Removes the Secrets that no worker reads any more.
    pub(super) async fn drop_secrets(
        &self,
        key: &ObjectKey,
        namespace: &str,
        kept: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        for secret in self.caches.secrets.list_in(namespace) {
            let name = secret.name_any();
            if !kept.contains(&name) && names::node_pool_of(&secret.metadata).as_ref() == Some(key) {
                apply::ensure_deleted(&secrets, &name, &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    /// Takes the tokens of a pool back that goes, as far as its cluster answers.
    pub(super) async fn revoke(&self, key: &ObjectKey, namespace: &str, hosted: Option<&Hosted>) {
        self.introduced.lock().remove(key);
        let Some(hosted) = hosted else { return };
        let api: Api<Secret> = Api::namespaced(hosted.client.clone(), bootstrap_token::NAMESPACE);
        let secrets = self.caches.secrets.list_in(namespace).into_iter();
        let own = secrets.filter(|secret| names::node_pool_of(&secret.metadata).as_ref() == Some(key));
        for token in own.filter_map(|secret| Token::read(&secret)) {
            // It ends by itself.
            let _ = api.delete(&token.hosted_name(), &DeleteParams::default()).await;
        }
    }
}
