"""Kubernetes' Python client against a server: lists, watches, resuming, what is gone, patches and the dynamic client.

    kubernetes_client.py KUBECONFIG
"""

import sys
import threading

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = "default"
checks = 0


def expect(holds, what, seen):
    global checks
    checks += 1
    if not holds:
        raise SystemExit(f"expected: {what}; seen: {seen!r}")


config.load_kube_config(sys.argv[1])
core = client.CoreV1Api()


def create(name, **data):
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"app": "python"}), data=data)
    return core.create_namespaced_config_map(NAMESPACE, body)


def names(events):
    return [(event["type"], event["object"].metadata.name) for event in events]


# Lists: in pages, all of one instant.
for number in range(5):
    create(f"map-{number}", number=str(number))
page = core.list_namespaced_config_map(NAMESPACE, label_selector="app=python", limit=2)
listed = [item.metadata.name for item in page.items]
while page.metadata._continue:
    page = core.list_namespaced_config_map(
        NAMESPACE, label_selector="app=python", limit=2, _continue=page.metadata._continue
    )
    listed += [item.metadata.name for item in page.items]
expect(listed == [f"map-{number}" for number in range(5)], "all in pages of two", listed)
start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version

# A watch from a version sees everything since, in order, and ends with the time it was given.
created = create("later", key="one")
core.patch_namespaced_config_map("later", NAMESPACE, {"data": {"key": "two"}})
core.delete_namespaced_config_map("later", NAMESPACE)
seen = list(
    watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=1)
)
expect(
    names(seen) == [("ADDED", "later"), ("MODIFIED", "later"), ("DELETED", "later")], "three events", names(seen)
)

# Resuming from the version of an event gives what came after it.
resumed = list(
    watch.Watch().stream(
        core.list_namespaced_config_map,
        NAMESPACE,
        resource_version=created.metadata.resource_version,
        timeout_seconds=1,
    )
)
expect(names(resumed) == names(seen)[1:], "what came after", names(resumed))

# An open watch is told while it waits.
woken = []


def follow():
    watching = watch.Watch()
    for event in watching.stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=start, field_selector="metadata.name=live"
    ):
        woken.append(event["type"])
        if event["type"] == "DELETED":
            watching.stop()


thread = threading.Thread(target=follow, daemon=True)
thread.start()
create("live", key="one")
core.delete_namespaced_config_map("live", NAMESPACE)
thread.join(60)
expect(woken == ["ADDED", "DELETED"], "events of the one object", woken)

# A version that is no number is refused.
try:
    core.list_namespaced_config_map(NAMESPACE, resource_version="x")
    refused = None
except ApiException as error:
    refused = error.status
expect(refused == 400, "400 for a version that is none", refused)

# What is gone: a watch is told to begin anew, and a list what is wrong with its token.
try:
    list(watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version="1", timeout_seconds=5))
    refused = None
except ApiException as error:
    refused = error.status
expect(refused == 410, "410 for a version that is gone", refused)
try:
    core.list_namespaced_config_map(NAMESPACE, limit=1, _continue="not-a-token")
    refused = None
except ApiException as error:
    refused = error.status
expect(refused == 400, "400 for a token that is none", refused)

# Conflicts.
first = core.read_namespaced_config_map("map-0", NAMESPACE)
core.patch_namespaced_config_map("map-0", NAMESPACE, {"data": {"number": "7"}})
try:
    core.replace_namespaced_config_map("map-0", NAMESPACE, first)
    refused = None
except ApiException as error:
    refused = error.status
expect(refused == 409, "409 for an old version", refused)

# The dynamic client discovers kinds, applies on the server's side, and watches.
found = dynamic.DynamicClient(client.ApiClient())
deployments = found.resources.get(api_version="apps/v1", kind="Deployment")
expect(deployments.namespaced, "Deployments to be namespaced", deployments)
labels = {"app": "dynamic"}
container = {"name": "web", "image": "web"}
body = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "dynamic"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    },
}
applied = found.server_side_apply(deployments, body=body, namespace=NAMESPACE, field_manager="python")
expect(applied.spec.replicas == 2, "two replicas", applied.spec.replicas)
managers = [entry.manager for entry in applied.metadata.managedFields]
expect(managers == ["python"], "one manager", managers)
events = deployments.watch(namespace=NAMESPACE, timeout=1)
dynamic_names = [event["object"].metadata.name for event in events]
expect(dynamic_names == ["dynamic"], "the deployment in the watch", dynamic_names)

print(f"{checks} checks")
