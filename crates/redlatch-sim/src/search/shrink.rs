//! Shrinks a schedule that breaks a promise to what is needed to break it.
//!
//! In:  the schedule, and a check whether one still breaks the promise.
//! Out: one that does, with few jobs and troubles, as simple as possible.

use super::schedule::{End, Job, Schedule, Span, Times, Wrong};

/// A small history is a help, not a proof: stop after this many tries.
const MOST_TRIES: usize = 4_000;
/// Playing this many clients takes about as long as one more try.
const CLIENTS_OF_A_TRY: usize = 10;

/// The smallest schedule found that still breaks the promise.
pub fn shrink(schedule: &Schedule, broken: &dyn Fn(&Schedule) -> bool) -> Schedule {
    let mut shrinking = Shrinking { best: schedule.clone(), broken, tries: 0 };
    loop {
        let before = shrinking.best.clone();
        shrinking.take_out();
        shrinking.simplify();
        if shrinking.best == before {
            shrinking.forget_clients();
            return shrinking.best;
        }
    }
}

struct Shrinking<'a> {
    best: Schedule,
    broken: &'a dyn Fn(&Schedule) -> bool,
    tries: usize,
}

impl Shrinking<'_> {
    fn try_out(&mut self, candidate: Schedule) -> bool {
        self.tries += 1 + candidate.clients.len() / CLIENTS_OF_A_TRY;
        let better = self.tries < MOST_TRIES && candidate != self.best && (self.broken)(&candidate);
        if better {
            self.best = candidate;
        }
        better
    }

    /// Delta debugging: halves, quarters, … single jobs and troubles.
    fn take_out(&mut self) {
        let mut size = self.count().div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < self.count() {
                let candidate = self.without(from, size);
                if !self.try_out(candidate) {
                    from += size;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }

    fn count(&self) -> usize {
        self.best.jobs.len() + self.best.troubles.len()
    }

    /// Without `size` of the jobs and troubles, counted together.
    fn without(&self, from: usize, size: usize) -> Schedule {
        let mut candidate = self.best.clone();
        let jobs = candidate.jobs.len();
        let gone = from..from + size;
        let mut at = 0;
        candidate.jobs.retain(|_| {
            at += 1;
            !gone.contains(&(at - 1))
        });
        at = jobs;
        candidate.troubles.retain(|_| {
            at += 1;
            !gone.contains(&(at - 1))
        });
        candidate
    }

    fn simplify(&mut self) {
        let calm = self.best.network.clone();
        let simple = |schedule: &mut Schedule| schedule.network.stragglers = 0;
        self.try_change(simple);
        self.try_change(|schedule| schedule.network.most = calm.least);
        self.try_change(|schedule| schedule.network.wakes_lost = 0);
        for job in 0..self.best.jobs.len() {
            let simpler: [fn(&mut Job); 10] = [
                |job| job.line = None,
                |job| job.extend = None,
                |job| job.hand_over = None,
                |job| job.terms = Times::default(),
                |job| job.cancel = None,
                |job| job.renewal = None,
                |job| job.fenced = false,
                // For jobs that must be granted, the wait is the bound.
                |job| job.wait = if job.must { job.wait } else { Span(0) },
                |job| job.resources.truncate(1),
                |job| job.end = End::Release,
            ];
            for change in simpler {
                self.try_change(|schedule| change(&mut schedule.jobs[job]));
            }
        }
        for trouble in 0..self.best.troubles.len() {
            self.try_change(|schedule| spare(&mut schedule.troubles[trouble].what));
        }
        for place in 0..self.best.nodes.len() {
            self.try_change(|schedule| schedule.nodes[place].drift = 0);
            self.try_change(|schedule| schedule.nodes[place].wall = 0);
        }
        for place in 0..self.best.clients.len().min(50) {
            self.try_change(|schedule| schedule.clients[place].clocks.drift = 0);
            self.try_change(|schedule| schedule.clients[place].clocks.wall = 0);
        }
    }

    fn try_change(&mut self, change: impl FnOnce(&mut Schedule)) {
        let mut candidate = self.best.clone();
        change(&mut candidate);
        self.try_out(candidate);
    }

    /// Removes the last clients if they do nothing; removing others would change which
    /// dice belong to whom.
    fn forget_clients(&mut self) {
        let best = &self.best;
        let heirs = best.jobs.iter().filter_map(|job| job.hand_over).map(|(_, heir)| heir);
        let jobs = best.jobs.iter().map(|job| job.client).chain(heirs);
        let troubles = best.troubles.iter().filter_map(|trouble| trouble.what.client());
        let needed = jobs.chain(troubles).max().map_or(1, |last| last + 1);
        self.try_change(|schedule| schedule.clients.truncate(needed));
    }
}

/// The same trouble in a simpler form.
fn spare(wrong: &mut Wrong) {
    match wrong {
        Wrong::Break { late, .. } | Wrong::CrashClient { late, .. } => *late = None,
        Wrong::CrashNode { silent, .. } if *silent => *silent = false,
        Wrong::CrashNode { spare, .. } => *spare = false,
        Wrong::PauseClient { keeper_first, .. } => *keeper_first = false,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_is_taken_out() {
        let schedule =
            (0..100).map(Schedule::of).find(|s| s.jobs.len() > 8 && s.troubles.len() > 4);
        let schedule = schedule.unwrap();
        let (job, trouble) = (schedule.jobs[5].clone(), schedule.troubles[3].clone());
        let broken = |candidate: &Schedule| {
            let jobs = candidate.jobs.iter().any(|kept| kept.at == job.at);
            jobs && candidate.troubles.iter().any(|kept| kept.at == trouble.at)
        };

        let shrunk = shrink(&schedule, &broken);

        assert_eq!((shrunk.jobs.len(), shrunk.troubles.len()), (1, 1));
        assert_eq!((shrunk.jobs[0].at, shrunk.troubles[0].at), (job.at, trouble.at));
    }
}
