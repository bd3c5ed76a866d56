"""A cluster and a node pool of a whole region, by Azure's SDK.

    region.py BASE_URL SUBSCRIPTION LOCATION
"""

import sys

from provider import PLAIN, cluster, connect, expect, expect_equal, node_pool, numbers, refused, say

base_url, subscription, location = sys.argv[1:]
client = connect(base_url, subscription)
clusters, pools = client.hcp_open_shift_clusters, client.node_pools

say("a cluster is made")
body = cluster(subscription, "first", "sdk", location, minimal=True)
made = clusters.begin_create_or_update("first", "sdk", body, **PLAIN).result()
expect_equal(made.properties.provisioning_state, "Succeeded", "the cluster's state")
expect(made.properties.api.url.startswith("https://"), "where its API is", made.properties.api.url)

say("a node pool is made")
versions = client.hcp_open_shift_versions.list(location, **PLAIN)
# Not newer than the cluster's, which nobody can choose: the oldest that pools can have.
usable = [one.name for one in versions if one.properties.enabled and one.properties.channel_group == "stable"]
version = min((name for name in usable if numbers(name) >= [4, 20, 8]), key=numbers)
pool = node_pool(location, version, replicas=1)
made = pools.begin_create_or_update("first", "sdk", "workers", pool, **PLAIN).result()
expect_equal((made.properties.provisioning_state, made.properties.replicas), ("Succeeded", 1), "the pool")

say("both are listed")
expect("sdk" in [one.name for one in clusters.list_by_subscription(**PLAIN)], "the cluster in the list")
expect_equal([one.name for one in pools.list_by_parent("first", "sdk", **PLAIN)], ["workers"], "the pools")

say("both are deleted")
clusters.begin_delete("first", "sdk", **PLAIN).result()
refused(lambda: clusters.get("first", "sdk", **PLAIN), 404, "ResourceNotFound")
say("done")
