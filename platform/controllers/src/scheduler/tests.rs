use serde_json::{Value, json};

use super::*;

/// A small world: nodes, and pods on them.
#[derive(Default)]
struct World {
    candidates: Vec<Candidate>,
    state: State,
}

fn pod(name: &str, spec: Value) -> Arc<Pod> {
    let mut whole = json!({ "containers": [] });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    Arc::new(
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "default", "uid": name, "labels": { "app": "web" } },
            "spec": whole,
        }))
        .unwrap(),
    )
}

fn asks(cpu: &str) -> Value {
    json!({ "containers": [{ "name": "main", "resources": { "requests": { "cpu": cpu } } }] })
}

fn with_priority(cpu: &str, priority: i32) -> Value {
    let mut spec = asks(cpu);
    spec["priority"] = json!(priority);
    spec
}

impl World {
    /// A ready node in a zone, with two processors.
    fn node(self, name: &str, zone: &str) -> Self {
        self.node_with(name, zone, json!({}))
    }

    fn node_with(mut self, name: &str, zone: &str, spec: Value) -> Self {
        let node = json!({
            "metadata": { "name": name, "labels": { "zone": zone, "host": name } },
            "spec": spec,
            "status": {
                "conditions": [{ "type": "Ready", "status": "True" }],
                "allocatable": { "cpu": "2", "memory": "4Gi", "pods": "4" },
            },
        });
        self.candidates.push(Candidate::new(Arc::new(serde_json::from_value(node).unwrap())));
        self
    }

    fn on(mut self, node: &str, name: &str, spec: Value) -> Self {
        let occupant = Arc::new(Occupant::of(pod(name, spec)));
        self.state.place(&ObjectKey::namespaced("default", name), node, &occupant);
        self
    }

    fn choose(&self, spec: Value) -> Result<String, String> {
        let occupant = Occupant::of(pod("new", spec));
        let none = |_: &str| None;
        let topology = Topology::of(&occupant, &self.candidates, &self.state, &none);
        let volumes = Volumes::default();
        let attempt = Attempt { pod: &occupant, topology: &topology, volumes: &volumes, state: &self.state };
        attempt.choose(&self.candidates).map_err(|nowhere| nowhere.message(None))
    }

    fn preempt(&self, spec: Value, budgets: &[Value]) -> Option<(String, Vec<String>)> {
        let occupant = Occupant::of(pod("new", spec));
        let budgets: Vec<_> =
            budgets.iter().map(|budget| Arc::new(serde_json::from_value(budget.clone()).unwrap())).collect();
        let all: Vec<_> = self.candidates.iter().map(|candidate| candidate.name().to_owned()).collect();
        let none = |_: &str| None;
        let volumes = Volumes::default();
        let found = preempt::plan(&occupant, &self.candidates, &all, &self.state, &volumes, &budgets, &none)?;
        Some((found.node, found.victims.into_iter().map(|(key, _)| key.name).collect()))
    }
}

fn near(kind: &str, key: &str) -> Value {
    json!({ "affinity": { kind: { "requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": key, "labelSelector": { "matchLabels": { "app": "web" } },
    }] } } })
}

#[test]
fn every_obstacle_is_named_with_how_many_nodes_have_it() {
    let world = World::default()
        .node("full", "a")
        .on("full", "large", asks("1500m"))
        .node_with("closed", "a", json!({ "unschedulable": true }))
        .node_with(
            "special",
            "a",
            json!({ "taints": [{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }] }),
        )
        .node("other", "b");
    let mut spec = asks("1");
    spec["nodeSelector"] = json!({ "zone": "a" });
    assert_eq!(
        world.choose(spec).unwrap_err(),
        "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, \
         1 node(s) had untolerated taint {gpu: yes}, 1 node(s) were unschedulable. preemption: 0/4 nodes are \
         available: 1 No preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling."
    );
    assert_eq!(World::default().choose(asks("1")).unwrap_err(), "no nodes available to schedule pods");
    assert_eq!(world.choose(asks("1")), Ok("other".to_owned()));
}

#[test]
fn ports_of_the_node_and_its_number_of_pods_are_taken_once() {
    let port =
        json!({ "containers": [{ "name": "main", "ports": [{ "containerPort": 80, "hostPort": 8080 }] }] });
    let mut world = World::default().node("one", "a").on("one", "server", port.clone());
    assert!(
        world
            .choose(port)
            .unwrap_err()
            .contains("1 node(s) didn't have free ports for the requested pod ports")
    );
    for name in ["b", "c", "d"] {
        world = world.on("one", name, json!({}));
    }
    assert!(world.choose(json!({})).unwrap_err().contains("1 Too many pods"));
}

#[test]
fn node_that_is_not_ready_is_as_good_as_tainted() {
    let mut world = World::default().node("one", "a");
    let mut node = (*world.candidates[0].node).clone();
    node.status.as_mut().unwrap().conditions = None;
    world.candidates[0].node = Arc::new(node);
    let taint = "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }";
    assert!(world.choose(json!({})).unwrap_err().contains(taint));
    let tolerant = json!({ "tolerations": [{ "operator": "Exists" }] });
    assert_eq!(world.choose(tolerant), Ok("one".to_owned()));
}

#[test]
fn pods_keep_near_and_apart_as_they_ask() {
    let world = World::default().node("one", "a").node("two", "a").node("three", "b");
    // The first of a group has nobody to be near to.
    assert!(world.choose(near("podAffinity", "zone")).is_ok());
    let world = world.on("three", "first", json!({}));
    assert_eq!(world.choose(near("podAffinity", "zone")), Ok("three".to_owned()));
    let apart = world.choose(near("podAntiAffinity", "zone")).unwrap();
    assert_ne!(apart, "three");
    // Those that are there have their say too.
    let world = World::default().node("one", "a").on("one", "hermit", near("podAntiAffinity", "host"));
    assert!(
        world.choose(json!({})).unwrap_err().contains("didn't satisfy existing pods anti-affinity rules")
    );
    assert!(
        world.choose(near("podAntiAffinity", "host")).unwrap_err().contains("match pod anti-affinity rules")
    );
}

#[test]
fn pods_are_spread_within_the_skew() {
    let spread = |when: &str, least: i32| {
        json!({ "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when, "minDomains": least,
            "labelSelector": { "matchLabels": { "app": "web" } },
        }] })
    };
    let hard = |least| spread("DoNotSchedule", least);
    let world = World::default().node("one", "a").node("two", "b").on("one", "first", json!({}));
    assert_eq!(world.choose(hard(1)), Ok("two".to_owned()));
    let even = world.on("two", "second", json!({}));
    assert!(even.choose(hard(1)).is_ok());
    // As long as there are fewer zones than asked for, the missing ones count as empty.
    assert!(
        even.choose(hard(3)).unwrap_err().contains("2 node(s) didn't match pod topology spread constraints")
    );
    let soft = World::default().node("one", "a").node("two", "b").on("one", "first", json!({}));
    let mut nice = spread("ScheduleAnyway", 1);
    nice["topologySpreadConstraints"][0].as_object_mut().unwrap().remove("minDomains");
    assert_eq!(soft.choose(nice), Ok("two".to_owned()));
}

#[test]
fn best_node_is_the_one_that_is_wished_for_and_then_the_emptiest() {
    let world = World::default().node("one", "a").node("two", "b").on("one", "large", asks("1"));
    assert_eq!(world.choose(asks("500m")), Ok("two".to_owned()));
    let mut wish = asks("500m");
    wish["affinity"] = json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 10, "preference": { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] },
    }] } });
    assert_eq!(world.choose(wish), Ok("one".to_owned()));
    let unloved = json!({ "taints": [{ "key": "slow", "effect": "PreferNoSchedule" }] });
    let world = World::default().node_with("a", "a", unloved).node("b", "b");
    assert_eq!(world.choose(json!({})), Ok("b".to_owned()));
}

#[test]
fn less_important_pods_make_room_and_as_few_as_possible() {
    let world = World::default()
        .node("one", "a")
        .on("one", "small", with_priority("500m", 1))
        .on("one", "large", with_priority("1500m", 2))
        .node("two", "a")
        .on("two", "dear", with_priority("2", 5));
    assert!(world.choose(with_priority("1", 10)).is_err());
    let (node, victims) = world.preempt(with_priority("1", 10), &[]).unwrap();
    assert_eq!((node.as_str(), victims.as_slice()), ("one", ["large".to_owned()].as_slice()));
    assert_eq!(world.preempt(with_priority("400m", 10), &[]).unwrap().1, ["small"]);
    assert_eq!(world.preempt(with_priority("1", 1), &[]), None, "equals do not push each other away");
    // A budget that is used up makes the other node the better one.
    let budget = json!({
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": "web" } } },
        "status": {
            "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3,
        },
    });
    assert_eq!(world.preempt(with_priority("2", 10), &[budget]).unwrap().0, "two");
}

#[test]
fn room_that_was_made_is_kept_for_whom_it_was_made() {
    let mut world = World::default().node("one", "a");
    let promised = Arc::new(Occupant::of(pod("dear", with_priority("1500m", 5))));
    world.state.nominated.insert(ObjectKey::namespaced("default", "dear"), ("one".to_owned(), promised));
    assert!(world.choose(with_priority("1", 1)).unwrap_err().contains("1 Insufficient cpu"));
    assert!(world.choose(with_priority("1", 9)).is_ok());
}

#[test]
fn reason_is_written_once_and_keeps_its_time() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut said = (*pod("new", json!({}))).clone();
    let first = unscheduled(&said, "Unschedulable", "why", now).unwrap();
    said.status = serde_json::from_value(first["status"].clone()).unwrap();
    assert_eq!(unscheduled(&said, "Unschedulable", "why", now), None);
    let later = now + jiff::SignedDuration::from_secs(60);
    let other = unscheduled(&said, "Unschedulable", "other", later).unwrap();
    assert_eq!(other["status"]["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
    assert!(!is_pending(&pod("gated", json!({ "schedulingGates": [{ "name": "later" }] }))));
}

#[test]
fn more_important_pods_are_tried_first() {
    let mut state = State::default();
    for (name, priority) in [("a", 0), ("b", 1000), ("c", 10)] {
        let pod = pod(name, with_priority("1", priority));
        state.wait(&ObjectKey::of(&*pod), &pod, Wakes { pod_gone: true, ..Wakes::default() });
    }
    let names: Vec<_> = state.concerned(|wakes| wakes.pod_gone).into_iter().map(|key| key.name).collect();
    assert_eq!(names, ["b", "c", "a"]);
    assert!(state.concerned(|wakes| wakes.volume).is_empty());
}

#[test]
fn pod_that_waited_for_its_claims_is_tried_as_soon_as_they_change() {
    let mut state = State::default();
    let pod = pod("one", asks("1"));
    let key = ObjectKey::of(&*pod);
    (0..10).for_each(|_| state.wait(&key, &pod, Wakes::default()));
    assert!(!state.pause(&key).is_zero(), "no node took it ten times");
    state.wait_for_claims(&key, &pod, Wakes { volume: true, ..Wakes::default() });
    assert_eq!(state.pause(&key), Duration::ZERO);
}
