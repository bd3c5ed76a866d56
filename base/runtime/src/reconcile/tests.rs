use std::collections::HashMap;
use std::future;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::*;
use crate::shutdown::Reason;

mod histories;
mod lanes;

/// A reconciler the test turns the crank of.
#[derive(Default)]
struct World {
    keys: Mutex<Vec<&'static str>>,
    /// When each pass began.
    passes: Mutex<Vec<(&'static str, Instant)>>,
    /// What the next passes over a key come to; `Done` when there is no more.
    script: Mutex<HashMap<&'static str, Vec<Act>>>,
    /// What a `Hold` waits for.
    gate: Gate,
    running: AtomicUsize,
    most_running: AtomicUsize,
    listings_fail: Mutex<usize>,
}

struct Gate(Semaphore);

#[derive(Clone, Copy)]
enum Act {
    After(Duration),
    Fail,
    Panic,
    Hold,
    HoldThenFail,
    Hang,
}

impl Default for Gate {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<World>);

impl Reconcile for Shared {
    type Key = &'static str;

    async fn list(&self) -> Result<Vec<&'static str>, TaskError> {
        let mut failing = self.0.listings_fail.lock().unwrap();
        if *failing > 0 {
            *failing -= 1;
            return Err("the store is away".into());
        }
        Ok(self.0.keys.lock().unwrap().clone())
    }

    async fn reconcile(&self, key: &&'static str) -> Result<Next, TaskError> {
        let world = &self.0;
        world.passes.lock().unwrap().push((key, Instant::now()));
        let running = world.running.fetch_add(1, Ordering::SeqCst) + 1;
        world.most_running.fetch_max(running, Ordering::SeqCst);
        let act = world.script.lock().unwrap().get_mut(key).and_then(Vec::pop);
        let result = match act {
            None => Ok(Next::Done),
            Some(Act::After(delay)) => Ok(Next::After(delay)),
            Some(Act::Fail) => Err("not yet".into()),
            Some(Act::Hang) => future::pending().await,
            Some(act @ (Act::Hold | Act::HoldThenFail)) => {
                world.gate.0.acquire().await.unwrap().forget();
                if matches!(act, Act::Hold) { Ok(Next::Done) } else { Err("not yet".into()) }
            }
            Some(Act::Panic) => {
                world.running.fetch_sub(1, Ordering::SeqCst);
                panic!("impossible state");
            }
        };
        world.running.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

/// A running controller over a world.
struct Rig {
    world: Arc<World>,
    handle: Handle<&'static str>,
    tasks: Tasks,
    begun: Instant,
}

impl Rig {
    fn start(world: World, options: Options) -> Self {
        let world = Arc::new(world);
        let tasks = Tasks::new("test", Shutdown::new());
        let options = Options { jitter_seed: Some(1), ..options };
        let handle = Controller::new("clusters", Shared(world.clone()), options).spawn(&tasks);
        Self { world, handle, tasks, begun: Instant::now() }
    }

    /// When passes over `key` began, in seconds since the start.
    fn passes(&self, key: &str) -> Vec<f64> {
        let passes = self.world.passes.lock().unwrap();
        passes
            .iter()
            .filter(|(passed, _)| *passed == key)
            .map(|(_, at)| (*at - self.begun).as_secs_f64())
            .collect()
    }

    fn status_of(&self, key: &str) -> Option<KeyStatus> {
        self.handle.status().keys.into_iter().find(|status| status.key == key)
    }
}

fn world(keys: &[&'static str]) -> World {
    World { keys: Mutex::new(keys.to_vec()), ..World::default() }
}

/// The acts in the order they are to happen.
fn scripted(key: &'static str, acts: &[Act]) -> World {
    let world = world(&[key]);
    world.script.lock().unwrap().insert(key, acts.iter().rev().copied().collect());
    world
}

fn options() -> Options {
    Options { resync: Duration::from_secs(3600), ..Options::default() }
}

#[tokio::test(start_paused = true)]
async fn every_listed_key_is_visited_at_the_start_and_every_resync() {
    let rig = Rig::start(world(&["a", "b"]), Options { resync: Duration::from_secs(10), ..options() });
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(rig.passes("a"), [0.0, 10.0, 20.0]);
    assert_eq!(rig.passes("b"), [0.0, 10.0, 20.0]);
}

#[tokio::test(start_paused = true)]
async fn woken_key_is_visited_at_once_even_if_no_listing_knows_it() {
    let rig = Rig::start(world(&[]), options());
    rig.handle.at_rest().await;
    rig.handle.wake("new");
    rig.handle.at_rest().await;
    assert_eq!(rig.passes("new"), [0.0]);
}

#[tokio::test(start_paused = true)]
async fn wakes_during_a_pass_lead_to_exactly_one_more() {
    let rig = Rig::start(scripted("a", &[Act::Hold]), options());
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..5 {
        rig.handle.wake("a");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.passes("a"), [0.0], "a second pass began while the first was running");
    let state = rig.status_of("a").unwrap().state;
    assert_eq!(state, KeyState::Running { elapsed: Duration::from_secs(2), woken: true });

    rig.world.gate.0.add_permits(1);
    rig.handle.at_rest().await;
    assert_eq!(rig.passes("a"), [0.0, 2.0]);
}

#[tokio::test(start_paused = true)]
async fn wake_all_visits_every_key_as_listed_afterwards() {
    let rig = Rig::start(world(&["a"]), options());
    rig.handle.at_rest().await;
    rig.world.keys.lock().unwrap().push("b");
    rig.handle.wake_all();
    rig.handle.at_rest().await;
    assert_eq!(rig.passes("a").len(), 2);
    assert_eq!(rig.passes("b").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn second_look_comes_when_asked_for_and_a_wake_does_not_wait_for_it() {
    let soon = Duration::from_secs(5);
    let rig = Rig::start(scripted("a", &[Act::After(soon), Act::After(soon)]), options());
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(rig.passes("a"), [0.0, 5.0]);
    rig.handle.wake("a");
    tokio::time::sleep(Duration::from_secs(60)).await;
    // The wake replaced the look that was due at ten.
    assert_eq!(rig.passes("a"), [0.0, 5.0, 6.0]);
}

#[tokio::test(start_paused = true)]
async fn never_may_be_written_as_the_longest_duration() {
    let forever = Options { resync: Duration::MAX, pass_limit: Duration::MAX, ..options() };
    let rig = Rig::start(scripted("a", &[Act::After(Duration::MAX)]), forever);
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    assert_eq!(rig.passes("a"), [0.0]);
    rig.handle.wake("a");
    rig.handle.at_rest().await;
    assert_eq!(rig.passes("a").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_by_the_policy_and_success_resets_it() {
    let rig = Rig::start(scripted("a", &[Act::Fail; 12]), options());
    tokio::time::sleep(Duration::from_secs(1800)).await;

    let passes = rig.passes("a");
    assert_eq!(passes.len(), 13);
    for (attempt, pair) in passes.windows(2).enumerate() {
        let ceiling = Policy::RECONCILE_ERROR.ceiling(u32::try_from(attempt).unwrap()).as_secs_f64();
        // Timers have a granularity of a millisecond.
        assert!(pair[1] - pair[0] <= ceiling + 0.002, "retry {attempt} came after {:?}", pair[1] - pair[0]);
    }
    assert!(passes[12] > 5.0, "twelve failures in a row were retried within {}s", passes[12]);
    assert_eq!(rig.status_of("a"), None, "a key at rest is still held in memory");

    rig.world.script.lock().unwrap().insert("a", vec![Act::Fail]);
    rig.handle.wake("a");
    rig.handle.at_rest().await;
    assert_eq!(rig.status_of("a").unwrap().failures, 1);
}

#[tokio::test(start_paused = true)]
async fn waking_a_failing_key_shortens_its_wait_but_does_not_make_it_spin() {
    let rig = Rig::start(scripted("a", &[Act::Fail; 100]), options());
    tokio::time::sleep(Duration::from_secs(120)).await;
    let before = rig.passes("a").len();
    let begun = Instant::now();
    for _ in 0..1000 {
        rig.handle.wake("a");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let during = rig.passes("a").len() - before;
    let allowed = begun.elapsed().div_duration_f64(Policy::RECONCILE_ERROR.first()) as usize;
    assert!((allowed / 2..=allowed + 1).contains(&during), "{during} passes, {allowed} allowed");
}

#[tokio::test(start_paused = true)]
async fn second_look_counts_as_success() {
    let soon = Duration::from_secs(1);
    let rig = Rig::start(scripted("a", &[Act::Fail, Act::After(soon), Act::Fail]), options());
    while rig.passes("a").len() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    rig.handle.at_rest().await;
    assert_eq!(rig.status_of("a").unwrap().failures, 1);
}

#[tokio::test(start_paused = true)]
async fn resync_does_not_hurry_a_failing_key() {
    let often = Options { resync: Duration::from_secs(1), ..options() };
    let rig = Rig::start(scripted("a", &[Act::Fail; 1000]), often);
    tokio::time::sleep(Duration::from_secs(300)).await;
    let passes = rig.passes("a").len();
    assert!(passes < 50, "{passes} passes: one per resync");
}

#[tokio::test(start_paused = true)]
async fn wake_during_a_pass_that_fails_shortens_the_wait_too() {
    let mut acts = vec![Act::Fail; 10];
    acts.push(Act::HoldThenFail);
    let rig = Rig::start(scripted("a", &acts), Options { pass_limit: Duration::MAX, ..options() });
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(rig.passes("a").len(), 11);
    rig.handle.wake("a");
    rig.world.gate.0.add_permits(1);
    // Ten failures in a row would have it wait for most of a minute. Timers have a granularity of a millisecond.
    tokio::time::sleep(Policy::RECONCILE_ERROR.first() + Duration::from_millis(2)).await;
    assert_eq!(rig.passes("a").len(), 12);
}

#[tokio::test(start_paused = true)]
async fn panic_is_that_keys_failure_and_nobody_elses() {
    let rig = Rig::start(scripted("a", &[Act::Panic]), options());
    rig.handle.at_rest().await;
    let status = rig.status_of("a").unwrap();
    assert_eq!(status.last_error.as_deref(), Some("panicked: impossible state"));
    rig.handle.wake("b");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.passes("b").len(), 1);
    assert_eq!(rig.passes("a").len(), 2);
    assert!(!rig.tasks.shutdown().is_requested());
}

#[tokio::test(start_paused = true)]
async fn pass_that_hangs_is_cancelled_and_counts_as_failed() {
    let options = Options { concurrency: 1, pass_limit: Duration::from_secs(30), ..options() };
    let rig = Rig::start(scripted("a", &[Act::Hang]), options);
    tokio::time::sleep(Duration::from_secs(1)).await;
    rig.handle.wake("b");
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(rig.passes("b"), [30.0]);
    assert_eq!(rig.passes("a").len(), 2);
    assert_eq!(rig.handle.status().totals.failures, 1);
    let recent = rig.handle.status().recent;
    assert!(recent.iter().any(|pass| pass.error.as_deref() == Some("took longer than 30s")));
}

#[tokio::test(start_paused = true)]
async fn no_more_passes_run_at_once_than_allowed() {
    let world = world(&["a", "b", "c", "d", "e"]);
    for key in ["a", "b", "c", "d", "e"] {
        world.script.lock().unwrap().insert(key, vec![Act::Hold]);
    }
    let rig = Rig::start(world, Options { concurrency: 3, ..options() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.handle.status().running, 3);
    assert_eq!(rig.handle.status().active, 5);
    rig.world.gate.0.add_permits(5);
    rig.handle.at_rest().await;
    assert_eq!(rig.world.most_running.load(Ordering::SeqCst), 3);
    assert_eq!(rig.handle.status().totals.passes, 5);
}

#[tokio::test(start_paused = true)]
async fn failed_listing_is_tried_again_long_before_the_next_resync() {
    let world = world(&["a"]);
    *world.listings_fail.lock().unwrap() = 2;
    let rig = Rig::start(world, options());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.passes("a").len(), 1);
    assert_eq!(rig.handle.status().totals.listings, 3);
    assert_eq!(rig.handle.status().totals.listing_error, None);
}

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_running_passes_and_starts_no_others() {
    let rig = Rig::start(scripted("a", &[Act::Hold]), Options { concurrency: 1, ..options() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    rig.handle.wake("a");
    rig.handle.wake("b");
    rig.tasks.shutdown().request(Reason::Asked("done".into()));
    let mut drained = Box::pin(rig.tasks.drain(Duration::from_secs(10)));
    tokio::select! {
        biased;
        _ = &mut drained => panic!("did not wait for the running pass"),
        () = tokio::time::sleep(Duration::from_secs(1)) => rig.world.gate.0.add_permits(1),
    }
    drained.await.unwrap();
    assert_eq!(rig.world.passes.lock().unwrap().len(), 1);
    assert_eq!(rig.tasks.shutdown().reason(), Some(Reason::Asked("done".into())));
}

#[tokio::test(start_paused = true)]
async fn woken_keys_overtake_a_resync_but_do_not_starve_it() {
    let names: Vec<&'static str> = (0..40).map(|index| &*format!("routine-{index:02}").leak()).collect();
    let rig = Rig::start(world(&names), Options { concurrency: 1, ..options() });
    let urgent: Vec<&'static str> = (0..10).map(|index| &*format!("urgent-{index}").leak()).collect();
    for key in &urgent {
        rig.handle.wake(key);
    }
    rig.handle.at_rest().await;
    let order: Vec<_> = rig.world.passes.lock().unwrap().iter().map(|(key, _)| *key).collect();
    let last_urgent = order.iter().rposition(|key| key.starts_with("urgent")).unwrap();
    let before = order[..last_urgent].iter().filter(|key| key.starts_with("routine")).count();
    assert_eq!(order.len(), 50);
    assert_eq!(before, 1, "ten urgent starts leave room for one routine one: {order:?}");
}

#[tokio::test(start_paused = true)]
async fn status_is_a_page() {
    let rig = Rig::start(scripted("a", &[Act::Fail, Act::Fail]), options());
    rig.handle.wake("b");
    rig.handle.at_rest().await;
    let mut status = rig.handle.status();
    // The delay is random.
    status.keys[0].state = KeyState::Waiting { remaining: Duration::from_millis(40) };
    status.recent.sort_by(|left, right| left.key.cmp(&right.key));
    insta::assert_json_snapshot!(status, @r#"
    {
      "name": "clusters",
      "totals": {
        "wakes": 1,
        "passes": 2,
        "failures": 1,
        "listings": 1,
        "listed": 1,
        "listingError": null
      },
      "running": 0,
      "active": 1,
      "failing": 1,
      "keys": [
        {
          "key": "a",
          "state": "waiting",
          "for": "40ms",
          "failures": 1,
          "lastError": "not yet",
          "lastDuration": "0s"
        }
      ],
      "recent": [
        {
          "key": "a",
          "ago": "0s",
          "duration": "0s",
          "error": "not yet"
        },
        {
          "key": "b",
          "ago": "0s",
          "duration": "0s",
          "error": null
        }
      ]
    }
    "#);
}
