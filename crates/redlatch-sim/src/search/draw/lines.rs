//! Draws who waits in line.

use super::Draw;
use crate::search::schedule::{Job, Queueing, Schedule, Span};
use redlatch_core::line::{DEFAULT_LOCAL_BATCH, DEFAULT_POLL_MAX, LOOK};
use std::time::Duration;

/// The resource that only clients in line want.
const QUEUE: u32 = 20_000;
const MS: Duration = Duration::from_millis(1);

impl Draw {
    /// Lets requests wait in line: in most runs most of them, in some runs all or
    /// none.
    pub(super) fn lines(&mut self, schedule: &mut Schedule) {
        let percent = self.dice.pick(&[0, 50, 80, 80, 100, 100]);
        schedule.network.wakes_lost = self.dice.pick(&[0, 0, 0, 5, 30, 100]);
        for job in &mut schedule.jobs {
            job.line = self.dice.percent(percent).then(|| self.queueing());
            // Some wait for much longer than others hold the lock.
            if job.line.is_some() && !job.must && self.dice.percent(30) {
                job.wait = self.of_ttl(200, 1000);
            }
            // Each turn may cost an extra check if a message is lost.
            if job.line.is_some() && job.must {
                job.wait = Span::from(job.wait.get() + 8 * 2 * LOOK);
            }
        }
        // Where many attempts are not answered within the node timeout, a twentieth of
        // the TTL, nobody can say how long a turn takes.
        let network = &schedule.network;
        let is_quick = network.most.get() * 3 <= self.ttl / 20 && network.stragglers <= 10;
        if percent > 0 && is_quick && self.dice.percent(40) {
            self.queue(schedule);
        }
    }

    /// Once nothing goes wrong any more, a few clients want one lock again and again,
    /// and everyone waits in line. The wait is the bound: the bound of any other
    /// request, plus a look per turn.
    fn queue(&mut self, schedule: &mut Schedule) {
        let clients: Vec<usize> =
            (0..self.clients.min(6)).filter(|client| self.has_nodes_in_the_end(*client)).collect();
        let most = self.dice.pick(&[3, 10, 40]);
        let lasts = self.ttl * self.dice.pick(&[1, 4]);
        let mut jobs = Vec::new();
        for client in clients {
            for _ in 0..self.dice.between(1, most) {
                let at = self.calm_at + MS + self.dice.time(Duration::ZERO, lasts);
                let job = self.must(client);
                let (at, line) = (at.into(), Some(self.queueing()));
                jobs.push(Job { at, resources: vec![QUEUE], line, ..job });
            }
        }
        let turns = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        for job in &mut jobs {
            job.wait = Span::from(job.wait.get() + (LOOK + self.ttl / 50) * turns);
        }
        schedule.jobs.append(&mut jobs);
    }

    fn queueing(&mut self) -> Queueing {
        let poll_max = self.dice.pick(&[DEFAULT_POLL_MAX, DEFAULT_POLL_MAX, 20 * MS, 2 * LOOK]);
        let local_batch = self.dice.pick(&[DEFAULT_LOCAL_BATCH, DEFAULT_LOCAL_BATCH, 0, 1, 100]);
        Queueing { poll_max: poll_max.into(), local_batch }
    }
}
