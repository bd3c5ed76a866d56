//! Whatever state a cluster is in, it says in words what is waited for.

use super::*;

/// Looks, and answers the state with its words. What is to be done is not done yet.
fn look(model: &mut Model) -> (ClusterState, String) {
    let plan = model.plan();
    model.cluster = plan.cluster;
    let status = &model.cluster.cluster.status;
    (status.state, status.description.clone())
}

/// Does what is to be done; nobody reports on it.
fn act(model: &mut Model) {
    for action in model.plan().actions {
        model.act(action);
    }
    model.bundles.values_mut().for_each(|bundle| bundle.status = None);
}

#[test]
fn a_cluster_says_at_every_step_what_is_waited_for() {
    let mut model = Model::new();
    let id = model.cluster.cluster.id.to_string();
    let mut said = Vec::new();
    said.push(look(&mut model));
    act(&mut model);
    act(&mut model);
    said.push(look(&mut model));
    let missing = [
        text("ValidConfiguration-Status", "False"),
        text("ValidConfiguration-Reason", "MissingReference"),
        text("ValidConfiguration-Message", "Secret s does not exist"),
    ];
    model.report(&id, nested("HostedCluster", &missing));
    said.push(look(&mut model));
    let starting = [text("Available-Status", "False"), text("Available-Message", "no replica is ready")];
    model.report(&id, nested("HostedCluster", &starting));
    said.push(look(&mut model));
    let managed = model.bundles[&format!("{id}-managed")].content.manifests[0].clone();
    model.report(&id, nested("HostedCluster", &[text("Available-Status", "True")]));
    said.push(look(&mut model));
    model.bundles.get_mut(&format!("{id}-managed")).unwrap().status =
        Some(serde_json::from_value(works(&managed)).unwrap());
    said.push(look(&mut model));
    model.report(&id, nested("HostedCluster", &starting));
    said.push(look(&mut model));
    model.lost = Some("its management cluster `a` has not answered since noon");
    said.push(look(&mut model));
    model.lost = None;

    model.cluster.deletion = Some(Deletion { requested_at: model.now });
    for _ in 0..2 {
        said.push(look(&mut model));
        act(&mut model);
    }
    said.push(look(&mut model));
    model.now = plus(model.now, Duration::from_secs(24 * 3600));
    said.push(look(&mut model));

    let expected = [
        (
            ClusterState::Pending,
            "step 5: preparing resource group `m` with DNS zone, load balancer, identities",
        ),
        (ClusterState::Installing, "step 7: waiting for the management cluster to apply the manifests"),
        (
            ClusterState::Installing,
            "step 9: waiting for what the hosted control plane is made from: ValidConfiguration is False: Secret s does not \
             exist",
        ),
        (
            ClusterState::Installing,
            "step 9: waiting for the hosted control plane: Available is False: no replica is ready",
        ),
        (ClusterState::Installing, "step 10: waiting for the ManagedCluster: it has not been looked at yet"),
        (ClusterState::Ready, "the control plane answers"),
        (
            ClusterState::Ready,
            "it was ready before; step 9: waiting for the hosted control plane: Available is False: no replica is ready",
        ),
        (
            ClusterState::Ready,
            "it was ready before; step 9: its management cluster `a` has not answered since noon; waiting for the hosted \
             control plane: Available is False: no replica is ready",
        ),
        (ClusterState::Uninstalling, "waiting for node pool `workers` to go"),
        (ClusterState::Uninstalling, "waiting for the management cluster to remove the hosted control plane"),
        (ClusterState::Uninstalling, "deleting resource group `m`"),
        (ClusterState::Uninstalling, "overdue; deleting resource group `m`"),
    ];
    let expected: Vec<_> = expected.map(|(state, words)| (state, words.to_owned())).into();
    assert_eq!(said, expected);
}
