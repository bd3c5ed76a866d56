use super::*;

fn pod_spec() -> Value {
    json!({ "containers": [{ "name": "web", "image": "web:1" }] })
}

fn deployment() -> Value {
    json!({
        "metadata": { "name": "d", "namespace": "n" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": pod_spec() },
        },
    })
}

/// The first complaint about a change of a valid object.
fn complaint(group: &str, plural: &str, object: Value, change: Value) -> String {
    let resource = built_in(group, plural);
    let old = created(&resource, object);
    validate(&resource, None, None, &old).unwrap();
    let mut new = old.clone();
    json_patch::merge(&mut new, &change);
    prepare_update(&resource, None, &old, &mut new).unwrap();
    match validate(&resource, None, Some(&old), &new) {
        Ok(()) => String::new(),
        Err(failure) => failure.message,
    }
}

#[test]
fn a_pod_gets_the_defaults_that_kubelets_rely_on() {
    let mut spec = pod_spec();
    spec["containers"][0]["resources"] = json!({ "limits": { "cpu": "1", "memory": "1Gi" } });
    spec["containers"][0]["readinessProbe"] = json!({ "httpGet": { "port": 80 } });
    spec["containers"][0]["ports"] = json!([{ "containerPort": 80 }]);
    spec["volumes"] = json!([{ "name": "v", "secret": { "secretName": "s" } }, { "name": "e" }]);
    let pod = created(
        &built_in("", "pods"),
        json!({ "metadata": { "name": "p", "namespace": "n" }, "spec": spec }),
    );
    let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
    for (found, expected) in [
        (&spec["restartPolicy"], json!("Always")),
        (&spec["terminationGracePeriodSeconds"], json!(30)),
        (&spec["dnsPolicy"], json!("ClusterFirst")),
        (&spec["schedulerName"], json!("default-scheduler")),
        (&spec["volumes"][0]["secret"]["defaultMode"], json!(420)),
        (&spec["volumes"][1]["emptyDir"], json!({})),
        (&container["imagePullPolicy"], json!("IfNotPresent")),
        (&container["terminationMessagePath"], json!("/dev/termination-log")),
        (&container["resources"]["requests"], json!({ "cpu": "1", "memory": "1Gi" })),
        (&container["readinessProbe"]["failureThreshold"], json!(3)),
        (&container["readinessProbe"]["httpGet"]["scheme"], json!("HTTP")),
        (&container["ports"][0]["protocol"], json!("TCP")),
        (&pod["status"], json!({ "phase": "Pending", "qosClass": "Guaranteed" })),
    ] {
        assert_eq!(*found, expected);
    }
    for (image, policy) in [
        ("web", "Always"),
        ("web:latest", "Always"),
        ("host:5000/web", "Always"),
        ("web@sha256:0", "IfNotPresent"),
    ] {
        let mut spec = json!({ "containers": [{ "name": "a", "image": image }] });
        pod::defaults(&mut spec);
        assert_eq!(spec["containers"][0]["imagePullPolicy"], policy, "{image}");
    }
}

#[test]
fn workloads_get_their_defaults() {
    let deployment = created(&built_in("apps", "deployments"), deployment());
    assert_eq!(
        deployment["spec"]["strategy"],
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "25%", "maxSurge": "25%" } })
    );
    assert_eq!(
        (&deployment["spec"]["replicas"], &deployment["spec"]["progressDeadlineSeconds"]),
        (&json!(1), &json!(600))
    );
    assert_eq!(deployment["spec"]["template"]["spec"]["restartPolicy"], "Always");
    let set = created(
        &built_in("apps", "statefulsets"),
        json!({ "spec": { "updateStrategy": { "type": "OnDelete" } } }),
    );
    assert_eq!(set["spec"]["updateStrategy"], json!({ "type": "OnDelete" }));
    assert_eq!(set["spec"]["podManagementPolicy"], "OrderedReady");
}

#[test]
fn what_a_secret_says_in_clear_is_stored_encoded() {
    let secret =
        created(&built_in("", "secrets"), json!({ "data": { "a": "eA==" }, "stringData": { "b": "y" } }));
    assert_eq!(secret["data"], json!({ "a": "eA==", "b": "eQ==" }));
    assert_eq!((secret.get("stringData"), &secret["type"]), (None, &json!("Opaque")));
}

#[test]
fn a_service_keeps_its_address_when_an_update_does_not_mention_it() {
    let service = json!({
        "metadata": { "name": "s", "namespace": "n" },
        "spec": { "type": "NodePort", "clusterIP": "10.96.0.9", "ports": [{ "port": 80, "nodePort": 30001 }] },
    });
    let resource = built_in("", "services");
    let old = created(&resource, service);
    assert_eq!(
        old["spec"]["ports"][0],
        json!({ "port": 80, "nodePort": 30001, "protocol": "TCP", "targetPort": 80 })
    );
    let mut new =
        json!({ "metadata": { "name": "s" }, "spec": { "type": "NodePort", "ports": [{ "port": 80 }] } });
    prepare_update(&resource, None, &old, &mut new).unwrap();
    assert_eq!(
        (&new["spec"]["clusterIP"], &new["spec"]["ports"][0]["nodePort"]),
        (&json!("10.96.0.9"), &json!(30001))
    );
}

#[test]
fn what_cannot_change_is_refused() {
    let pod = json!({ "metadata": { "name": "p", "namespace": "n" }, "spec": pod_spec() });
    let config =
        json!({ "metadata": { "name": "c", "namespace": "n" }, "immutable": true, "data": { "a": "1" } });
    let binding = json!({ "metadata": { "name": "b" }, "roleRef": { "kind": "ClusterRole", "name": "x" } });
    let claim = json!({
        "metadata": { "name": "c", "namespace": "n" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let service = json!({
        "metadata": { "name": "s", "namespace": "n" },
        "spec": { "clusterIP": "10.96.0.9", "ports": [{ "port": 80 }] },
    });
    for (group, plural, object, change, expected) in [
        (
            "",
            "pods",
            &pod,
            json!({ "spec": { "hostname": "x" } }),
            "pod updates may not change fields other than",
        ),
        ("", "pods", &pod, json!({ "spec": { "containers": [{ "name": "web", "image": "web:2" }] } }), ""),
        ("", "pods", &pod, json!({ "spec": { "tolerations": [{ "key": "a" }] } }), ""),
        (
            "",
            "configmaps",
            &config,
            json!({ "data": { "a": "2" } }),
            "field is immutable when `immutable` is set",
        ),
        (
            "rbac.authorization.k8s.io",
            "clusterrolebindings",
            &binding,
            json!({ "roleRef": { "name": "y" } }),
            "cannot change roleRef",
        ),
        ("", "persistentvolumeclaims", &claim, json!({ "spec": { "volumeName": "v" } }), ""),
        (
            "",
            "persistentvolumeclaims",
            &claim,
            json!({ "spec": { "accessModes": ["ReadWriteMany"] } }),
            "spec is immutable after creation",
        ),
        (
            "",
            "services",
            &service,
            json!({ "spec": { "clusterIP": "10.96.0.8" } }),
            "may not change once set",
        ),
        (
            "apps",
            "deployments",
            &deployment(),
            json!({ "spec": { "selector": { "matchLabels": { "app": "x" } } } }),
            "field is immutable",
        ),
        ("apps", "deployments", &deployment(), json!({ "spec": { "replicas": 4 } }), ""),
    ] {
        let found = complaint(group, plural, object.clone(), change.clone());
        assert!(
            found.contains(expected) && found.is_empty() == expected.is_empty(),
            "{plural} {change}: {found}"
        );
    }
}

#[test]
fn incomplete_objects_are_refused_with_the_path() {
    let mut mismatched = deployment();
    mismatched["spec"]["template"]["metadata"]["labels"] = json!({ "app": "other" });
    for (group, plural, object, expected) in [
        ("", "pods", json!({ "spec": {} }), "spec.containers: Required value"),
        (
            "",
            "pods",
            json!({ "spec": { "containers": [{ "name": "a" }] } }),
            "spec.containers[0].image: Required value",
        ),
        (
            "",
            "pods",
            json!({ "spec": { "containers": [{ "name": "a", "image": "i", "volumeMounts": [{ "name": "v", "mountPath": "/" }] }] } }),
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ),
        ("", "services", json!({ "spec": {} }), "spec.ports: Required value"),
        ("", "configmaps", json!({ "data": { "a b": "x" } }), "data[a b]: Invalid value"),
        ("apps", "deployments", mismatched, "`selector` does not match template `labels`"),
        (
            "apps",
            "deployments",
            json!({ "spec": { "template": { "spec": pod_spec() } } }),
            "spec.selector: Required value",
        ),
    ] {
        let resource = built_in(group, plural);
        let mut object = object;
        object["metadata"] = json!({ "name": "x", "namespace": "n" });
        let object = created(&resource, object);
        let failure = validate(&resource, None, None, &object).unwrap_err();
        assert!(failure.message.contains(expected), "{plural}: {failure}");
    }
}

#[test]
fn a_definition_is_completed_and_checked() {
    let definition = json!({
        "metadata": { "name": "ships.fleet.example.com" },
        "spec": {
            "group": "fleet.example.com", "scope": "Namespaced", "names": { "plural": "ships", "kind": "Ship" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } } }],
        },
    });
    let resource = built_in("apiextensions.k8s.io", "customresourcedefinitions");
    let object = created(&resource, definition.clone());
    validate(&resource, None, None, &object).unwrap();
    assert_eq!(
        (&object["spec"]["names"]["singular"], &object["spec"]["names"]["listKind"]),
        (&json!("ship"), &json!("ShipList"))
    );
    assert_eq!(object["spec"]["conversion"]["strategy"], "None");
    assert_eq!(object["status"]["storedVersions"], json!(["v1"]));

    for (change, expected) in [
        (
            json!({ "metadata": { "name": "boats.fleet.example.com" } }),
            "must be spec.names.plural+\".\"+spec.group",
        ),
        (json!({ "spec": { "scope": "Sometimes" } }), "supported values: \"Cluster\", \"Namespaced\""),
        (
            json!({ "spec": { "versions": [{ "name": "v1", "served": true, "storage": true }] } }),
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (json!({ "spec": { "versions": [] } }), "exactly one version marked as storage"),
    ] {
        let mut object = definition.clone();
        json_patch::merge(&mut object, &change);
        let object = created(&resource, object);
        let failure = validate(&resource, None, None, &object).unwrap_err();
        assert!(failure.message.contains(expected), "{change}: {failure}");
    }
}

#[test]
fn a_scale_is_a_view_of_the_number_of_replicas() {
    let resource = built_in("apps", "deployments");
    let mut object = created(&resource, deployment());
    object["status"] = json!({ "replicas": 1 });
    let view = scale::view(&resource, &object).unwrap();
    assert_eq!(
        (&view["spec"]["replicas"], &view["status"]),
        (&json!(1), &json!({ "replicas": 1, "selector": "app=web" }))
    );
    let scaled = scale::merge(&resource, &object, &json!({ "spec": { "replicas": 7 } })).unwrap();
    assert_eq!(scaled["spec"]["replicas"], 7);
    assert_eq!(
        scale::merge(&resource, &object, &json!({ "spec": { "replicas": -1 } })).unwrap_err().code,
        422
    );
}

#[test]
fn what_does_not_fit_its_type_is_refused_with_the_place() {
    for (group, plural, object, expected) in [
        (
            "",
            "services",
            json!({ "spec": { "ports": [{ "port": 80 }, { "port": "http" }] } }),
            "Service in version \"v1\" cannot be handled as a Service: json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            "",
            "configmaps",
            json!({ "data": { "a": 1 } }),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        ("", "secrets", json!({ "data": { "a": "not base64!" } }), "illegal base64 data at input byte 3"),
        (
            "apps",
            "deployments",
            json!({ "spec": "x" }),
            "string into Go struct field Deployment.spec of type v1.DeploymentSpec",
        ),
    ] {
        let mut object = object;
        object["metadata"] = json!({ "name": "x", "namespace": "n" });
        let failure = prepare_create(&built_in(group, plural), &mut object, &context()).unwrap_err();
        assert_eq!(failure.code, 400);
        assert!(failure.message.contains(expected), "{failure}");
    }
}

#[test]
fn fields_a_kind_does_not_have_are_dropped_and_named() {
    let resource = built_in("apps", "deployments");
    let mut object = deployment();
    object["spec"]["replcias"] = json!(3);
    object["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    object["spec"]["template"]["spec"]["containers"][0]["imagee"] = json!("x");
    object["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": 2 } });
    let dropped = prepare_create(&resource, &mut object, &context()).unwrap();
    assert_eq!(dropped, ["spec.replcias", "spec.template.spec.containers[0].imagee"]);
    assert_eq!(object["spec"].get("replcias"), None);
    assert_eq!(object["spec"]["template"]["metadata"].get("creationTimestamp"), None);
    assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"], "2");
}

#[test]
fn every_stored_kind_has_a_type() {
    for resource in Catalogue::built_in(33).resources().filter(|resource| !resource.is_virtual()) {
        let mut object = json!({ "metadata": { "name": "x" }, "unheardOf": true });
        assert_eq!(prune(resource, &mut object).unwrap(), ["unheardOf"], "{}", resource.kind);
    }
}

#[test]
fn the_definitions_of_a_management_cluster_are_accepted_as_they_are() {
    let resource = built_in("apiextensions.k8s.io", "customresourcedefinitions");
    for definition in pilothouse_crds::all() {
        let mut object = serde_json::to_value(definition).unwrap();
        let dropped = prepare_create(&resource, &mut object, &context()).unwrap();
        assert_eq!(dropped, [""; 0]);
        validate(&resource, None, None, &object).unwrap();
    }
}

fn job() -> Value {
    json!({
        "metadata": { "name": "pi", "namespace": "n" },
        "spec": { "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "main", "image": "busybox" }],
        } } },
    })
}

#[test]
fn a_job_selects_the_pods_it_makes_and_keeps_what_it_was_made_of() {
    let resource = built_in("batch", "jobs");
    let object = created(&resource, job());
    let uid = object["metadata"]["uid"].clone();
    assert_eq!(object["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"], uid);
    assert_eq!(object["spec"]["template"]["metadata"]["labels"]["job-name"], "pi");
    assert_eq!(object["metadata"]["labels"], object["spec"]["template"]["metadata"]["labels"]);
    assert_eq!((&object["spec"]["completions"], &object["spec"]["backoffLimit"]), (&json!(1), &json!(6)));
    validate(&resource, None, None, &object).unwrap();
    let mut changed = object.clone();
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other");
    let failure = validate(&resource, None, Some(&object), &changed).unwrap_err();
    assert!(failure.message.contains("spec.template: Invalid value"), "{failure}");
    let mut endless = job();
    endless["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    let failure = validate(&resource, None, None, &created(&resource, endless)).unwrap_err();
    let expected = "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"";
    assert!(failure.message.contains(expected), "{failure}");
}

#[test]
fn a_schedule_is_five_fields_or_a_known_word() {
    let resource = built_in("batch", "cronjobs");
    for (schedule, fits) in [
        ("*/5 0-6,12 * jan-mar mon", true),
        ("@daily", true),
        ("@every 1h30m", true),
        ("@sometimes", false),
        ("@every now", false),
        ("* * * *", false),
        ("60 * * * *", false),
        ("* * 0 * *", false),
        ("*/0 * * * *", false),
    ] {
        let object = json!({
            "metadata": { "name": "tick", "namespace": "n" },
            "spec": { "schedule": schedule, "jobTemplate": { "spec": job()["spec"] } },
        });
        let object = created(&resource, object);
        assert_eq!(object["spec"]["concurrencyPolicy"], "Allow");
        let told = validate(&resource, None, None, &object);
        assert_eq!(told.is_ok(), fits, "{schedule}: {told:?}");
    }
}

#[test]
fn what_users_get_wrong_about_traffic_and_budgets_is_told() {
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let path = |extra: Value| {
        let mut path = json!({ "path": "/", "pathType": "Prefix", "backend": backend });
        json_patch::merge(&mut path, &extra);
        json!({ "rules": [{ "http": { "paths": [path] } }] })
    };
    let webhook = |extra: Value| {
        let mut webhook = json!({
            "name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": { "url": "https://a.example" },
        });
        json_patch::merge(&mut webhook, &extra);
        json!([webhook])
    };
    let networking = "networking.k8s.io";
    let admission = "admissionregistration.k8s.io";
    let hooks = "validatingwebhookconfigurations";
    for (group, plural, field, content, expected) in [
        (networking, "ingresses", "spec", path(json!({})), ""),
        (networking, "ingresses", "spec", json!({}), "either `defaultBackend` or `rules` must be specified"),
        (networking, "ingresses", "spec", path(json!({ "pathType": null })), "pathType must be specified"),
        (networking, "ingresses", "spec", path(json!({ "path": "x" })), "must be an absolute path"),
        (
            networking,
            "ingresses",
            "spec",
            path(json!({ "backend": { "service": { "port": { "number": null } } } })),
            "port name or number is required",
        ),
        (
            networking,
            "networkpolicies",
            "spec",
            json!({ "policyTypes": ["Out"] }),
            "Unsupported value: \"Out\"",
        ),
        ("policy", "poddisruptionbudgets", "spec", json!({ "minAvailable": "50%" }), ""),
        (
            "policy",
            "poddisruptionbudgets",
            "spec",
            json!({ "minAvailable": "101%" }),
            "must not be greater than 100%",
        ),
        (
            "policy",
            "poddisruptionbudgets",
            "spec",
            json!({ "minAvailable": 1, "maxUnavailable": 1 }),
            "minAvailable and maxUnavailable cannot be both set",
        ),
        (admission, hooks, "webhooks", webhook(json!({})), ""),
        (admission, hooks, "webhooks", webhook(json!({ "sideEffects": null })), "None, NoneOnDryRun"),
        (admission, hooks, "webhooks", webhook(json!({ "name": "short" })), "at least three segments"),
    ] {
        let resource = built_in(group, plural);
        let object = json!({ "metadata": { "name": "x", "namespace": "n" }, field: content });
        match (validate(&resource, None, None, &created(&resource, object)), expected) {
            (Ok(()), "") => {}
            (Err(failure), expected) if !expected.is_empty() && failure.message.contains(expected) => {}
            (told, expected) => panic!("{plural}: {told:?} instead of {expected:?}"),
        }
    }
}
