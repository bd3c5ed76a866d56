//! Whole nodes: a kubelet in a process of its own, pods, and an API server in this one.
//!
//! This program plays all the roles of the real one. With one of its verbs it is the anchor, a shim, a kubelet, or something
//! that runs in a pod; without, it is the test.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::cell::RefCell;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

mod adoption;
mod dns;
mod images;
mod joining;
mod kubectl;
mod many;
mod nested;
mod network;
mod plane;
mod programs;
mod real;
mod removal;
mod resources;
mod rootless;
mod running;
mod scenarios;
mod support;
mod tenants;
mod traffic;
mod updates;
mod visiting;
mod volumes;

use plane::Kind;

type Test = Box<dyn Fn() + Send + Sync>;

thread_local! {
    /// How the test on this thread failed.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Every test, by its sentence.
const TESTS: &[(&str, fn())] = &[
    (
        "running::containers_run_log_and_end_with_their_code",
        running::containers_run_log_and_end_with_their_code,
    ),
    (
        "running::programs_begin_with_as_many_descriptors_as_the_node_did",
        running::programs_begin_with_as_many_descriptors_as_the_node_did,
    ),
    ("running::a_node_claims_only_what_it_has_looked_at", running::a_node_claims_only_what_it_has_looked_at),
    ("running::readiness_follows_the_probe", running::readiness_follows_the_probe),
    (
        "running::failed_containers_are_restarted_and_unknown_images_are_named",
        running::failed_containers_are_restarted_and_unknown_images_are_named,
    ),
    (
        "running::init_containers_come_first_and_probes_run_inside",
        running::init_containers_come_first_and_probes_run_inside,
    ),
    ("running::hooks_run_and_last_words_are_shown", running::hooks_run_and_last_words_are_shown),
    ("running::a_pod_sees_nothing_of_the_machine", running::a_pod_sees_nothing_of_the_machine),
    (
        "network::pods_share_a_port_and_reach_each_other_directly_and_by_service",
        network::pods_share_a_port_and_reach_each_other_directly_and_by_service,
    ),
    (
        "network::services_lead_to_who_is_there_and_open_connections_stay",
        network::services_lead_to_who_is_there_and_open_connections_stay,
    ),
    (
        "network::pods_have_ports_of_the_node_and_its_network",
        network::pods_have_ports_of_the_node_and_its_network,
    ),
    (
        "tenants::they_reach_all_of_their_own_and_nothing_else",
        tenants::they_reach_all_of_their_own_and_nothing_else,
    ),
    (
        "tenants::an_address_that_was_never_used_leads_nobody_to_the_next_who_has_it",
        tenants::an_address_that_was_never_used_leads_nobody_to_the_next_who_has_it,
    ),
    ("dns::names_of_services_and_pods_are_found", dns::names_of_services_and_pods_are_found),
    ("network::much_goes_through_a_service_whole", network::much_goes_through_a_service_whole),
    (
        "network::datagrams_reach_services_and_move_on_with_them",
        network::datagrams_reach_services_and_move_on_with_them,
    ),
    (
        "adoption::killed_kubelet_leaves_its_pods_and_the_next_takes_them_over",
        adoption::killed_kubelet_leaves_its_pods_and_the_next_takes_them_over,
    ),
    (
        "adoption::pod_whose_network_was_not_finished_is_begun_again",
        adoption::pod_whose_network_was_not_finished_is_begun_again,
    ),
    ("adoption::pods_forgotten_by_the_api_are_removed", adoption::pods_forgotten_by_the_api_are_removed),
    (
        "adoption::kubelet_may_be_killed_anywhere_while_a_pod_begins_or_ends",
        adoption::kubelet_may_be_killed_anywhere_while_a_pod_begins_or_ends,
    ),
    (
        "joining::a_node_joins_by_a_token_and_needs_it_no_more",
        joining::a_node_joins_by_a_token_and_needs_it_no_more,
    ),
    (
        "joining::a_node_joins_a_real_cluster_by_a_token_and_needs_it_no_more",
        joining::a_node_joins_a_real_cluster_by_a_token_and_needs_it_no_more,
    ),
    (
        "many::five_hundred_pods_need_no_more_threads_and_leave_nothing",
        many::five_hundred_pods_need_no_more_threads_and_leave_nothing,
    ),
    ("nested::a_pod_can_be_a_node_with_pods_of_its_own", nested::a_pod_can_be_a_node_with_pods_of_its_own),
    ("removal::deleted_pod_leaves_nothing", removal::deleted_pod_leaves_nothing),
    (
        "removal::stopped_pods_come_back_with_the_next_kubelet",
        removal::stopped_pods_come_back_with_the_next_kubelet,
    ),
    ("resources::limits_are_enforced_or_said_not_to_be", resources::limits_are_enforced_or_said_not_to_be),
    (
        "resources::groups_hold_what_was_asked_for_and_go_with_the_pod",
        resources::groups_hold_what_was_asked_for_and_go_with_the_pod,
    ),
    (
        "resources::a_node_without_limits_says_so_and_still_counts",
        resources::a_node_without_limits_says_so_and_still_counts,
    ),
    ("resources::what_is_used_is_counted", resources::what_is_used_is_counted),
    ("resources::containers_are_told_what_they_may_use", resources::containers_are_told_what_they_may_use),
    (
        "resources::a_hook_after_the_start_holds_back_running",
        resources::a_hook_after_the_start_holds_back_running,
    ),
    (
        "resources::failed_probes_and_missing_images_are_told_in_events",
        resources::failed_probes_and_missing_images_are_told_in_events,
    ),
    ("resources::a_followed_log_survives_its_rotation", resources::a_followed_log_survives_its_rotation),
    (
        "rootless::an_ordinary_user_runs_pods_and_nodes_in_pods",
        rootless::an_ordinary_user_runs_pods_and_nodes_in_pods,
    ),
    (
        "images::upstream_programs_run_and_are_asked_over_grpc",
        images::upstream_programs_run_and_are_asked_over_grpc,
    ),
    ("images::listed_programs_run_under_their_name", images::listed_programs_run_under_their_name),
    ("updates::changes_reach_running_pods", updates::changes_reach_running_pods),
    (
        "updates::a_pod_that_was_taken_for_lost_is_said_to_be_ready_again",
        updates::a_pod_that_was_taken_for_lost_is_said_to_be_ready_again,
    ),
    ("updates::what_was_missing_wakes_who_waits_for_it", updates::what_was_missing_wakes_who_waits_for_it),
    ("visiting::programs_in_pods_are_visited", visiting::programs_in_pods_are_visited),
    (
        "visiting::programs_in_pods_are_visited_through_a_real_server",
        visiting::programs_in_pods_are_visited_through_a_real_server,
    ),
    ("visiting::strangers_are_asked_about", visiting::strangers_are_asked_about),
    ("volumes::what_pods_refer_to_is_there", volumes::what_pods_refer_to_is_there),
    (
        "volumes::released_volume_is_removed_with_its_folder",
        volumes::released_volume_is_removed_with_its_folder,
    ),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    match first.as_deref() {
        Some(pilothouse_kubelet::anchor::VERB) => return pilothouse_kubelet::anchor::main(arguments),
        Some(pilothouse_kubelet::shim::VERB) => return pilothouse_kubelet::shim::main(arguments),
        Some("kubelet") => return programs::kubelet(arguments.next().as_deref()),
        Some("serve") => return programs::serve(&arguments.collect::<Vec<_>>()),
        Some("relay") => return programs::relay(&arguments.collect::<Vec<_>>()),
        Some("talk") => return network::talk(&arguments.collect::<Vec<_>>()),
        Some("echo-datagrams") => return network::echo_datagrams(&arguments.collect::<Vec<_>>()),
        Some("send-datagrams") => return network::send_datagrams(&arguments.collect::<Vec<_>>()),
        Some("drink") => return network::drink(&arguments.collect::<Vec<_>>()),
        Some("pour") => return network::pour(&arguments.collect::<Vec<_>>()),
        Some("fetch") => return programs::fetch(&arguments.collect::<Vec<_>>()),
        Some("slow") => return traffic::serve(&arguments.collect::<Vec<_>>()),
        Some("quiet") => return traffic::until_quiet(),
        Some("traffic") => return traffic::send(&arguments.collect::<Vec<_>>()),
        _ => {}
    }
    ignore_hang_ups();
    let mut tests: Vec<(String, Test)> =
        TESTS.iter().map(|(name, test)| ((*name).to_owned(), Box::new(*test) as Test)).collect();
    for kind in Kind::BOTH {
        for (name, scenario) in scenarios::ALL {
            let test = move || scenarios::run_on(kind, name, *scenario);
            tests.push((format!("scenarios::{}::{name}", kind.name()), Box::new(test)));
        }
    }
    let rest: Vec<String> = first.into_iter().chain(arguments).collect();
    if rest.iter().any(|argument| argument == "--list") {
        say(&tests.iter().map(|(name, _)| format!("{name}: test\n")).collect::<String>());
        return ExitCode::SUCCESS;
    }
    let filters: Vec<_> = rest.iter().filter(|argument| !argument.starts_with('-')).collect();
    let chosen = tests
        .iter()
        .filter(|(name, _)| filters.is_empty() || filters.iter().any(|one| name.contains(one.as_str())));
    let waiting = Mutex::new(chosen.collect::<Vec<_>>());
    let passed = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    remember_panics();
    // Most of their time is somebody else's: two processors carry four.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some((name, test)) = waiting.lock().unwrap().pop() else { return };
                    let outcome = catch_unwind(AssertUnwindSafe(test));
                    say(&format!("test {name} ... {}\n", if outcome.is_ok() { "ok" } else { "FAILED" }));
                    if outcome.is_ok() {
                        passed.fetch_add(1, Ordering::Relaxed);
                    } else {
                        failed.lock().unwrap().push((name, LAST_PANIC.take()));
                    }
                }
            });
        }
    });
    plane::end_all();
    let (passed, failed) = (passed.into_inner(), failed.into_inner().unwrap());
    say(&summary(passed, &failed));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

/// What went wrong, and the counts, as the usual harness writes them: that is what `./test` reads.
fn summary(passed: usize, failed: &[(&String, String)]) -> String {
    let mut text = String::from("\n");
    if !failed.is_empty() {
        text += "failures:\n\n";
        for (name, panic) in failed {
            text += &format!("---- {name} ----\n{panic}\n\n");
        }
    }
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    text + &format!("test result: {verdict}. {passed} passed; {} failed; 0 ignored\n", failed.len())
}

/// Panics are shown where they happen, among what other tests say at that time, and once more in the summary.
fn remember_panics() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        LAST_PANIC.set(panic.to_string());
        shown(panic);
    }));
}

fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// As under `nohup`: what whoever starts a node ignores must not reach its pods.
#[expect(unsafe_code, reason = "what a signal does is changed for the whole process")]
fn ignore_hang_ups() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no handler is set, and nothing else of this process is about that signal.
    unsafe { signal(Signal::SIGHUP, SigHandler::SigIgn) }.unwrap();
}
