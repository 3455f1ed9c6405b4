//! Draws who wants which lock when.

use super::Draw;
use crate::search::schedule::{End, Job, Party, RestartGuard, Span, Times};
use redlatch_core::retry::LONGEST_PAUSE;
use std::time::Duration;

/// The most clients that want one lock in the second phase.
const CONTENDERS: usize = 8;
/// The resources of a flood, which nobody else wants, are numbered from here.
const FLOOD: u32 = 10_000;

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
        if self.mood.rolling {
            let lasting = self.lasting();
            jobs.push(lasting);
        }
        for client in 0..self.clients {
            if self.has_nodes_in_the_end(client) {
                jobs.push(self.must(client));
            }
        }
        if self.mood.flood {
            self.flood(&mut jobs);
        }
        jobs
    }

    /// One client wants hundreds of locks at once, each with its own name: while
    /// things go wrong, and once more when nothing does.
    fn flood(&mut self, jobs: &mut Vec<Job>) {
        let at = self.any_time();
        let count = u32::try_from(self.dice.between(100, 400)).unwrap_or(100);
        for name in FLOOD..FLOOD + count {
            let resources = vec![name];
            let wait = self.of_ttl(0, 400);
            jobs.push(Job { at, resources: resources.clone(), wait, ..self.job(0) });
            if self.has_nodes_in_the_end(0) {
                jobs.push(Job { resources, ..self.must(0) });
            }
        }
    }

    /// A lease that is held and renewed while all nodes restart.
    fn lasting(&mut self) -> Job {
        let client = self.clients - 1;
        Job {
            at: Span(1),
            wait: self.ttl.into(),
            // At the start, nobody else wants this one.
            resources: vec![self.resources],
            ttl: Span(self.ttl_in_millis()),
            renewal: Some((self.calm_at * 2).into()),
            terms: Times::default(),
            hold: self.calm_at.into(),
            extend: None,
            end: End::Release,
            cancel: None,
            hand_over: None,
            lasts: true,
            ..self.job(client)
        }
    }

    fn job(&mut self, client: usize) -> Job {
        let at = self.any_time();
        let ttl = self.ttl_of_job();
        let renewed = self.dice.percent(40) && !self.deaf;
        // Most callers end a renewed lease themselves; some hold it until the calm.
        let long = self.guard != RestartGuard::Off && self.dice.percent(30);
        let rest = self.calm_at.saturating_sub(at.get()).max(self.ttl);
        let hold: Span = self.dice.time(self.ttl, rest).into();
        let cap = if long { hold } else { self.of_ttl(20, 300) };
        Job {
            at,
            client,
            resources: self.some_resources(),
            ttl,
            wait: if self.dice.percent(20) { Span(0) } else { self.of_ttl(0, 200) },
            renewal: renewed.then_some(cap),
            terms: self.terms(renewed),
            fenced: self.mood.storm || self.deaf || self.dice.percent(60),
            hold: match renewed {
                true if long => hold,
                true => self.of_ttl(1, 300),
                false if self.deaf => self.of_ttl(1, 15),
                false => self.of_ttl(1, 130),
            },
            extend: self.dice.percent(25).then(|| (self.of_ttl(1, 90), self.ttl_of_job())),
            end: if self.deaf { End::Release } else { self.end() },
            cancel: self.dice.percent(10).then(|| self.of_ttl(0, 40)),
            hand_over: self.heir(client),
            must: false,
            lasts: false,
            line: None,
        }
    }

    fn end(&mut self) -> End {
        self.dice.pick(&[End::Release, End::Release, End::Drop, End::Keep])
    }

    /// Another client of the same party, which takes over the lease.
    fn heir(&mut self, client: usize) -> Option<(Span, usize)> {
        let heir = self.client();
        let agree = heir != client && self.party_of(heir) == self.party_of(client);
        let after = self.of_ttl(0, 90);
        (agree && self.dice.percent(6)).then_some((after, heir))
    }

    /// Other times than the defaults, for some jobs.
    fn terms(&mut self, renewed: bool) -> Times {
        if self.dice.percent(60) {
            return Times::default();
        }
        let every = self.of_ttl(10, 40);
        Times {
            node_timeout: self.dice.percent(50).then(|| self.of_ttl(3, 40)),
            min_validity: self.dice.percent(50).then(|| self.of_ttl(0, 90)),
            notice: self.dice.percent(50).then(|| self.of_ttl(0, 30)),
            every: (renewed && self.dice.percent(50)).then_some(every),
        }
    }

    /// The TTL in whole milliseconds, at most twice the run's.
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

    /// The second phase: every client wants a lock once more. Its wait is the bound
    /// within which the lock must be granted: 16 TTLs for everything started before to
    /// end, four windows for nodes to be admitted again, ten of the longest pauses
    /// between attempts per contender, and 8 seconds for reconnects and the guard's
    /// pauses.
    pub(super) fn must(&mut self, client: usize) -> Job {
        let group = client / CONTENDERS;
        let contenders = u32::try_from(CONTENDERS.min(self.clients)).unwrap_or(1);
        let pause = (self.ttl / 4).min(LONGEST_PAUSE);
        let window = self.parties.iter().map(Party::window).max().unwrap_or_default();
        let guard = if self.guard == RestartGuard::Off { Duration::ZERO } else { window * 4 };
        let bound = self.ttl * 16 + guard + pause * 10 * contenders + Duration::from_secs(8);
        Job {
            // By then every trouble has ended.
            at: (self.calm_at + Duration::from_micros(1)).into(),
            client,
            resources: vec![u32::try_from(group).unwrap_or(0)],
            ttl: Span(self.ttl_in_millis()),
            wait: bound.into(),
            fenced: self.dice.percent(50),
            hold: self.of_ttl(0, 2),
            must: true,
            ..Job::default()
        }
    }

    fn ttl_in_millis(&self) -> u64 {
        Span::from(self.ttl).0 / 1000 * 1000
    }
}
