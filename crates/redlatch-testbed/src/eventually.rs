//! Waiting for something to become true, instead of sleeping and hoping.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How often a condition is checked.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits until `condition` is true.
///
/// # Panics
/// If the condition is still false after `limit`.
///
/// ```
/// use std::time::{Duration, Instant};
/// use redlatch_testbed::eventually;
///
/// let begin = Instant::now();
/// eventually(Duration::from_secs(1), || begin.elapsed() > Duration::from_millis(5));
/// ```
#[track_caller]
pub fn eventually(limit: Duration, condition: impl FnMut() -> bool) {
    assert!(wait_until(limit, condition), "still not so after {limit:?}");
}

/// Waits until `condition` is true. Returns whether that happened within `limit`.
///
/// The condition is checked once more at the deadline, so a limit of zero
/// means: is it true now?
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::sleep(LOOK_EVERY.min(left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_turns_true_ends_the_wait() {
        let mut looks = 0;

        let came = wait_until(Duration::from_secs(10), || {
            looks += 1;
            looks == 3
        });

        assert!(came);
        assert_eq!(looks, 3);
    }

    #[test]
    fn a_condition_that_stays_false_ends_at_the_deadline() {
        let begin = Instant::now();

        let came = wait_until(Duration::from_millis(20), || false);

        assert!(!came);
        assert!(begin.elapsed() >= Duration::from_millis(20));
    }
}
