"""The resource provider as a user of Azure's SDK meets it: a client, the bodies of requests, and what to expect.

The SDK is taken as it comes. Two things are said to it that a user of Azure need not say: that a token may go over plain
HTTP, because the provider under test is on this machine (`PLAIN`, on every call), and which token.
"""

import time
from collections import namedtuple

from azure.core.exceptions import HttpResponseError
from azure.mgmt.redhatopenshifthcp import RedHatOpenShiftHcpMgmtClient, models

NAMESPACE = "Microsoft.RedHatOpenShift"
PLAIN = {"enforce_https": False}

CONTROL_PLANE_OPERATORS = [
    "cluster-api-azure",
    "control-plane",
    "cloud-controller-manager",
    "ingress",
    "disk-csi-driver",
    "file-csi-driver",
    "image-registry",
    "cloud-network-config",
]
DATA_PLANE_OPERATORS = ["disk-csi-driver", "file-csi-driver", "image-registry"]

Token = namedtuple("Token", ["token", "expires_on"])


class StaticCredential:
    """The same token for everybody; who it is for is not looked at where no authentication is configured."""

    def get_token(self, *scopes, **options):
        return Token("a token", int(time.time()) + 3600)


def connect(base_url, subscription):
    return RedHatOpenShiftHcpMgmtClient(StaticCredential(), subscription, base_url=base_url)


def say(text):
    print(text, flush=True)


def expect(condition, what, seen=None):
    """Ends the program unless the condition holds. Not `assert`, which an option of the interpreter turns off."""
    if not condition:
        raise SystemExit(f"expected: {what}; seen: {seen!r}")


def expect_equal(seen, wanted, what):
    expect(seen == wanted, f"{what} is {wanted!r}", seen)


def refused(call, status, code, target=None):
    """The error of a call that has to fail in this way."""
    try:
        outcome = call()
    except HttpResponseError as error:
        expect(error.error is not None, f"{status} {code} with an error body", error)
        seen = (error.status_code, error.error.code, error.error.target)
        wanted = (status, code, target if target is not None else error.error.target)
        expect_equal(tuple(map(lower, seen)), tuple(map(lower, wanted)), "status, code and target of an error")
        return error
    raise SystemExit(f"expected: {status} {code}; seen: success, {outcome!r}")


def lower(value):
    """Ids are compared without regard to case."""
    return value.lower() if isinstance(value, str) else value


def details(error):
    """Code and target of everything that was wrong with a request."""
    return sorted((detail.code, detail.target) for detail in error.error.details or [])


def group_id(subscription, group):
    return f"/subscriptions/{subscription}/resourceGroups/{group}"


def cluster_id(subscription, group, name):
    return f"{group_id(subscription, group)}/providers/{NAMESPACE}/hcpOpenShiftClusters/{name}"


def cluster(subscription, group, name, location, minimal=False, **properties):
    """A cluster with networks of its own; `minimal` is for a region that brings the identities itself."""
    base = f"{group_id(subscription, group)}/providers"
    subnets = f"{base}/Microsoft.Network/virtualNetworks/{name}/subnets"

    def identity(use):
        return f"{base}/Microsoft.ManagedIdentity/userAssignedIdentities/{name}-{use}"

    control_plane = {} if minimal else {use: identity(use) for use in CONTROL_PLANE_OPERATORS}
    data_plane = {} if minimal else {use: identity(f"node-{use}") for use in DATA_PLANE_OPERATORS}
    service = identity("service")
    return models.HcpOpenShiftCluster(
        location=location,
        identity=models.ManagedServiceIdentity(
            type="UserAssigned",
            user_assigned_identities={one: {} for one in [service, *control_plane.values()]},
        ),
        properties=models.HcpOpenShiftClusterProperties(
            version=models.VersionProfile(id="4.20", channel_group="stable"),
            platform=models.PlatformProfile(
                subnet_id=f"{subnets}/nodes",
                vnet_integration_subnet_id=f"{subnets}/control",
                network_security_group_id=f"{base}/Microsoft.Network/networkSecurityGroups/{name}",
                operators_authentication=models.OperatorsAuthenticationProfile(
                    user_assigned_identities=models.UserAssignedIdentitiesProfile(
                        control_plane_operators=control_plane,
                        data_plane_operators=data_plane,
                        service_managed_identity=service,
                    )
                ),
            ),
            **properties,
        ),
    )


def node_pool(location, version, **properties):
    return models.NodePool(
        location=location,
        properties=models.NodePoolProperties(
            version=models.NodePoolVersionProfile(id=version, channel_group="stable"),
            platform=models.NodePoolPlatformProfile(vm_size="Standard_D8s_v3"),
            **properties,
        ),
    )


def external_auth(audience="audience", **username):
    return models.ExternalAuth(
        properties=models.ExternalAuthProperties(
            issuer=models.TokenIssuerProfile(url="https://login.example.com/tenant", audiences=[audience]),
            claim=models.ExternalAuthClaimProfile(
                mappings=models.TokenClaimMappingsProfile(
                    username=models.UsernameClaimProfile(claim="email", **username),
                    groups=models.GroupClaimProfile(claim="groups"),
                )
            ),
            clients=[
                models.ExternalAuthClientProfile(
                    component=models.ExternalAuthClientComponentProfile(
                        name="console", auth_client_namespace="openshift-console"
                    ),
                    client_id=audience,
                    type="Confidential",
                )
            ],
        )
    )


def numbers(version):
    """A version as what it is compared by."""
    return [int(part) for part in version.split("-")[0].split(".")]
