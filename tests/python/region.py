"""The life of a cluster of a whole region, by Azure's SDK. It is made with a node pool:

    region.py BASE_URL SUBSCRIPTION CLUSTER create LOCATION

A way into it is asked for with a key of one's own, or closed to everybody:

    region.py BASE_URL SUBSCRIPTION CLUSTER request FILE
    region.py BASE_URL SUBSCRIPTION CLUSTER revoke

And what becomes of it after that:

    region.py BASE_URL SUBSCRIPTION CLUSTER upgrade VERSION
    region.py BASE_URL SUBSCRIPTION CLUSTER delete
"""

import base64
import sys

import yaml
from azure.mgmt.redhatopenshifthcp import models
from cryptography.hazmat.primitives import serialization

import credential
from provider import PLAIN, cluster, connect, expect, expect_equal, node_pool, numbers, refused, say

GROUP = "first"

base_url, subscription, name, verb, *rest = sys.argv[1:]
client = connect(base_url, subscription)
clusters, pools = client.hcp_open_shift_clusters, client.node_pools


def oldest(location, is_meant):
    """The oldest such version that pools can have: not newer than the cluster's, which nobody can choose."""
    versions = client.hcp_open_shift_versions.list(location, **PLAIN)
    usable = [one.name for one in versions if one.properties.enabled and one.properties.channel_group == "stable"]
    return min((one for one in usable if is_meant(numbers(one))), key=numbers)


if verb == "create":
    say("a cluster is made")
    location = rest[0]
    body = cluster(subscription, GROUP, name, location, minimal=True)
    made = clusters.begin_create_or_update(GROUP, name, body, **PLAIN).result()
    expect_equal(made.properties.provisioning_state, "Succeeded", "the cluster's state")
    expect(made.properties.api.url.startswith("https://"), "where its API is", made.properties.api.url)
    say("a node pool is made")
    version = oldest(location, lambda known: known >= [4, 20, 8])
    pool = node_pool(location, version, replicas=1)
    made = pools.begin_create_or_update(GROUP, name, "workers", pool, **PLAIN).result()
    expect_equal((made.properties.provisioning_state, made.properties.replicas), ("Succeeded", 1), "the pool")
    say("both are listed")
    expect(name in [one.name for one in clusters.list_by_subscription(**PLAIN)], "the cluster in the list")
    expect_equal([one.name for one in pools.list_by_parent(GROUP, name, **PLAIN)], ["workers"], "the pools")
elif verb == "request":
    say("a credential is asked for")
    key = credential.new_key()
    request = models.HcpOpenShiftClusterAdminCredentialRequest(
        certificate_signing_request=credential.signing_request(key)
    )
    answer = clusters.begin_request_admin_credential(GROUP, name, request, **PLAIN).result()
    credential.check(answer, key)
    document = yaml.safe_load(answer.kubeconfig)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    document["users"][0]["user"]["client-key-data"] = base64.b64encode(pem).decode()
    with open(rest[0], "w", encoding="utf-8") as file:
        yaml.safe_dump(document, file)
elif verb == "upgrade":
    say(f"the cluster is upgraded to {rest[0]}")
    change = {"properties": {"version": {"id": rest[0]}}}
    upgraded = clusters.begin_update(GROUP, name, change, **PLAIN).result()
    expect_equal(upgraded.properties.version.id, rest[0], "the version afterwards")
    version = oldest(upgraded.location, lambda known: known[:2] == numbers(rest[0]))
    say(f"the node pool is upgraded to {version}")
    change = {"properties": {"version": {"id": version}}}
    upgraded = pools.begin_update(GROUP, name, "workers", change, **PLAIN).result()
    expect_equal(upgraded.properties.provisioning_state, "Succeeded", "the pool's state")
    expect_equal(upgraded.properties.version.id, version, "the pool's version afterwards")
elif verb == "delete":
    say("the cluster is deleted")
    clusters.begin_delete(GROUP, name, **PLAIN).result()
    refused(lambda: clusters.get(GROUP, name, **PLAIN), 404, "ResourceNotFound")
else:
    expect_equal(verb, "revoke", "the verb")
    say("all credentials are revoked")
    clusters.begin_revoke_credentials(GROUP, name, **PLAIN).result()
say("done")
