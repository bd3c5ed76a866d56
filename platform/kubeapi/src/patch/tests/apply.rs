use super::*;
use crate::patch::managed_fields::track;

struct World {
    catalogue: Catalogue,
    group: &'static str,
    plural: &'static str,
    object: Option<Value>,
}

impl World {
    fn ships() -> Self {
        Self { catalogue: ships(), group: "fleet.example.com", plural: "ships", object: None }
    }

    fn deployments() -> Self {
        Self { catalogue: Catalogue::built_in(33), group: "apps", plural: "deployments", object: None }
    }

    fn resource(&self) -> &Resource {
        self.catalogue.find(self.group, "v1", self.plural).unwrap()
    }

    fn try_apply(&mut self, manager: &str, force: bool, spec: Value) -> Result<(), Failure> {
        let resource = self.resource();
        let body = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind, "metadata": { "name": "x" }, "spec": spec,
        })
        .to_string();
        let patch = Patch {
            kind: PatchKind::Apply,
            body: body.as_bytes(),
            subresource: None,
            manager,
            name: "x",
            force,
            now: NOW.parse().unwrap(),
        };
        self.object = Some(apply(resource, self.object.as_ref(), &patch)?);
        Ok(())
    }

    fn apply(&mut self, manager: &str, spec: Value) {
        self.try_apply(manager, false, spec).unwrap();
    }

    fn update(&mut self, manager: &str, change: impl FnOnce(&mut Value)) {
        let mut new = self.object.clone().unwrap();
        change(&mut new);
        track(self.resource(), None, self.object.as_ref(), &mut new, manager, NOW.parse().unwrap());
        self.object = Some(new);
    }

    fn spec(&self) -> &Value {
        &self.object.as_ref().unwrap()["spec"]
    }

    fn fields_of(&self, manager: &str) -> Value {
        let entries = self.object.as_ref().unwrap()["metadata"]["managedFields"].as_array().unwrap();
        entries
            .iter()
            .find(|entry| entry["manager"] == manager)
            .map_or(Value::Null, |entry| entry["fieldsV1"].clone())
    }
}

#[test]
fn what_a_manager_applied_it_owns() {
    let mut world = World::ships();
    world.apply("a", json!({ "masts": 3, "crew": [{ "name": "ada", "age": 30 }], "flags": ["red"], "notes": ["x"], "cargo": { "tea": 1 } }));
    assert_eq!(
        world.fields_of("a"),
        json!({ "f:spec": {
            "f:cargo": {},
            "f:crew": { "k:{\"name\":\"ada\",\"role\":\"sailor\"}": { ".": {}, "f:age": {}, "f:name": {} } },
            "f:flags": { "v:\"red\"": {} },
            "f:masts": {},
            "f:notes": {},
        } })
    );
    let entry = &world.object.unwrap()["metadata"]["managedFields"][0];
    assert_eq!(
        (&entry["operation"], &entry["apiVersion"], &entry["time"]),
        (&json!("Apply"), &json!("fleet.example.com/v1"), &json!(NOW))
    );
}

#[test]
fn another_managers_field_is_a_conflict_until_forced() {
    let mut world = World::ships();
    world.apply("a", json!({ "masts": 3, "name": "ada" }));
    let failure = world.try_apply("b", false, json!({ "masts": 4 })).unwrap_err();
    assert_eq!((failure.code, failure.reason), (409, "Conflict"));
    assert_eq!(failure.message, "Apply failed with 1 conflict: conflict with \"a\": .spec.masts");
    let causes = &failure.details.unwrap().causes;
    assert_eq!((causes[0].reason, causes[0].field.as_str()), ("FieldManagerConflict", ".spec.masts"));
    assert_eq!(world.spec()["masts"], 3);

    world.try_apply("b", true, json!({ "masts": 4 })).unwrap();
    assert_eq!(world.spec(), &json!({ "masts": 4, "name": "ada" }));
    assert_eq!(world.fields_of("a"), json!({ "f:spec": { "f:name": {} } }));
    assert_eq!(world.fields_of("b"), json!({ "f:spec": { "f:masts": {} } }));
}

#[test]
fn the_same_value_is_shared_and_goes_with_its_last_owner() {
    let mut world = World::ships();
    world.apply("a", json!({ "masts": 3 }));
    world.apply("b", json!({ "masts": 3, "name": "ada" }));
    world.apply("a", json!({}));
    assert_eq!(world.spec(), &json!({ "masts": 3, "name": "ada" }));
    assert_eq!(world.fields_of("a"), json!({ "f:spec": {} }));
    world.apply("b", json!({ "name": "ada" }));
    assert_eq!(world.spec(), &json!({ "name": "ada" }));
}

#[test]
fn keyed_lists_and_sets_are_merged_item_by_item() {
    let mut world = World::ships();
    world.apply(
        "a",
        json!({ "crew": [{ "name": "ada", "age": 30 }, { "name": "eve" }], "flags": ["red", "blue"] }),
    );
    world.apply(
        "b",
        json!({ "crew": [{ "name": "bob" }, { "name": "ada", "role": "cook" }], "flags": ["blue", "green"] }),
    );
    let names = |world: &World| -> Vec<String> {
        let crew = world.spec()["crew"].as_array().unwrap().iter();
        crew.map(|one| {
            format!("{}/{}", one["name"].as_str().unwrap(), one["role"].as_str().unwrap_or("sailor"))
        })
        .collect()
    };
    assert_eq!(names(&world), ["ada/sailor", "eve/sailor", "bob/sailor", "ada/cook"]);
    assert_eq!(world.spec()["flags"], json!(["red", "blue", "green"]));

    // What a no longer asks for goes, what b asks for stays.
    world.apply("a", json!({ "crew": [{ "name": "ada", "age": 31 }], "flags": [] }));
    assert_eq!(names(&world), ["ada/sailor", "bob/sailor", "ada/cook"]);
    assert_eq!(world.spec()["crew"][0]["age"], 31);
    assert_eq!(world.spec()["flags"], json!(["blue", "green"]));
}

#[test]
fn lists_without_keys_are_one_value() {
    let mut world = World::ships();
    world.apply("a", json!({ "notes": ["x"] }));
    assert_eq!(world.try_apply("b", false, json!({ "notes": ["x", "y"] })).unwrap_err().code, 409);
    world.apply("a", json!({ "notes": ["z"] }));
    assert_eq!(world.spec()["notes"], json!(["z"]));
}

#[test]
fn an_update_takes_over_what_it_changes_and_nothing_else() {
    let mut world = World::ships();
    world.apply("a", json!({ "masts": 3, "name": "ada" }));
    world.update("kubectl-edit", |object| object["spec"]["masts"] = json!(5));
    assert_eq!(world.fields_of("a"), json!({ "f:spec": { "f:name": {} } }));
    assert_eq!(world.fields_of("kubectl-edit"), json!({ "f:spec": { "f:masts": {} } }));
    assert_eq!(world.try_apply("a", false, json!({ "masts": 3, "name": "ada" })).unwrap_err().code, 409);

    // What an update removes, nobody owns.
    world.update("kubectl-edit", |object| {
        object["spec"].as_object_mut().unwrap().remove("masts");
    });
    assert_eq!(world.fields_of("kubectl-edit"), Value::Null);
    world.apply("a", json!({ "masts": 3, "name": "ada" }));
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let mut world = World::deployments();
    let spec = json!({ "replicas": 2, "template": { "spec": { "containers": [{ "name": "web", "image": "web:1", "ports": [{ "containerPort": 80 }] }] } } });
    world.apply("a", spec.clone());
    // Defaults come between, as on a real server.
    world.object.as_mut().unwrap()["spec"]["template"]["spec"]["containers"][0]["ports"][0]["protocol"] =
        json!("TCP");
    world.object.as_mut().unwrap()["metadata"]["managedFields"][0]["time"] = json!("2020-01-01T00:00:00Z");
    let before = world.object.clone();
    world.apply("a", spec);
    assert_eq!(world.object, before);
}

#[test]
fn two_managers_share_the_containers_of_a_deployment() {
    let mut world = World::deployments();
    let containers = |list: Value| json!({ "template": { "spec": { "containers": list } } });
    world.apply(
        "a",
        containers(json!([{ "name": "web", "image": "web:1", "env": [{ "name": "A", "value": "1" }] }])),
    );
    world.apply("b", containers(json!([{ "name": "web", "env": [{ "name": "B", "value": "2" }] }, { "name": "side", "image": "s" }])));
    let spec = &world.spec()["template"]["spec"]["containers"];
    assert_eq!(spec[0]["env"], json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }]));
    assert_eq!(spec[1]["name"], "side");
    world.apply("b", containers(json!([{ "name": "side", "image": "s" }])));
    let spec = &world.spec()["template"]["spec"]["containers"];
    assert_eq!(spec[0], json!({ "name": "web", "image": "web:1", "env": [{ "name": "A", "value": "1" }] }));
}

#[test]
fn an_apply_that_cannot_be_meant_is_refused() {
    let mut world = World::ships();
    let twice = json!({ "crew": [{ "name": "ada" }, { "name": "ada", "role": "sailor" }] });
    let failure = world.try_apply("a", false, twice).unwrap_err();
    assert_eq!(failure.code, 500);
    assert!(
        failure.message.ends_with(".spec.crew: duplicate entries for key [name=\"ada\",role=\"sailor\"]")
    );
    assert_eq!(world.try_apply("", false, json!({})).unwrap_err().code, 422);
    let resource = world.resource();
    for body in [
        json!({ "apiVersion": "v1", "kind": "Ship", "metadata": { "name": "x" } }),
        json!({ "apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {} }),
        json!({ "apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": { "name": "y" } }),
        json!({ "apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": { "name": "x", "managedFields": [{ "manager": "a" }] } }),
    ] {
        assert_eq!(
            patched(PatchKind::Apply, resource, &json!({}), body.clone()).unwrap_err().code,
            400,
            "{body}"
        );
    }
}

#[test]
fn yaml_is_understood_and_status_is_not_the_main_endpoints_business() {
    let world = World::ships();
    let patch = Patch {
        kind: PatchKind::Apply,
        body: b"apiVersion: fleet.example.com/v1\nkind: Ship\nmetadata:\n  name: x\nspec:\n  masts: 2\nstatus:\n  ready: true\n",
        subresource: None,
        manager: "a",
        name: "x",
        force: false,
        now: NOW.parse().unwrap(),
    };
    let object = apply(world.resource(), None, &patch).unwrap();
    assert_eq!((&object["spec"]["masts"], object.get("status")), (&json!(2), None));
    let status =
        apply(world.resource(), Some(&object), &Patch { subresource: Some("status"), ..patch }).unwrap();
    assert_eq!(status["status"]["ready"], true);
    let entries = status["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(
        entries.iter().find(|one| one["subresource"] == "status").unwrap()["fieldsV1"],
        json!({ "f:status": { "f:ready": {} } })
    );
}

#[test]
fn an_empty_list_of_managed_fields_starts_over() {
    let mut world = World::ships();
    for empty in [json!([]), json!([{}])] {
        world.object = None;
        world.apply("a", json!({ "masts": 3 }));
        world.update("admin", |object| object["metadata"]["managedFields"] = empty);
        assert_eq!(world.object.as_ref().unwrap()["metadata"].get("managedFields"), None);
    }
    // From then on nobody is recorded, until somebody applies: then all that was there had one owner.
    world.update("admin", |object| object["spec"]["name"] = json!("ada"));
    assert_eq!(world.object.as_ref().unwrap()["metadata"].get("managedFields"), None);
    world.try_apply("b", true, json!({ "masts": 4 })).unwrap();
    assert_eq!(world.fields_of("before-first-apply"), json!({ "f:spec": { ".": {}, "f:name": {} } }));
    assert_eq!(world.fields_of("b"), json!({ "f:spec": { "f:masts": {} } }));
}

#[test]
fn who_creates_owns_what_an_empty_object_does_not_have() {
    let deployments = built_in("apps", "deployments");
    let mut object = json!({
        "metadata": { "name": "x", "generateName": "x", "labels": { "a": "b" } },
        "spec": {
            "replicas": 1,
            "template": { "spec": { "containers": [{ "name": "main", "image": "web" }], "nodeSelector": { "a": "b" } } },
        },
        "status": { "replicas": 1 },
    });
    track(&deployments, None, None, &mut object, "maker", NOW.parse().unwrap());
    assert_eq!(
        object["metadata"]["managedFields"][0]["fieldsV1"],
        json!({
            "f:metadata": { "f:generateName": {}, "f:labels": { ".": {}, "f:a": {} } },
            "f:spec": {
                "f:replicas": {},
                "f:template": { "f:spec": {
                    "f:containers": { "k:{\"name\":\"main\"}": { ".": {}, "f:image": {}, "f:name": {} } },
                    "f:nodeSelector": {},
                } },
            },
        })
    );
    let former = object.clone();
    object["spec"]["replicas"] = json!(2);
    track(&deployments, Some("scale"), Some(&former), &mut object, "scaler", NOW.parse().unwrap());
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let scaled = entries.iter().find(|entry| entry["subresource"] == "scale").unwrap();
    assert_eq!(scaled["fieldsV1"], json!({ "f:spec": { "f:replicas": {} } }));
    assert_eq!(scaled.get("time"), None);
}

#[test]
fn conflicts_are_told_by_manager_and_what_is_nearest_first() {
    let mut world = World::ships();
    world.apply("a", json!({ "masts": 3, "crew": [{ "name": "ada", "age": 30 }] }));
    world.update("editor", |object| object["spec"]["name"] = json!("old"));
    let wanted = json!({ "masts": 4, "name": "new", "crew": [{ "name": "ada", "age": 31 }] });
    let failure = world.try_apply("b", false, wanted).unwrap_err();
    assert_eq!(
        failure.message,
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.masts\n- \
         .spec.crew[name=\"ada\",role=\"sailor\"].age\nconflicts with \"editor\" using fleet.example.com/v1:\n- .spec.name"
    );
}

#[test]
fn what_a_kind_does_not_have_cannot_be_applied() {
    let mut world = World::deployments();
    let failure = world.try_apply("a", false, json!({ "replica": 1 })).unwrap_err();
    let expected = "failed to create typed patch object (/x; apps/v1, Kind=Deployment): .spec.replica: field not declared in schema";
    assert_eq!((failure.code, failure.message.as_str()), (500, expected));
}

#[test]
fn managers_share_the_finalizers_of_a_custom_resource() {
    let world = World::ships();
    let apply_as = |manager: &str, current: Option<&Value>, finalizers: Value| {
        let body = json!({
            "apiVersion": "fleet.example.com/v1", "kind": "Ship",
            "metadata": { "name": "x", "finalizers": finalizers },
        })
        .to_string();
        let patch = Patch {
            kind: PatchKind::Apply,
            body: body.as_bytes(),
            subresource: None,
            manager,
            name: "x",
            force: false,
            now: NOW.parse().unwrap(),
        };
        apply(world.resource(), current, &patch).unwrap()
    };
    let first = apply_as("a", None, json!(["example.com/a"]));
    let both = apply_as("b", Some(&first), json!(["example.com/b"]));
    assert_eq!(both["metadata"]["finalizers"], json!(["example.com/a", "example.com/b"]));
    let second = apply_as("a", Some(&both), json!([]));
    assert_eq!(second["metadata"]["finalizers"], json!(["example.com/b"]));
}

#[test]
fn old_updaters_are_folded_into_one() {
    let mut world = World::ships();
    world.apply("applier", json!({ "name": "ada" }));
    for number in 0..14 {
        world.update(&format!("u{number}"), |object| object["spec"][format!("f{number}")] = json!(number));
    }
    let entries = world.object.as_ref().unwrap()["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.iter().filter(|entry| entry["operation"] == "Update").count(), 10);
    assert!(entries.iter().any(|entry| entry["manager"] == "ancient-changes"));
    assert!(entries.iter().any(|entry| entry["manager"] == "applier"));
}
