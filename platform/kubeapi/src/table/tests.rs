use serde_json::json;

use super::*;
use crate::catalogue::{Catalogue, built_in};

const NOW: &str = "2026-01-01T12:00:00Z";

fn cells_of(resource: &Resource, object: &Value) -> Vec<Value> {
    let table =
        render(resource, std::iter::once(object), NOW.parse().unwrap(), IncludeObject::None, json!({}));
    let cells = table["rows"][0]["cells"].as_array().unwrap().clone();
    assert_eq!(cells.len(), table["columnDefinitions"].as_array().unwrap().len(), "one cell per column");
    cells
}

#[test]
fn ages_are_written_as_kubectl_writes_them() {
    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;
    for (seconds, expected) in [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (599, "9m59s"),
        (601, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 120, "7h2m"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + HOUR, "2d1h"),
        (8 * DAY, "8d"),
        (729 * DAY, "729d"),
        (731 * DAY, "2y1d"),
        (9 * 365 * DAY, "9y"),
    ] {
        assert_eq!(age::short(seconds), expected, "{seconds}");
    }
}

#[test]
fn a_pod_shows_what_holds_it_up() {
    let waiting = json!({ "state": { "waiting": { "reason": "CrashLoopBackOff" } }, "restartCount": 3,
        "lastState": { "terminated": { "finishedAt": "2026-01-01T11:59:00Z" } } });
    let running = json!({ "ready": true, "state": { "running": {} }, "restartCount": 0 });
    let done = json!({ "state": { "terminated": { "exitCode": 0, "reason": "Completed" } } });
    let failed_init =
        json!({ "name": "setup", "state": { "terminated": { "exitCode": 2 } }, "restartCount": 1 });
    let two = json!([{ "name": "a" }, { "name": "b" }]);
    for (status, spec, deleting, expected) in [
        (
            json!({ "phase": "Running", "containerStatuses": [running, waiting] }),
            json!({ "containers": two }),
            false,
            ["1/2", "CrashLoopBackOff", "3 (60s ago)"],
        ),
        (
            json!({ "phase": "Running", "containerStatuses": [running, running] }),
            json!({ "containers": two }),
            false,
            ["2/2", "Running", "0"],
        ),
        (
            json!({ "phase": "Running", "containerStatuses": [running, running] }),
            json!({ "containers": two }),
            true,
            ["2/2", "Terminating", "0"],
        ),
        (
            json!({ "phase": "Succeeded", "containerStatuses": [done, done] }),
            json!({ "containers": two }),
            false,
            ["0/2", "Completed", "0"],
        ),
        (json!({ "phase": "Pending" }), json!({ "containers": two }), false, ["0/2", "Pending", "0"]),
        (
            json!({ "phase": "Pending", "initContainerStatuses": [failed_init] }),
            json!({ "containers": two, "initContainers": [{ "name": "setup" }] }),
            false,
            ["0/2", "Init:ExitCode:2", "1"],
        ),
    ] {
        let mut pod = json!({ "metadata": { "name": "p" }, "spec": spec, "status": status });
        if deleting {
            pod["metadata"]["deletionTimestamp"] = json!(NOW);
        }
        assert_eq!(cells_of(&built_in("", "pods"), &pod)[1..4], expected, "{pod}");
    }
}

#[test]
fn every_built_in_kind_has_a_cell_for_every_column() {
    for resource in Catalogue::built_in(33).resources() {
        let object = json!({ "metadata": { "name": "x", "creationTimestamp": "2026-01-01T11:00:00Z" } });
        cells_of(resource, &object);
    }
}

#[test]
fn services_and_nodes_are_summed_up() {
    let service = json!({
        "metadata": { "name": "s", "creationTimestamp": "2026-01-01T11:00:00Z" },
        "spec": {
            "type": "NodePort", "clusterIP": "10.96.0.10", "selector": { "app": "web" },
            "ports": [{ "port": 80, "nodePort": 30080, "protocol": "TCP" }, { "port": 53, "protocol": "UDP" }],
        },
    });
    assert_eq!(
        cells_of(&built_in("", "services"), &service),
        ["s", "NodePort", "10.96.0.10", "<none>", "80:30080/TCP,53/UDP", "60m", "app=web"]
    );
    let node = json!({
        "metadata": { "name": "n", "labels": { "node-role.kubernetes.io/worker": "" } },
        "spec": { "unschedulable": true },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }], "nodeInfo": { "kubeletVersion": "v1.33.4" } },
    });
    assert_eq!(
        cells_of(&built_in("", "nodes"), &node)[..5],
        ["n", "Ready,SchedulingDisabled", "worker", "<unknown>", "v1.33.4"]
    );
}

#[test]
fn a_custom_resource_prints_what_its_definition_asks_for() {
    let catalogue = Catalogue::built_in(33).with_custom(&[json!({ "spec": {
        "group": "fleet.example.com", "names": { "plural": "ships", "kind": "Ship" }, "scope": "Namespaced",
        "versions": [{ "name": "v1", "served": true, "storage": true, "additionalPrinterColumns": [
            { "name": "Available", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Available\")].status" },
            { "name": "Masts", "type": "integer", "jsonPath": ".spec.masts", "priority": 1 },
            { "name": "Launched", "type": "date", "jsonPath": ".status.launched" },
            { "name": "Missing", "type": "string", "jsonPath": ".spec.missing" },
            { "name": "Crew", "type": "string", "jsonPath": ".spec.crew[*].name" },
        ] }],
    } })]);
    let ships = catalogue.find("fleet.example.com", "v1", "ships").unwrap();
    let ship = json!({
        "metadata": { "name": "ada" },
        "spec": { "masts": 3, "crew": [{ "name": "a" }, { "name": "b" }] },
        "status": {
            "launched": "2026-01-01T11:59:30Z",
            "conditions": [{ "type": "Degraded", "status": "False" }, { "type": "Available", "status": "True" }],
        },
    });
    assert_eq!(
        cells_of(ships, &ship),
        [json!("ada"), json!("True"), json!(3), json!("30s"), Value::Null, json!("a b")]
    );
    let table = render(ships, std::iter::empty(), NOW.parse().unwrap(), IncludeObject::None, json!({}));
    assert_eq!(table["columnDefinitions"][2]["priority"], 1);
    assert_eq!(table["rows"], json!([]));
}

#[test]
fn json_paths_find_their_way() {
    let object = json!({ "a": { "b.c": [1, { "d": "x", "n": 5 }, { "d": "y", "n": 9 }] } });
    for (path, expected) in [
        (".a['b.c'][0]", json!([1])),
        (".a.b\\.c[-1].d", json!(["y"])),
        ("{.a[\"b.c\"][*].d}", json!(["x", "y"])),
        ("$.a.b\\.c[?(@.d=='x')].n", json!([5])),
        (".a.b\\.c[?(@.n>5)].d", json!(["y"])),
        (".a.b\\.c[?(@.d)].n", json!([5, 9])),
        (".a.b\\.c[?(@.d!=\"x\")].n", json!([9])),
        (".absent.deeper", json!([])),
    ] {
        let parsed = JsonPath::parse(path).unwrap();
        assert_eq!(json!(parsed.all(&object)), expected, "{path}");
    }
    for path in ["spec", ".a[", ".a[?(@.b==)]", "..a", ".a[x]"] {
        assert_eq!(JsonPath::parse(path), None, "{path}");
    }
}
