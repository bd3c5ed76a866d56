"""The life of a subscription's resources, told with Azure's SDK: made, read, listed, changed, used, deleted.

    life.py BASE_URL SUBSCRIPTION LOCATION

No polling interval is given to the SDK anywhere: pollers have to end by themselves, in the time the provider asks for.
"""

import sys

from azure.core.exceptions import ResourceNotFoundError
from azure.mgmt.redhatopenshifthcp import models

import credential
from provider import (
    NAMESPACE,
    PLAIN,
    cluster,
    cluster_id,
    connect,
    details,
    expect,
    expect_equal,
    external_auth,
    node_pool,
    numbers,
    refused,
    say,
)

GROUP, OTHER_GROUP = "first", "second"
NAME = "ada"
# More than one page, and in two groups.
OTHERS = 23
OLDEST_OF_POOLS = [4, 20, 8]


class Life:
    def __init__(self, base_url, subscription, location):
        self.client = connect(base_url, subscription)
        self.subscription = subscription
        self.location = location
        self.id = cluster_id(subscription, GROUP, NAME)

    def run(self):
        self.catalogue()
        self.cluster_is_made()
        self.others_are_made_and_listed_by_page()
        self.cluster_is_changed()
        self.mistakes_are_refused()
        self.node_pools()
        self.external_auths()
        self.credentials()
        self.everything_is_deleted()

    def catalogue(self):
        say("the catalogue")
        operations = [operation.name for operation in self.client.operations.list(**PLAIN)]
        expect(f"{NAMESPACE}/hcpOpenShiftClusters/write".lower() in [name.lower() for name in operations], "an operation", operations)

        versions = list(self.client.hcp_open_shift_versions.list(self.location, **PLAIN))
        usable = [version for version in versions if version.properties.enabled and version.name.startswith("4.20.")]
        stable = [version for version in usable if version.properties.channel_group == "stable"]
        expect(stable, "a stable version of 4.20 that is enabled", [version.name for version in versions])
        # Pools take an exact version, not newer than their cluster's, which nobody can choose: the oldest that pools can have.
        self.version = min((one.name for one in stable if numbers(one.name) >= OLDEST_OF_POOLS), key=numbers)
        one = self.client.hcp_open_shift_versions.get(self.location, self.version, **PLAIN)
        expect_equal((one.name, one.properties.channel_group), (self.version, "stable"), "a version that is read")
        expect_equal(one.type.lower(), f"{NAMESPACE}/locations/hcpOpenShiftVersions".lower(), "its type")

        roles = list(self.client.hcp_operator_identity_role_sets.list(self.location, **PLAIN))
        expect(roles, "role sets", roles)
        one = self.client.hcp_operator_identity_role_sets.get(self.location, roles[0].name, **PLAIN)
        names = [operator.name for operator in one.properties.control_plane_operators]
        expect("cluster-api-azure" in names, "the roles of an operator that is always needed", names)
        for operator in one.properties.control_plane_operators + one.properties.data_plane_operators:
            expect(operator.required in ("Always", "OnEnablement"), "whether a role is required", operator)
            expect(operator.role_definitions[0].resource_id, "a role definition", operator)

    def cluster_is_made(self):
        say("a cluster is made")
        clusters = self.client.hcp_open_shift_clusters
        refused(lambda: clusters.get(GROUP, NAME, **PLAIN), 404, "ResourceNotFound", self.id)
        body = cluster(self.subscription, GROUP, NAME, self.location)
        body.tags = {"owner": "ada"}
        poller = clusters.begin_create_or_update(GROUP, NAME, body, **PLAIN)
        made = poller.result()
        expect_equal(poller.status(), "Succeeded", "the poller")
        expect_equal((made.id.lower(), made.name), (self.id.lower(), NAME), "what was made")
        expect_equal(made.type.lower(), f"{NAMESPACE}/hcpOpenShiftClusters".lower(), "its type")
        expect_equal((made.location, made.tags), (self.location, {"owner": "ada"}), "location and tags")
        properties = made.properties
        expect_equal(properties.provisioning_state, "Succeeded", "its state")
        # What was not said.
        network = properties.network
        defaults = (network.network_type, network.pod_cidr, network.service_cidr, network.machine_cidr, network.host_prefix)
        wanted = ("OVNKubernetes", "10.128.0.0/14", "172.30.0.0/16", "10.0.0.0/16", 23)
        expect_equal(defaults, wanted, "the network")
        scaling = properties.autoscaling
        expect_equal((scaling.max_pod_grace_period_seconds, scaling.pod_priority_threshold), (600, -10), "autoscaling")
        expect_equal((properties.api.visibility, properties.ingress.type), ("Public", "Public"), "visibility")
        expect_equal(properties.node_drain_timeout_minutes, 0, "the drain timeout")
        expect_equal(properties.cluster_image_registry.state, "Enabled", "the image registry")
        expect(properties.platform.managed_resource_group, "a managed resource group", properties.platform)
        # What the service found.
        expect(properties.api.url.startswith("https://"), "where its API is", properties.api.url)
        expect(properties.dns.base_domain_prefix, "a domain prefix", properties.dns)
        expect(made.system_data.created_at, "when it was made", made.system_data)
        again = clusters.get(GROUP, NAME, **PLAIN)
        expect_equal(again.as_dict(), made.as_dict(), "the cluster, read")

        say("the same request again changes nothing")
        again = clusters.begin_create_or_update(GROUP, NAME, body, **PLAIN).result()
        expect_equal(again.properties.as_dict(), made.properties.as_dict(), "the cluster")

    def others_are_made_and_listed_by_page(self):
        say(f"{OTHERS} more are made at once, and listed by page")
        clusters = self.client.hcp_open_shift_clusters
        pollers = []
        for number in range(OTHERS):
            group, name = (GROUP, OTHER_GROUP)[number % 2], f"other-{number}"
            body = cluster(self.subscription, group, name, self.location)
            pollers.append(clusters.begin_create_or_update(group, name, body, **PLAIN))
        for poller in pollers:
            expect_equal(poller.result().properties.provisioning_state, "Succeeded", "one of many")
        pages = [list(page) for page in clusters.list_by_subscription(**PLAIN).by_page()]
        expect_equal([len(page) for page in pages], [20, OTHERS + 1 - 20], "the pages")
        names = [one.name for page in pages for one in page]
        wanted = sorted([NAME] + [f"other-{number}" for number in range(OTHERS)])
        expect_equal(sorted(names), wanted, "the clusters of the subscription")
        again = [one.name for one in clusters.list_by_subscription(**PLAIN)]
        expect_equal(again, names, "the order of a list")
        group = sorted(one.name for one in clusters.list_by_resource_group(OTHER_GROUP, **PLAIN))
        expect_equal(group, sorted(f"other-{number}" for number in range(1, OTHERS, 2)), "the clusters of a group")
        expect_equal(list(clusters.list_by_resource_group("nobody", **PLAIN)), [], "the clusters of no group")

    def cluster_is_changed(self):
        say("a cluster is changed")
        clusters = self.client.hcp_open_shift_clusters
        change = models.HcpOpenShiftCluster({"tags": {"purpose": "life"}})
        changed = clusters.begin_update(GROUP, NAME, change, **PLAIN).result()
        expect_equal(changed.tags, {"purpose": "life"}, "the tags, which are replaced as a whole")

        change = models.HcpOpenShiftCluster(
            {"properties": {"nodeDrainTimeoutMinutes": 30, "autoscaling": {"maxNodesTotal": 100}}}
        )
        poller = clusters.begin_update(GROUP, NAME, change, **PLAIN)
        changed = poller.result()
        expect_equal(poller.status(), "Succeeded", "the poller")
        seen = changed.properties
        expect_equal(seen.provisioning_state, "Succeeded", "the state")
        expect_equal(seen.node_drain_timeout_minutes, 30, "the drain timeout")
        scaling = (seen.autoscaling.max_nodes_total, seen.autoscaling.max_pod_grace_period_seconds)
        expect_equal(scaling, (100, 600), "autoscaling, of which one part was changed")
        expect_equal(changed.tags, {"purpose": "life"}, "the tags, of which nothing was said")

    def mistakes_are_refused(self):
        say("mistakes are refused")
        clusters = self.client.hcp_open_shift_clusters

        def put(name, **changes):
            body = cluster(self.subscription, GROUP, name, self.location)
            for path, value in changes.items():
                target = body
                *parents, last = path.split("__")
                for parent in parents:
                    target = target[parent]
                target[last] = value
            return lambda: clusters.begin_create_or_update(GROUP, name, body, **PLAIN)

        refused(put("not_a_name"), 400, "InvalidRequestContent", "id")
        wrong = put("mistake", properties__network={"hostPrefix": 12})
        refused(wrong, 400, "InvalidRequestContent", "properties.network.hostPrefix")
        wrong = put("mistake", properties__network={"hostPrefix": 12}, properties__nodeDrainTimeoutMinutes=-1)
        error = refused(wrong, 400, "MultipleErrorsOccurred")
        wanted = [
            ("InvalidRequestContent", "properties.network.hostPrefix"),
            ("InvalidRequestContent", "properties.nodeDrainTimeoutMinutes"),
        ]
        expect_equal(details(error), wanted, "all that is wrong")
        refused(lambda: clusters.get(GROUP, "mistake", **PLAIN), 404, "ResourceNotFound")
        change = models.HcpOpenShiftCluster({"tags": {"any": "one"}})
        absent = cluster_id(self.subscription, GROUP, "absent")
        refused(lambda: clusters.begin_update(GROUP, "absent", change, **PLAIN), 404, "ResourceNotFound", absent)
        pools = self.client.node_pools
        body = node_pool(self.location, self.version, replicas=2)
        refused(lambda: pools.begin_create_or_update(GROUP, "absent", "workers", body, **PLAIN), 404, "ResourceNotFound", absent)
        # What is absent is as good as deleted.
        expect_equal(clusters.begin_delete(GROUP, "absent", **PLAIN).result(), None, "deleting nothing")

    def node_pools(self):
        say("node pools are made, listed, changed and deleted")
        pools = self.client.node_pools
        body = node_pool(
            self.location,
            self.version,
            replicas=2,
            labels=[models.Label(key="tier", value="web")],
            taints=[models.Taint(key="dedicated", value="web", effect="NoSchedule")],
        )
        poller = pools.begin_create_or_update(GROUP, NAME, "workers", body, **PLAIN)
        made = poller.result()
        expect_equal(made.properties.provisioning_state, "Succeeded", "the pool's state")
        expect_equal((made.name, made.properties.replicas), ("workers", 2), "the pool")
        expect_equal(made.properties.platform.os_disk.size_gi_b, 64, "the disk of which nothing was said")
        expect_equal(made.properties.platform.subnet_id.lower().rsplit("/", 1)[1], "nodes", "the cluster's subnet")
        expect_equal([(one.key, one.value) for one in made.properties.labels], [("tier", "web")], "the labels")
        body = node_pool(self.location, self.version, auto_scaling=models.NodePoolAutoScaling(min=1, max=3))
        body.tags = {"scales": "yes"}
        pools.begin_create_or_update(GROUP, NAME, "scaling", body, **PLAIN).result()
        listed = sorted(one.name for one in pools.list_by_parent(GROUP, NAME, **PLAIN))
        expect_equal(listed, ["scaling", "workers"], "the pools")

        change = models.NodePool({"properties": {"replicas": 3}})
        changed = pools.begin_update(GROUP, NAME, "workers", change, **PLAIN).result()
        expect_equal(changed.properties.replicas, 3, "the replicas")
        expect_equal([(one.key, one.value) for one in changed.properties.labels], [("tier", "web")], "the labels")
        change = models.NodePool({"properties": {"autoScaling": {"min": 2, "max": 5}}})
        changed = pools.begin_update(GROUP, NAME, "scaling", change, **PLAIN).result()
        seen = changed.properties.auto_scaling
        expect_equal((seen.min, seen.max, changed.tags), (2, 5, {"scales": "yes"}), "the scaling")

        wrong = models.NodePool({"properties": {"platform": {"vmSize": "Standard_D4s_v3"}}})
        target = "properties.platform.vmSize"
        try:
            pools.begin_update(GROUP, NAME, "workers", wrong, **PLAIN)
        except Exception as error:
            targets = [error.error.target] + [target for _, target in details(error)]
            expect(error.status_code == 400 and target in targets, "a size is for ever", (error, targets))
        else:
            raise SystemExit("expected: the size of a pool's machines is for ever; seen: it was changed")
        wrong = node_pool(self.location, self.version, replicas=2)
        wrong.properties.platform.vm_size = "Standard_Imaginary"
        refused(lambda: pools.begin_create_or_update(GROUP, NAME, "wrong", wrong, **PLAIN), 400, "InvalidRequestContent", target)

        pools.begin_delete(GROUP, NAME, "scaling", **PLAIN).result()
        refused(lambda: pools.get(GROUP, NAME, "scaling", **PLAIN), 404, "ResourceNotFound", f"{self.id}/nodePools/scaling")
        # The last one goes only with its cluster.
        refused(lambda: pools.begin_delete(GROUP, NAME, "workers", **PLAIN), 400, "InvalidRequestContent", "name")
        expect_equal(pools.get(GROUP, NAME, "workers", **PLAIN).properties.provisioning_state, "Succeeded", "the last pool")

    def external_auths(self):
        say("external authentication is made, changed and deleted")
        auths = self.client.external_auths
        made = auths.begin_create_or_update(GROUP, NAME, "entra", external_auth(), **PLAIN).result()
        expect_equal(made.properties.provisioning_state, "Succeeded", "its state")
        expect_equal(made.properties.claim.mappings.username.prefix_policy, "None", "the prefix policy")
        expect_equal([one.name for one in auths.list_by_parent(GROUP, NAME, **PLAIN)], ["entra"], "the list")
        refused(
            lambda: auths.begin_create_or_update(GROUP, NAME, "second", external_auth(), **PLAIN),
            400, "InvalidRequestContent", "name",
        )
        wrong = models.ExternalAuth({"properties": {"issuer": {"url": "http://login.example.com", "audiences": ["audience"]}}})
        refused(lambda: auths.begin_update(GROUP, NAME, "entra", wrong, **PLAIN), 400, "InvalidRequestContent", "properties.issuer.url")

        change = models.ExternalAuth(
            {"properties": {"claim": {"mappings": {"username": {"claim": "upn", "prefixPolicy": "Prefix", "prefix": "entra:"}}}}}
        )
        changed = auths.begin_update(GROUP, NAME, "entra", change, **PLAIN).result()
        seen = changed.properties.claim.mappings.username
        expect_equal((seen.claim, seen.prefix_policy, seen.prefix), ("upn", "Prefix", "entra:"), "the user name")
        expect_equal(changed.properties.issuer.audiences, ["audience"], "the audiences, of which nothing was said")
        read = auths.get(GROUP, NAME, "entra", **PLAIN)
        expect_equal(read.properties.as_dict(), changed.properties.as_dict(), "what is read")
        auths.begin_delete(GROUP, NAME, "entra", **PLAIN).result()
        refused(lambda: auths.get(GROUP, NAME, "entra", **PLAIN), 404, "ResourceNotFound")

    def credentials(self):
        say("credentials are asked for, and revoked")
        clusters = self.client.hcp_open_shift_clusters
        key = credential.new_key()

        def ask(**subject):
            request = models.HcpOpenShiftClusterAdminCredentialRequest(
                certificate_signing_request=credential.signing_request(key, **subject)
            )
            return clusters.begin_request_admin_credential(GROUP, NAME, request, **PLAIN)

        credential.check(ask().result(), key)
        target = "certificateSigningRequest"
        refused(lambda: ask(user="somebody"), 400, "InvalidRequestContent", target)
        refused(lambda: ask(organisation="somewhere"), 400, "InvalidRequestContent", target)
        clusters.begin_revoke_credentials(GROUP, NAME, **PLAIN).result()
        expect_equal(clusters.get(GROUP, NAME, **PLAIN).properties.provisioning_state, "Succeeded", "the cluster")

    def everything_is_deleted(self):
        say("everything is deleted")
        clusters = self.client.hcp_open_shift_clusters
        pollers = []
        for one in list(clusters.list_by_subscription(**PLAIN)):
            group = one.id.split("/")[4]
            pollers.append(clusters.begin_delete(group, one.name, **PLAIN))
        for poller in pollers:
            expect_equal(poller.result(), None, "a deletion")
        expect_equal(list(clusters.list_by_subscription(**PLAIN)), [], "what is left")
        try:
            self.client.node_pools.get(GROUP, NAME, "workers", **PLAIN)
        except ResourceNotFoundError as error:
            expect_equal(error.error.code, "ResourceNotFound", "the code")
        else:
            raise SystemExit("expected: the pools go with their cluster; seen: one of them")


if __name__ == "__main__":
    Life(*sys.argv[1:]).run()
    say("done")
