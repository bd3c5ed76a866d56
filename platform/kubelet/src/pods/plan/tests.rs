use serde_json::json;

use super::*;
use crate::shim::protocol::{Exit, Run};

const START: i64 = 1_000_000;

fn pod(spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec}))
        .unwrap()
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(START + second).unwrap()
}

fn ran(attempt: u32, exit: Option<(i32, i64)>) -> ContainerState {
    let exit = exit.map(|(code, at)| Exit { code, signal: None, ..Exit::killed(second(at)) });
    ContainerState { attempt, run: Run { pid: 7, started_at: second(0), exit }, previous: None }
}

/// The plan in a few words.
fn words(pod: &Pod, states: &[(&str, ContainerState)], now: i64) -> String {
    let state = State {
        containers: states.iter().map(|(name, state)| ((*name).to_owned(), state.clone())).collect(),
    };
    let images = Images::try_new("/bin/pilothouse".into(), BTreeMap::new(), None).unwrap();
    let (health, failures) = (BTreeMap::new(), BTreeMap::new());
    let plan = plan(&Observed {
        pod,
        state: &state,
        health: &health,
        failures: &failures,
        held: &BTreeSet::new(),
        images: &images,
        now: second(now),
    });
    let mut words = vec![format!("{:?}", plan.phase)];
    for action in &plan.actions {
        words.push(match action {
            Action::Start { container, attempt } => format!("start {}#{attempt}", container.name),
            Action::End { container, .. } => format!("end {}", container.name),
        });
    }
    for (name, waiting) in &plan.waiting {
        if waiting.reason != "ContainerCreating" {
            words.push(format!("{name} {}", waiting.reason));
        }
    }
    if let Some(again) = plan.again {
        words.push(format!("again {}s", again.as_secs()));
    }
    words.join(", ")
}

fn simple(policy: &str) -> Pod {
    pod(json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "busybox"}]}))
}

#[test]
fn containers_are_started_once_and_restarted_by_policy_later_and_later() {
    let table = [
        ("Always", None, 0, "Pending, start a#0"),
        ("Always", Some(ran(0, None)), 0, "Running"),
        ("Always", Some(ran(0, Some((0, 5)))), 5, "Running, start a#1"),
        ("Always", Some(ran(1, Some((1, 5)))), 5, "Running, a CrashLoopBackOff, again 10s"),
        ("Always", Some(ran(1, Some((1, 5)))), 15, "Running, start a#2"),
        ("Always", Some(ran(3, Some((1, 5)))), 5, "Running, a CrashLoopBackOff, again 40s"),
        ("Always", Some(ran(30, Some((1, 5)))), 5, "Running, a CrashLoopBackOff, again 300s"),
        ("OnFailure", Some(ran(0, Some((0, 5)))), 5, "Succeeded"),
        ("OnFailure", Some(ran(0, Some((2, 5)))), 5, "Running, start a#1"),
        ("Never", Some(ran(0, Some((2, 5)))), 5, "Failed"),
        ("Never", Some(ran(0, Some((0, 5)))), 5, "Succeeded"),
    ];
    for (policy, state, now, expected) in table {
        let states: Vec<_> = state.into_iter().map(|state| ("a", state)).collect();
        assert_eq!(words(&simple(policy), &states, now), expected, "{policy} {states:?}");
    }
}

#[test]
fn init_containers_go_one_after_the_other_before_the_rest() {
    let pod = |policy: &str| {
        pod(json!({"restartPolicy": policy,
            "initContainers": [{"name": "i", "image": "busybox"}, {"name": "j", "image": "busybox"}],
            "containers": [{"name": "a", "image": "busybox"}]}))
    };
    let done = || ran(0, Some((0, 1)));
    let always = pod("Always");
    assert_eq!(words(&always, &[], 0), "Pending, start i#0, a PodInitializing, j PodInitializing");
    assert_eq!(words(&always, &[("i", ran(0, None))], 0), "Pending, a PodInitializing, j PodInitializing");
    assert_eq!(words(&always, &[("i", done())], 1), "Pending, start j#0, a PodInitializing");
    assert_eq!(words(&always, &[("i", done()), ("j", done())], 1), "Pending, start a#0");
    let failed = || ran(0, Some((1, 1)));
    assert_eq!(
        words(&always, &[("i", failed())], 1),
        "Pending, start i#1, a PodInitializing, j PodInitializing"
    );
    assert_eq!(words(&pod("Never"), &[("i", failed())], 1), "Failed, a PodInitializing, j PodInitializing");
}

#[test]
fn unknown_image_waits_while_the_others_run() {
    let pod =
        pod(json!({"containers": [{"name": "a", "image": "nginx"}, {"name": "b", "image": "busybox"}]}));
    assert_eq!(words(&pod, &[], 0), "Pending, start b#0, a ErrImagePull");
    assert_eq!(words(&pod, &[("b", ran(0, None))], 0), "Running, a ErrImagePull");
}

#[test]
fn a_long_run_forgives_earlier_failures() {
    assert_eq!(count_failures(&ran(5, Some((1, 5))), Some(5)), 6);
    assert_eq!(count_failures(&ran(5, Some((1, 600))), Some(5)), 1);
}
