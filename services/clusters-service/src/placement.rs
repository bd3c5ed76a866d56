//! Which management cluster a new cluster goes to: a pure function of what is known of all of them.
//!
//! One that is wanted for new clusters, is not known to be lost and has room; of those the one with the largest part of its
//! room free, so that they fill evenly whatever their sizes, and the loss of one is the loss of as few clusters as possible.

use std::cmp::Ordering;

use pilothouse_clusters_service_api::{ProvisionShardStatus, ShardHealthState};

use crate::record::{ShardRecord, Usage};

/// Why no management cluster takes another cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nowhere {
    /// In words.
    pub(crate) why: String,
    /// There is no room, and that will not pass by itself: somebody has to make some.
    pub(crate) is_full: bool,
}

/// Of what kind that is which speaks against one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// It has no room.
    Full,
    /// It may be over in a moment.
    Passing,
    /// It is not there for new clusters.
    Unwanted,
}

/// Where there is room, or why there is none.
pub(crate) fn choose<'a>(
    shards: impl Iterator<Item = (&'a ShardRecord, Usage)>,
) -> Result<&'a ShardRecord, Nowhere> {
    let mut best: Option<(&ShardRecord, Usage)> = None;
    let (mut reasons, mut obstacles) = (Vec::new(), Vec::new());
    for (shard, usage) in shards {
        if let Some((obstacle, reason)) = obstacle(shard, usage) {
            reasons.push(reason);
            obstacles.push(obstacle);
        } else if best.is_none_or(|best| fuller(best, (shard, usage)) == Ordering::Greater) {
            best = Some((shard, usage));
        }
    }
    match best {
        Some((shard, _)) => Ok(shard),
        None if reasons.is_empty() => Err(Nowhere { why: "none is known".to_owned(), is_full: false }),
        None => {
            let is_full = obstacles.contains(&Obstacle::Full) && !obstacles.contains(&Obstacle::Passing);
            Err(Nowhere { why: reasons.join(", "), is_full })
        }
    }
}

/// How the fullness of one compares with that of another: with fractions, but without dividing.
fn fuller(left: (&ShardRecord, Usage), right: (&ShardRecord, Usage)) -> Ordering {
    let part = |(_, usage): (&ShardRecord, Usage), (other, _): (&ShardRecord, Usage)| {
        u64::from(usage.clusters) * u64::from(other.capacity())
    };
    part(left, right).cmp(&part(right, left))
}

/// What speaks against one.
fn obstacle(shard: &ShardRecord, usage: Usage) -> Option<(Obstacle, String)> {
    let (id, capacity) = (&shard.shard.id, shard.capacity());
    if shard.removing {
        return Some((Obstacle::Unwanted, format!("`{id}` is being removed")));
    }
    match shard.status {
        ProvisionShardStatus::Active => {}
        ProvisionShardStatus::Maintenance => {
            return Some((Obstacle::Passing, format!("`{id}` is in maintenance")));
        }
        _ => return Some((Obstacle::Unwanted, format!("`{id}` is offline"))),
    }
    if shard.health.state == ShardHealthState::Unresponsive {
        let reason = match shard.health.last_heard {
            Some(heard) => format!("`{id}` has not answered since {heard}"),
            None => format!("`{id}` has never answered"),
        };
        return Some((Obstacle::Passing, reason));
    }
    let full = || (Obstacle::Full, format!("`{id}` is full ({} of {capacity})", usage.clusters));
    (usage.clusters >= capacity).then(full)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::config::Shard;

    fn shard(id: &str, capacity: u32) -> ShardRecord {
        let shard = Shard { id: id.into(), capacity, ..Shard::default() };
        ShardRecord::new(shard, Timestamp::UNIX_EPOCH)
    }

    fn chosen(shards: &[(ShardRecord, u32)]) -> Result<&str, Nowhere> {
        let all = shards.iter().map(|(shard, clusters)| (shard, Usage { clusters: *clusters }));
        choose(all).map(|shard| shard.shard.id.as_str())
    }

    #[test]
    fn the_emptiest_by_its_own_measure_is_chosen_and_the_first_of_equals() {
        assert_eq!(chosen(&[(shard("a", 10), 5), (shard("b", 100), 40)]), Ok("b"));
        assert_eq!(chosen(&[(shard("a", 10), 3), (shard("b", 100), 40)]), Ok("a"));
        assert_eq!(chosen(&[(shard("a", 10), 5), (shard("b", 100), 50)]), Ok("a"));
        assert_eq!(chosen(&[(shard("a", 1), 1), (shard("b", 1), 0)]), Ok("b"));
    }

    #[test]
    fn one_that_takes_none_says_why() {
        let mut maintained = shard("a", 10);
        maintained.status = ProvisionShardStatus::Maintenance;
        let mut lost = shard("b", 10);
        lost.health.state = ShardHealthState::Unresponsive;
        lost.health.last_heard = Some(Timestamp::UNIX_EPOCH);
        let mut offline = shard("c", 10);
        offline.status = ProvisionShardStatus::Offline;
        let all = [(maintained, 0), (lost, 0), (offline, 0), (shard("d", 2), 2), (shard("e", 0), 0)];
        assert_eq!(
            chosen(&all).unwrap_err().why,
            "`a` is in maintenance, `b` has not answered since 1970-01-01T00:00:00Z, `c` is offline, \
             `d` is full (2 of 2), `e` is full (0 of 0)"
        );
        assert_eq!(chosen(&[]).unwrap_err().why, "none is known");
    }

    #[test]
    fn a_region_is_full_when_nothing_but_room_is_missing() {
        let full = || (shard("full", 1), 1);
        let mut maintained = shard("maintained", 1);
        maintained.status = ProvisionShardStatus::Maintenance;
        let mut lost = shard("lost", 1);
        lost.health.state = ShardHealthState::Unresponsive;
        let mut offline = shard("offline", 1);
        offline.status = ProvisionShardStatus::Offline;
        let is_full = |shards: &[(ShardRecord, u32)]| chosen(shards).unwrap_err().is_full;
        assert!(is_full(&[full()]));
        assert!(is_full(&[full(), (offline.clone(), 0)]));
        assert!(!is_full(&[full(), (maintained.clone(), 0)]));
        assert!(!is_full(&[full(), (lost.clone(), 0)]));
        assert!(!is_full(&[(maintained, 0), (lost, 0)]));
        assert!(!is_full(&[(offline, 0)]));
        assert!(!is_full(&[]));
    }
}
