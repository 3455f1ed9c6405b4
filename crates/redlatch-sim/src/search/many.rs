//! Plays many seeds on all cores.
//!
//! In:  a range of seeds.
//! Out: the counts, and the seeds that broke a promise, in ascending order.

use super::{
    Options,
    invariants::Violation,
    play_safely,
    schedule::{RestartGuard, Schedule},
    world::Counts,
};
use std::{
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Even the largest runs take only seconds: a run that takes longer never ends.
const LONGEST_RUN: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) seeds: u64,
    pub(super) counts: Counts,
    pub(super) claims: Claimed,
    pub(super) broken: Vec<(u64, Violation)>,
    pub(super) took: Duration,
}

/// How many runs each claim applied to.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Claimed {
    pub(super) exclusion: u64,
    pub(super) fencing: u64,
    pub(super) forgetting: u64,
    pub(super) guarded: u64,
    pub(super) crowds: u64,
}

struct Played {
    seed: u64,
    counts: Counts,
    claims: Claimed,
    violation: Option<Violation>,
}

pub(super) fn search(seeds: Range<u64>) -> anyhow::Result<Found> {
    let began = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let threads = thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let running: Vec<Mutex<Option<(u64, Instant)>>> =
        (0..threads).map(|_| Mutex::default()).collect();
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for slot in &running {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let free = seed >= seeds.end;
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) =
                        (!free).then(|| (seed, Instant::now()));
                    if free || sender.send(play_seed(seed)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut found = gather(&receiver, &running);
        found.broken.sort_by_key(|(seed, _)| *seed);
        found.took = began.elapsed();
        Ok(found)
    })
}

fn gather(receiver: &mpsc::Receiver<Played>, running: &[Mutex<Option<(u64, Instant)>>]) -> Found {
    let mut found = Found::default();
    loop {
        match receiver.recv_timeout(Duration::from_secs(5)) {
            Ok(played) => found.add(played),
            Err(mpsc::RecvTimeoutError::Disconnected) => return found,
            Err(mpsc::RecvTimeoutError::Timeout) => stop_if_endless(running),
        }
    }
}

/// A run that loops forever cannot be stopped from within.
fn stop_if_endless(running: &[Mutex<Option<(u64, Instant)>>]) {
    for slot in running {
        let running = *slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seed, since)) = running
            && since.elapsed() > LONGEST_RUN
        {
            eprintln!(
                "seed {seed} never ends; to see it again:\n  redlatch-sim search --seed {seed}"
            );
            std::process::exit(1);
        }
    }
}

fn play_seed(seed: u64) -> Played {
    let schedule = Schedule::of(seed);
    let outcome = play_safely(&schedule, Options::default());
    let claims = schedule.claims();
    let claims = Claimed {
        exclusion: claims.exclusion.into(),
        fencing: claims.fencing.into(),
        forgetting: schedule.troubles.iter().any(|trouble| trouble.what.forgets()).into(),
        guarded: (schedule.parties[0].guard != RestartGuard::Off).into(),
        crowds: (schedule.clients.len() >= 1000).into(),
    };
    Played { seed, counts: outcome.counts, claims, violation: outcome.violation }
}

impl Found {
    fn add(&mut self, played: Played) {
        self.seeds += 1;
        self.counts = self.counts.and(played.counts);
        self.claims.exclusion += played.claims.exclusion;
        self.claims.fencing += played.claims.fencing;
        self.claims.forgetting += played.claims.forgetting;
        self.claims.guarded += played.claims.guarded;
        self.claims.crowds += played.claims.crowds;
        if let Some(violation) = played.violation {
            self.broken.push((played.seed, violation));
        }
    }
}
