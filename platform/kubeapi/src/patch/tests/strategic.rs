use super::*;

fn deployment() -> Value {
    json!({
        "metadata": { "name": "d", "finalizers": ["a", "b"] },
        "spec": { "replicas": 1, "template": { "spec": {
            "containers": [
                { "name": "web", "image": "web:1", "env": [{ "name": "A", "value": "1" }], "args": ["x", "y"] },
                { "name": "log", "image": "log:1" },
            ],
            "tolerations": [{ "key": "old" }],
            "volumes": [{ "name": "data", "emptyDir": {} }],
        } } },
    })
}

fn merged(patch: Value) -> Value {
    patched(PatchKind::Strategic, &built_in("apps", "deployments"), &deployment(), patch).unwrap()
}

fn in_template(spec: Value) -> Value {
    json!({ "spec": { "template": { "spec": spec } } })
}

#[test]
fn containers_are_merged_by_name_and_their_variables_too() {
    let changed = merged(in_template(json!({ "containers": [
        { "name": "web", "image": "web:2", "env": [{ "name": "B", "value": "2" }], "args": ["z"] },
        { "name": "new", "image": "new:1" },
    ] })));
    let containers = &changed["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        *containers,
        json!([
            {
                "name": "web", "image": "web:2", "args": ["z"],
                "env": [{ "name": "B", "value": "2" }, { "name": "A", "value": "1" }],
            },
            { "name": "new", "image": "new:1" },
            { "name": "log", "image": "log:1" },
        ])
    );
    assert_eq!(changed["spec"]["replicas"], 1);
}

#[test]
fn directives_delete_replace_and_retain() {
    for (patch, pointer, expected) in [
        (
            in_template(json!({ "containers": [{ "name": "log", "$patch": "delete" }] })),
            "/spec/template/spec/containers/1",
            Value::Null,
        ),
        (
            in_template(json!({ "containers": [{ "name": "only", "image": "o" }, { "$patch": "replace" }] })),
            "/spec/template/spec/containers",
            json!([{ "name": "only", "image": "o" }]),
        ),
        (
            in_template(json!({ "$patch": "replace", "containers": [] })),
            "/spec/template/spec",
            json!({ "containers": [] }),
        ),
        (
            in_template(
                json!({ "volumes": [{ "name": "data", "$retainKeys": ["name", "hostPath"], "hostPath": { "path": "/x" } }] }),
            ),
            "/spec/template/spec/volumes",
            json!([{ "name": "data", "hostPath": { "path": "/x" } }]),
        ),
        (
            json!({ "metadata": { "finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"] } }),
            "/metadata/finalizers",
            json!(["c", "b"]),
        ),
        (
            in_template(json!({ "tolerations": [{ "key": "new" }] })),
            "/spec/template/spec/tolerations",
            json!([{ "key": "new" }]),
        ),
        (in_template(json!({ "tolerations": null })), "/spec/template/spec/tolerations", Value::Null),
    ] {
        let changed = merged(patch.clone());
        assert_eq!(changed.pointer(pointer).unwrap_or(&Value::Null), &expected, "{patch}");
    }
}

#[test]
fn the_order_a_client_asks_for_leaves_other_items_where_they_were() {
    let changed = merged(in_template(json!({
        "$setElementOrder/containers": [{ "name": "new" }, { "name": "web" }],
        "containers": [{ "name": "new", "image": "n" }],
    })));
    let names: Vec<_> = changed["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["new", "web", "log"]);
}

#[test]
fn conditions_of_a_status_are_merged_by_type() {
    let pod = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }, { "type": "Initialized", "status": "True" }] } });
    let patch = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    let changed = patched(PatchKind::Strategic, &built_in("", "pods"), &pod, patch).unwrap();
    assert_eq!(
        changed["status"]["conditions"],
        json!([{ "type": "Ready", "status": "True" }, { "type": "Initialized", "status": "True" }])
    );
}

#[test]
fn an_item_without_its_key_is_refused() {
    let patch = in_template(json!({ "containers": [{ "image": "x" }] }));
    let failure =
        patched(PatchKind::Strategic, &built_in("apps", "deployments"), &deployment(), patch).unwrap_err();
    assert_eq!(
        (failure.code, failure.message.as_str()),
        (500, "map: map[image:x] does not contain declared merge key: name")
    );
}
