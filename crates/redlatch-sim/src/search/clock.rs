//! A clock that runs slightly fast or slow, and can be set.
//!
//! In:  the true time.
//! Out: what the clock shows, and when it will show a reading.

use redlatch_core::Moment;
use std::time::Duration;

/// The most a clock's rate may be off, in parts per million: two clocks at opposite
/// ends stay within the drift allowance of one percent.
pub const MOST_DRIFT: i64 = 4500;

const MILLION: i128 = 1_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// How much faster than true time it runs, in parts per million.
    drift: i128,
    /// What it showed at true time zero, plus every step since.
    shift: i128,
}

impl Clock {
    /// Shows `start` at true time zero.
    pub fn new(drift: i64, start: Moment) -> Self {
        Clock { drift: drift.into(), shift: start.as_nanos().into() }
    }

    pub fn read(&self, at: Moment) -> Moment {
        let at = i128::from(at.as_nanos());
        moment(at + at * self.drift / MILLION + self.shift)
    }

    /// The first true time at which it shows `reading` or more, unless it is set.
    pub fn when(&self, reading: Moment) -> Moment {
        if reading == Moment::NEVER {
            return Moment::NEVER;
        }
        let passed = i128::from(reading.as_nanos()) - self.shift;
        let mut at = moment(passed * MILLION / (MILLION + self.drift)).before(NANO);
        while self.read(at) < reading {
            at = at.after(NANO);
        }
        at
    }

    pub fn step(&mut self, micros: i64) {
        self.shift += i128::from(micros) * 1000;
    }
}

const NANO: Duration = Duration::from_nanos(1);

fn moment(nanos: i128) -> Moment {
    Moment::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_a_reading_when_it_says_it_will_and_not_before() {
        for drift in [-MOST_DRIFT, -1, 0, 7, MOST_DRIFT] {
            let clock = Clock::new(drift, Moment::from_nanos(12_345));
            for reading in [12_345, 1_000_001, 987_654_321_012] {
                let reading = Moment::from_nanos(reading);

                let at = clock.when(reading);

                assert!(clock.read(at) >= reading);
                assert!(at == Moment::START || clock.read(at.before(NANO)) < reading);
            }
        }
    }

    #[test]
    fn a_clock_that_was_set_forward_is_there_sooner() {
        let mut clock = Clock::new(0, Moment::START);
        clock.step(1_000);

        assert_eq!(clock.when(Moment::from_nanos(3_000_000)), Moment::from_nanos(2_000_000));
    }
}
