"""A way into a hosted cluster, by Azure's SDK: asked for with a key of one's own, or closed to everybody.

    access.py BASE_URL SUBSCRIPTION CLUSTER request FILE
    access.py BASE_URL SUBSCRIPTION CLUSTER revoke

And what else becomes of the cluster in the meantime:

    access.py BASE_URL SUBSCRIPTION CLUSTER upgrade VERSION
    access.py BASE_URL SUBSCRIPTION CLUSTER delete
"""

import base64
import sys

import yaml
from azure.mgmt.redhatopenshifthcp import models
from cryptography.hazmat.primitives import serialization

import credential
from provider import PLAIN, connect, expect_equal, say

GROUP = "first"

base_url, subscription, name, verb, *rest = sys.argv[1:]
clusters = connect(base_url, subscription).hcp_open_shift_clusters

if verb == "request":
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
elif verb == "delete":
    say("the cluster is deleted")
    clusters.begin_delete(GROUP, name, **PLAIN).result()
else:
    expect_equal(verb, "revoke", "the verb")
    say("all credentials are revoked")
    clusters.begin_revoke_credentials(GROUP, name, **PLAIN).result()
say("done")
