use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use rstest::rstest;

use super::*;

/// One more while workers are replaced, and none fewer.
const ONE_MORE: Rollout = Rollout::Rolling { max_surge: 1, max_unavailable: 0 };
const ONE_FEWER: Rollout = Rollout::Rolling { max_surge: 0, max_unavailable: 1 };
const IN_PLACE: Rollout = Rollout::InPlace { max_unavailable: 1 };

/// `0` is a ready worker with that ordinal; `0-` one whose node is not ready, `0x` one that ended, `0s` a sick one, `0~` one that is
/// going, `0*` a ready one of an older configuration, `0u` one that is being changed.
fn workers(text: &str) -> Vec<Worker> {
    text.split_whitespace()
        .map(|word| {
            let digits = word.trim_end_matches(|mark: char| !mark.is_ascii_digit());
            Worker {
                name: format!("pool-{digits}"),
                created: Some(Timestamp::UNIX_EPOCH),
                made_of: fingerprint(if word.contains('*') { "old" } else { "new" }),
                going: word.contains('~'),
                updating: word.contains('u'),
                ended: word.contains('x'),
                sick: word.contains('s'),
                running: true,
                ready: Some(!word.contains(['-', 's'])),
                state: String::new(),
            }
        })
        .collect()
}

fn fingerprint(version: &str) -> Fingerprint {
    Fingerprint { version: version.to_owned(), ..Fingerprint::default() }
}

fn planned(rollout: Rollout, replicas: usize, text: &str) -> String {
    let made_of = fingerprint("new");
    let wanted = Wanted { pool: "pool", replicas, made_of: &made_of, rollout };
    let words = plan(&wanted, &workers(text)).into_iter().map(|action| match action {
        Action::Create(name) => name.replace("pool-", "+"),
        Action::Update(name) => name.replace("pool-", "^"),
        Action::Delete(name) => name.replace("pool", ""),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[rstest]
#[case(0, "", "")]
#[case(3, "", "+0 +1 +2")]
#[case(3, "0 1 2", "")]
#[case(3, "0 2", "+1")]
#[case(2, "0 1~", "+2")] // the name is taken until its machine is gone
#[case(1, "0 1 2", "-2 -1")] // the newest first
#[case(0, "0 1-", "-1 -0")]
#[case(2, "0 1x", "-1 +2")] // what ended is replaced
#[case(2, "0 1s", "-1 +2")] // and what is sick
#[case(1, "0 1 2~", "-1")]
#[case(2, "9 10", "")]
#[case(1, "9 10", "-10")] // by number, not by letter
fn workers_follow_the_number_asked_for(
    #[case] replicas: usize,
    #[case] text: &str,
    #[case] expected: &str,
    #[values(ONE_MORE, ONE_FEWER, Rollout::OnDelete, IN_PLACE)] rollout: Rollout,
) {
    assert_eq!(planned(rollout, replicas, text), expected);
}

#[rstest]
#[case(2, "0* 1*", "+2")] // one more first
#[case(2, "0* 1* 2-", "")] // it is not ready yet
#[case(2, "0* 1* 2", "-1")]
#[case(2, "0* 1*~ 2", "+3")]
#[case(2, "0* 2 3", "-0")]
#[case(2, "2 3", "")]
#[case(1, "0*", "+1")]
#[case(1, "0* 1* 2*", "-2 -1")] // fewer are wanted as well
#[case(2, "0* 1*- 2", "-1")] // who does no work goes first
fn outdated_workers_are_replaced_without_a_gap(
    #[case] replicas: usize,
    #[case] text: &str,
    #[case] expected: &str,
) {
    assert_eq!(planned(ONE_MORE, replicas, text), expected);
}

#[rstest]
#[case(ONE_FEWER, 2, "0* 1*", "-1")]
#[case(ONE_FEWER, 2, "0* 1*~", "+2")]
#[case(ONE_FEWER, 2, "0* 1*~ 2-", "")]
#[case(ONE_FEWER, 2, "0* 2", "-0")]
#[case(Rollout::Rolling { max_surge: 2, max_unavailable: 0 }, 3, "0* 1* 2*", "+3 +4")]
#[case(Rollout::Rolling { max_surge: 0, max_unavailable: 0 }, 1, "0*", "+1")] // would stand still
#[case(Rollout::OnDelete, 2, "0* 1*", "")]
#[case(Rollout::OnDelete, 2, "0* 1*~", "+2")]
#[case(Rollout::OnDelete, 1, "0* 1", "-0")] // one too many: the outdated one
#[case(IN_PLACE, 2, "0* 1*", "^0")]
#[case(IN_PLACE, 2, "0*u 1*", "")]
#[case(IN_PLACE, 2, "0 1*", "^1")]
#[case(IN_PLACE, 2, "0- 1*", "")] // one does not work already
#[case(IN_PLACE, 2, "0* 1*-", "^1")] // the one that does not work costs nothing
#[case(IN_PLACE, 1, "0* 1*", "^0 -1")]
#[case(Rollout::InPlace { max_unavailable: 2 }, 3, "0* 1* 2*", "^0 ^1")]
fn each_way_of_changing_keeps_its_bounds(
    #[case] rollout: Rollout,
    #[case] replicas: usize,
    #[case] text: &str,
    #[case] expected: &str,
) {
    assert_eq!(planned(rollout, replicas, text), expected);
}

/// A pool, and everything that can happen to it.
struct World {
    workers: Vec<Worker>,
    replicas: usize,
    version: u32,
    rollout: Rollout,
    clock: i64,
}

impl World {
    fn made_of(&self) -> Fingerprint {
        fingerprint(&self.version.to_string())
    }

    fn plan(&self) -> Vec<Action> {
        let made_of = self.made_of();
        let wanted =
            Wanted { pool: "pool", replicas: self.replicas, made_of: &made_of, rollout: self.rollout };
        plan(&wanted, &self.workers)
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Create(name) => {
                    assert!(!self.workers.iter().any(|worker| worker.name == name), "{name} exists");
                    self.clock += 1;
                    self.workers.push(Worker {
                        name,
                        created: Timestamp::from_second(self.clock).ok(),
                        made_of: self.made_of(),
                        going: false,
                        updating: false,
                        ended: false,
                        sick: false,
                        running: true,
                        ready: None,
                        state: String::new(),
                    });
                }
                Action::Update(name) => self.find(&name).updating = true,
                Action::Delete(name) => self.find(&name).going = true,
            }
        }
    }

    fn find(&mut self, name: &str) -> &mut Worker {
        self.workers.iter_mut().find(|worker| worker.name == name).unwrap()
    }

    /// What time brings: nodes join, changes end, machines go.
    fn progress(&mut self, which: usize) {
        let made_of = self.made_of();
        let Some(worker) = self.workers.get_mut(which) else { return };
        if worker.going {
            self.workers.remove(which);
        } else if worker.updating {
            (worker.updating, worker.made_of, worker.ready) = (false, made_of, Some(true));
        } else {
            worker.ready = Some(true);
        }
    }

    fn trouble(&mut self, random: &mut StdRng) {
        match random.random_range(0..6) {
            0 => self.replicas = random.random_range(0..6),
            1 => self.version += 1,
            kind => {
                let count = self.workers.len();
                let Some(worker) = self.workers.get_mut(random.random_range(0..count.max(1))) else { return };
                match kind {
                    2 => worker.going = true,
                    3 => (worker.sick, worker.ready) = (true, Some(false)),
                    4 => worker.ended = true,
                    _ => worker.ready = Some(false),
                }
            }
        }
    }

    /// No plan may cost more than it is allowed to.
    fn check(&self, actions: &[Action]) {
        let (surge, unavailable) = match self.rollout {
            Rollout::Rolling { max_surge: 0, max_unavailable: 0 } => (1, 0),
            Rollout::Rolling { max_surge, max_unavailable } => (max_surge, max_unavailable),
            Rollout::OnDelete => (0, 0),
            Rollout::InPlace { max_unavailable } => (0, max_unavailable),
        };
        let alive = self.workers.iter().filter(|worker| worker.is_alive()).count();
        let made = actions.iter().filter(|action| matches!(action, Action::Create(_))).count();
        assert!(alive + made <= alive.max(self.replicas + surge), "{actions:?} of {:?}", self.workers);
        let ready = self.workers.iter().filter(|worker| worker.is_ready() && !worker.updating);
        let taken = ready.clone().filter(|worker| {
            actions.contains(&Action::Delete(worker.name.clone()))
                || actions.contains(&Action::Update(worker.name.clone()))
        });
        let floor = self.replicas.saturating_sub(unavailable);
        let spare = ready.count().saturating_sub(floor).max(alive.saturating_sub(self.replicas));
        assert!(taken.count() <= spare, "{actions:?} of {:?}", self.workers);
    }
}

#[rstest]
#[case(ONE_MORE)]
#[case(ONE_FEWER)]
#[case(Rollout::Rolling { max_surge: 2, max_unavailable: 2 })]
#[case(Rollout::OnDelete)]
#[case(IN_PLACE)]
#[case(Rollout::InPlace { max_unavailable: 3 })]
fn whatever_happens_a_pool_keeps_its_bounds_and_comes_to_rest(#[case] rollout: Rollout) {
    for seed in 0..300 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut world = World { workers: Vec::new(), replicas: 3, version: 0, rollout, clock: 0 };
        for _ in 0..60 {
            if random.random_bool(0.2) {
                world.trouble(&mut random);
            }
            let actions = world.plan();
            world.check(&actions);
            world.carry_out(actions);
            for _ in 0..2 {
                world.progress(random.random_range(0..8));
            }
        }
        for _ in 0..200 {
            let actions = world.plan();
            world.carry_out(actions);
            for which in (0..world.workers.len()).rev() {
                world.progress(which);
            }
        }
        assert_eq!(world.plan(), [], "seed {seed}");
        assert_eq!(world.workers.len(), world.replicas, "seed {seed}");
        if rollout != Rollout::OnDelete {
            let made_of = world.made_of();
            assert!(world.workers.iter().all(|worker| worker.made_of == made_of), "seed {seed}");
        }
    }
}
