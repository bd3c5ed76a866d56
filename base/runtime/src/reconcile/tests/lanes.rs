//! Whoever has much to do delays nobody else.

use super::*;
use crate::reconcile::queue::Outcome;

type Key = (u128, u32);

fn queue(concurrency: usize) -> Queue<Key> {
    let lane_of = LaneOf::new(|key: &Key| Lane::new(key.0));
    Queue::new(Policy::RECONCILE_ERROR, Jitter::seeded(1), lane_of, concurrency)
}

fn next_lane(queue: &mut Queue<Key>, now: Instant) -> u128 {
    let key = queue.start(now).unwrap();
    queue.finish(&key, Outcome::Done, now);
    key.0
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_keys_of_one_lane_delay_another_by_one_pass() {
    let (mut queue, now) = (queue(4), Instant::now());
    for number in 0..10_000 {
        queue.wake((1, number), now);
    }
    assert_eq!(next_lane(&mut queue, now), 1);
    queue.wake((2, 0), now);
    queue.wake((2, 1), now);
    queue.wake((3, 0), now);
    let served: Vec<_> = (0..6).map(|_| next_lane(&mut queue, now)).collect();
    assert_eq!(served, [1, 2, 3, 1, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn passes_of_one_lane_that_hang_leave_room_for_others() {
    let (mut queue, now) = (queue(4), Instant::now());
    for number in 0..10 {
        queue.wake((1, number), now);
    }
    let running: Vec<_> = std::iter::from_fn(|| queue.start(now)).collect();
    assert_eq!(running.len(), 3);
    queue.wake((2, 0), now);
    assert_eq!(queue.start(now), Some((2, 0)));
    assert_eq!(queue.start(now), None);
    queue.finish(&running[0], Outcome::Done, now);
    assert_eq!(queue.start(now), Some((1, 3)));
}

#[tokio::test(start_paused = true)]
async fn the_common_lane_takes_every_place() {
    let lane_of = LaneOf::new(|_: &u8| Lane::COMMON);
    let mut queue = Queue::new(Policy::RECONCILE_ERROR, Jitter::seeded(1), lane_of, 4);
    let now = Instant::now();
    (0..9).for_each(|key| queue.wake(key, now));
    assert_eq!((0..4).filter_map(|_| queue.start(now)).count(), 4);
}
