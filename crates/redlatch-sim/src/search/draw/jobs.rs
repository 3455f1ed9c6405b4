//! Who wants which lock when.

use super::Draw;
use crate::search::schedule::{End, Guard, Job, Span};
use std::time::Duration;

/// The most clients that want one lock in the second phase.
const CONTENDERS: usize = 8;
/// No client waits longer than this between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Draw {
    pub(super) fn jobs(&mut self) -> Vec<Job> {
        let most = match self.mood {
            mood if mood.crowd => 1,
            mood if mood.storm => 24,
            _ => (240 / self.clients).clamp(1, 6),
        };
        let mut jobs = Vec::new();
        for client in 0..self.clients {
            for _ in 0..=self.dice.index(most) {
                jobs.push(self.job(client));
            }
        }
        for client in 0..self.clients {
            let last = self.must(client);
            jobs.push(last);
        }
        jobs
    }

    fn job(&mut self, client: usize) -> Job {
        let at = self.any_time();
        let ttl = self.ttl_of_job();
        let renewed = self.dice.percent(40);
        Job {
            at,
            client,
            resources: self.some_resources(),
            ttl,
            wait: if self.dice.percent(20) { Span(0) } else { self.of_ttl(0, 200) },
            renewal: renewed.then(|| self.of_ttl(20, 300)),
            fenced: self.mood.storm || self.dice.percent(60),
            hold: if renewed { self.of_ttl(1, 300) } else { self.of_ttl(1, 130) },
            extend: self.dice.percent(25).then(|| (self.of_ttl(1, 90), self.ttl_of_job())),
            end: self.dice.pick(&[End::Release, End::Release, End::Drop, End::Keep]),
            cancel: self.dice.percent(10).then(|| self.of_ttl(0, 40)),
            must: false,
        }
    }

    /// The TTL in whole milliseconds, up to twice the run's, which is the most
    /// there is.
    fn ttl_of_job(&mut self) -> Span {
        let span = if self.dice.percent(70) { self.ttl.into() } else { self.of_ttl(50, 200) };
        Span((span.0 / 1000).max(20) * 1000)
    }

    fn some_resources(&mut self) -> Vec<u32> {
        if self.resources > 1 && self.dice.percent(15) {
            return (0..self.resources).collect();
        }
        vec![self.resource()]
    }

    /// The second phase: every client wants a lock once more. The bound within
    /// which it must be granted is what the wait says: 16 TTLs for everything
    /// that was started before to be over, 12 more for nodes to be admitted again
    /// (four windows of at most three TTLs), ten of the longest pauses between
    /// attempts for every contender, and 8 seconds for connections to be tried
    /// again and for the guard's own rests.
    fn must(&mut self, client: usize) -> Job {
        let group = client / CONTENDERS;
        let contenders = u32::try_from(CONTENDERS.min(self.clients)).unwrap_or(1);
        let pause = (self.ttl / 4).min(LONGEST_PAUSE);
        let guard = if self.guard == Guard::Off { 0 } else { 12 };
        let bound = self.ttl * (16 + guard) + pause * 10 * contenders + Duration::from_secs(8);
        Job {
            // By then everything that was wrong is right again.
            at: (self.calm_at + Duration::from_micros(1)).into(),
            client,
            resources: vec![u32::try_from(group).unwrap_or(0)],
            ttl: Span(self.ttl_in_millis()),
            wait: bound.into(),
            renewal: None,
            fenced: self.dice.percent(50),
            hold: self.of_ttl(0, 2),
            extend: None,
            end: End::Release,
            cancel: None,
            must: true,
        }
    }

    fn ttl_in_millis(&self) -> u64 {
        Span::from(self.ttl).0 / 1000 * 1000
    }
}
