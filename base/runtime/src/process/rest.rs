//! What a process gives back when it has little to do.
//!
//! The allocator keeps what was freed, for the next time. A server that has read everything at its start and then serves a few
//! requests holds twice of what it needs for as long as it lives, and on a machine with hundreds of control planes that is most
//! of the memory. So a process that has worked and then comes to rest hands the free pages back, once.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use tokio::time::sleep;
use tracing::debug;

/// How soon it is noticed that a process rests, and how late where it rests for long.
const FIRST_LOOK: Duration = Duration::from_secs(2);
const LONGEST_LOOK: Duration = Duration::from_secs(64);
/// Less than this part of a processor is rest.
const REST: u32 = 20;
/// Whoever has done less than this since the last time has nothing to give back.
const WORTH: Duration = Duration::from_millis(50);

/// Never returns.
pub(super) async fn give_back_at_rest() {
    let mut given_at = Duration::ZERO;
    let mut last = spent();
    let mut look = FIRST_LOOK;
    loop {
        sleep(look).await;
        let now = spent();
        let rests = now.saturating_sub(last) < look / REST;
        last = now;
        if rests && now.saturating_sub(given_at) >= WORTH {
            give_back();
            given_at = spent();
            debug!("gave memory back that is not needed at rest");
        }
        look = if rests { (look * 2).min(LONGEST_LOOK) } else { FIRST_LOOK };
    }
}

/// The processor time of this process until now. Where nobody knows it, it is always at rest and has done nothing.
fn spent() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let micros = |time: nix::sys::time::TimeVal| {
        let micros = nix::sys::time::TimeValLike::num_microseconds(&time);
        Duration::from_micros(u64::try_from(micros).unwrap_or_default())
    };
    micros(usage.user_time()) + micros(usage.system_time())
}

/// Hands pages of the heap on which nothing is any more back to the system.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the allocator is C's")]
fn give_back() {
    // SAFETY: it takes no pointers, and may be called at any time from any thread.
    unsafe { nix::libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn give_back() {}

#[cfg(test)]
mod tests {
    use super::*;

    /// What this process has in memory, in pages.
    #[cfg(target_env = "gnu")]
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn pages_between_those_that_are_needed_are_given_back() {
        // Too small to be mapped each by itself, and every sixteenth stays, so that the heap does not shrink by itself.
        let blocks: Vec<_> = (0..16_384).map(|_| vec![1_u8; 4096]).collect();
        let kept: Vec<_> = blocks.into_iter().step_by(16).collect();
        let before = resident();
        give_back();
        let after = resident();
        assert_eq!(kept.len(), 1024);
        assert!(before - after > 8192, "{before} pages before, {after} after");
    }

    #[test]
    fn processor_time_is_known() {
        let before = spent();
        let mut number = 1_u64;
        while spent() < before + Duration::from_millis(20) {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert_ne!(number, 0);
    }
}
