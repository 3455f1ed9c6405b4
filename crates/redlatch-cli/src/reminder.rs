//! Messages during a wait: continuous on a terminal, every so often elsewhere.

use crate::say::{Event, Say};
use std::time::{Duration, Instant};

/// The pause between updates on a terminal.
const REDRAW: Duration = Duration::from_secs(1);
/// A shorter wait is not reported.
const FIRST: Duration = Duration::from_secs(1);
/// The pause between reports after that.
const PAUSE: Duration = Duration::from_secs(30);

pub(crate) struct Reminder {
    say: Say,
    since: Instant,
    next: Instant,
    /// Whether there was trouble the last time.
    was_trouble: bool,
}

impl Reminder {
    pub(crate) fn new(say: Say) -> Self {
        let since = Instant::now();
        Reminder { say, since, next: since + FIRST, was_trouble: false }
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// How long until the next message is due.
    pub(crate) fn pause(&self) -> Duration {
        if self.say.has_progress() {
            return REDRAW;
        }
        self.next.saturating_duration_since(Instant::now())
    }

    /// Says what we wait for, if a message is due or there is new trouble. Trouble, such
    /// as an outage, is always reported, the rest only with `-v` or `--json`.
    pub(crate) fn tell(&mut self, is_trouble: bool, words: impl FnOnce() -> String) {
        let is_new = is_trouble && !self.was_trouble && self.since.elapsed() >= FIRST;
        self.was_trouble = is_trouble;
        if self.say.has_progress() {
            self.say.progress(&words());
        } else if is_new || Instant::now() >= self.next {
            self.next = Instant::now() + PAUSE;
            self.say.say(&Event::Waiting { message: words(), is_trouble });
        }
    }
}

impl Drop for Reminder {
    fn drop(&mut self) {
        self.say.end_progress();
    }
}
