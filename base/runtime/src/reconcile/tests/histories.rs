//! Random histories: whatever happens in whatever order, two promises hold.

use proptest::prelude::*;
use tokio::runtime;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Wake(u8),
    WakeAll,
    Pass(Duration),
}

/// What one pass does, and how long it takes.
#[derive(Clone, Copy, Debug)]
struct Play {
    takes: Duration,
    ends: Ends,
}

#[derive(Clone, Copy, Debug)]
enum Ends {
    Done,
    After(Duration),
    Fails,
    Panics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Woken(u8),
    AllWoken,
    Began(u8),
    Ended(u8),
}

struct Actor {
    keys: Vec<u8>,
    plays: Mutex<Vec<Play>>,
    log: Arc<Mutex<Vec<Event>>>,
}

impl Reconcile for Actor {
    type Key = u8;

    async fn list(&self) -> Result<Vec<u8>, TaskError> {
        // Long enough for something to happen meanwhile.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(self.keys.clone())
    }

    async fn reconcile(&self, key: &u8) -> Result<Next, TaskError> {
        self.log.lock().unwrap().push(Event::Began(*key));
        let play = self.plays.lock().unwrap().pop();
        let Play { takes, ends } = play.unwrap_or(Play { takes: Duration::ZERO, ends: Ends::Done });
        tokio::time::sleep(takes).await;
        self.log.lock().unwrap().push(Event::Ended(*key));
        match ends {
            Ends::Done => Ok(Next::Done),
            Ends::After(delay) => Ok(Next::After(delay)),
            Ends::Fails => Err("not yet".into()),
            // Unwinds as a panic does, without the hook that would fill the test's output.
            Ends::Panics => std::panic::resume_unwind(Box::new("impossible state")),
        }
    }
}

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0_u8..4).prop_map(Step::Wake),
        1 => Just(Step::WakeAll),
        4 => millis(0..200).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..60)
}

fn plays() -> impl Strategy<Value = Vec<Play>> {
    let ends = prop_oneof![
        4 => Just(Ends::Done),
        2 => millis(0..500).prop_map(Ends::After),
        2 => Just(Ends::Fails),
        1 => Just(Ends::Panics),
    ];
    let play = (millis(0..100), ends).prop_map(|(takes, ends)| Play { takes, ends });
    prop::collection::vec(play, 0..80)
}

/// Lives through a history, waits until all is at rest, and answers what happened in which order.
fn live(steps: Vec<Step>, plays: Vec<Play>, concurrency: usize, seed: u64) -> Vec<Event> {
    let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let log = Arc::new(Mutex::new(Vec::new()));
        let actor = Actor { keys: vec![0, 1], plays: Mutex::new(plays), log: log.clone() };
        let options = Options { concurrency, jitter_seed: Some(seed), ..options() };
        let tasks = Tasks::new("test", Shutdown::new());
        let handle = Controller::new("actor", actor, options).spawn(&tasks);
        for step in steps {
            match step {
                Step::Wake(key) => {
                    log.lock().unwrap().push(Event::Woken(key));
                    handle.wake(key);
                }
                Step::WakeAll => {
                    log.lock().unwrap().push(Event::AllWoken);
                    handle.wake_all();
                }
                Step::Pass(time) => tokio::time::sleep(time).await,
            }
        }
        // Retries and second looks come to an end, since the plays do.
        loop {
            handle.at_rest().await;
            if handle.status().active == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        log.lock().unwrap().clone()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn one_pass_per_key_at_a_time_and_every_wake_is_answered(
        steps in steps(), plays in plays(), concurrency in 1_usize..4, seed: u64,
    ) {
        let log = live(steps, plays, concurrency, seed);

        let mut running = Vec::new();
        for event in &log {
            match event {
                Event::Began(key) => {
                    prop_assert!(!running.contains(key), "two passes over {} at once: {:?}", key, log);
                    running.push(*key);
                    prop_assert!(running.len() <= concurrency);
                }
                Event::Ended(key) => running.retain(|other| other != key),
                Event::Woken(_) | Event::AllWoken => {}
            }
        }

        for (index, event) in log.iter().enumerate() {
            let owed: &[u8] = match event {
                Event::Woken(key) => &[*key],
                Event::AllWoken => &[0, 1],
                Event::Began(_) | Event::Ended(_) => &[],
            };
            for key in owed {
                prop_assert!(
                    log[index..].contains(&Event::Began(*key)),
                    "no pass over {} after event {}: {:?}", key, index, log
                );
            }
        }
    }
}
