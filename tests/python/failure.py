"""A cluster that Clusters Service gives up on: the poller ends by itself, and says why.

    failure.py BASE_URL SUBSCRIPTION LOCATION NAME CODE MESSAGE
"""

import sys

from azure.core.exceptions import HttpResponseError

from provider import PLAIN, cluster, connect, expect, expect_equal, say

base_url, subscription, location, name, code, message = sys.argv[1:]
clusters = connect(base_url, subscription).hcp_open_shift_clusters
poller = clusters.begin_create_or_update("first", name, cluster(subscription, "first", name, location), **PLAIN)
say("accepted")
try:
    poller.result()
except HttpResponseError as error:
    expect_equal(poller.status(), "Failed", "the poller")
    expect_equal(error.error.code, code, "the code of the failed operation")
    expect(message in error.error.message, f"a message with {message!r} in it", error.error.message)
else:
    raise SystemExit("expected: the creation fails; seen: it succeeded")
found = clusters.get("first", name, **PLAIN)
expect_equal(found.properties.provisioning_state, "Failed", "the cluster's state")
clusters.begin_delete("first", name, **PLAIN).result()
say("done")
