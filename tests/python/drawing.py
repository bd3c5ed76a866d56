"""What schemathesis cannot know: which subscription is registered, and which names lead to something.

Without it nearly every request would end at a subscription that nobody knows. One in eight is left as it was drawn.
"""

import os
import zlib

import schemathesis

SUBSCRIPTION = os.environ["PILOTHOUSE_SUBSCRIPTION"]
GROUP = os.environ["PILOTHOUSE_GROUP"]
LOCATION = os.environ["PILOTHOUSE_LOCATION"]

KNOWN = {
    "subscriptionid": [SUBSCRIPTION],
    "resourcegroupname": [GROUP],
    "location": [LOCATION],
    "hcpopenshiftclustername": ["ready", "drawn"],
    "nodepoolname": ["workers", "drawn"],
    "externalauthname": ["entra", "drawn"],
    "openshiftversionname": ["4.20.8", "4.20"],
    "operatoridentityrolesetname": ["4.20"],
}
EVERY = 8


def number(value):
    """The same for the same value, in every run."""
    return zlib.crc32(repr(value).encode())


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    for name, drawn in (path_parameters or {}).items():
        known = KNOWN.get(name.lower())
        if known and number(drawn) % EVERY:
            path_parameters[name] = known[number(drawn) // EVERY % len(known)]
    return path_parameters


@schemathesis.hook
def map_body(context, body):
    """Networks that a cluster can have: a schema says only that they are texts."""
    try:
        platform = body["properties"]["platform"]
        drawn = number(body)
        if "networkSecurityGroupId" in platform and drawn % EVERY:
            base = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Network"
            platform["subnetId"] = f"{base}/virtualNetworks/{drawn}/subnets/nodes"
            platform["vnetIntegrationSubnetId"] = f"{base}/virtualNetworks/{drawn}/subnets/control"
            platform["networkSecurityGroupId"] = f"{base}/networkSecurityGroups/{drawn}"
    except (KeyError, TypeError):
        pass
    return body
