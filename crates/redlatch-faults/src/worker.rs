//! A worker process: takes locks and counts under them until it is stopped.
//!
//! In:  [`Orders`].
//! Out: a history file per caller.
//!
//! It does what a user's program does, and records what it believes about its locks
//! before it acts on that.

use crate::{
    counter_store::{CounterStore, Fenced, Reading},
    dice::{self, Dice},
    history::{self, Counter, Recorder, What},
    orders::{Habits, Orders},
};
use redlatch::{
    FencingToken, LockError, Released,
    blocking::{Guard, Locks},
};
use std::{
    ops::Range,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// The pause after an attempt that failed at once.
const BREATH: Duration = Duration::from_millis(5);
/// How often a waiting holder checks whether it still holds.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often it records that it does, in ns: it may be killed at any time.
const NOTE_EVERY: history::Nanos = 100_000_000;

pub(crate) fn run(orders: &Orders) -> anyhow::Result<()> {
    let Some(locks) = connect(orders)? else { return Ok(()) };
    thread::scope(|scope| {
        let callers: Vec<_> = (0..orders.callers)
            .map(|number| {
                let locks = locks.clone();
                scope.spawn(move || Caller::new(orders, number, locks)?.work())
            })
            .collect();
        callers.into_iter().try_for_each(|caller| caller.join().expect("a caller never panics"))
    })?;
    locks.settled();
    Ok(())
}

/// Connects, again and again, since faults may come first. `None` if it was stopped
/// meanwhile.
fn connect(orders: &Orders) -> anyhow::Result<Option<Locks>> {
    let mut notes = Recorder::new(&orders.dir, &format!("{}.connect", orders.name))?;
    let builder = orders.habits.builder(&orders.nodes).owner(&orders.name);
    for attempt in 1.. {
        match builder.clone().connect_blocking() {
            Ok(locks) => return Ok(Some(locks)),
            Err(error) => notes.note(attempt, What::Refused(format!("connect {error}"))),
        }
        if is_stopped(&orders.dir) {
            break;
        }
        thread::sleep(10 * BREATH);
    }
    Ok(None)
}

fn is_stopped(dir: &Path) -> bool {
    dir.join(Orders::STOP).exists()
}

struct Caller<'a> {
    orders: &'a Orders,
    locks: Locks,
    counters: CounterStore,
    notes: Recorder,
    dice: Dice,
    attempt: u64,
}

/// A lock a caller holds, and what it believes about it.
struct Hold {
    guard: Guard,
    resource: String,
    token: FencingToken,
    /// When it was last certainly held.
    held: Option<history::Nanos>,
    /// The last such moment recorded.
    noted: Option<history::Nanos>,
    lost: bool,
}

impl<'a> Caller<'a> {
    fn new(orders: &'a Orders, number: usize, locks: Locks) -> anyhow::Result<Self> {
        Ok(Self {
            orders,
            locks,
            counters: CounterStore::open(&orders.counters)?,
            notes: Recorder::new(&orders.dir, &format!("{}.{number}", orders.name))?,
            dice: dice::roll(),
            attempt: 0,
        })
    }

    fn work(mut self) -> anyhow::Result<()> {
        let mut left = self.orders.acquires.unwrap_or(u64::MAX);
        while left > 0 && !is_stopped(&self.orders.dir) {
            self.attempt += 1;
            if let Some(mut hold) = self.acquire() {
                left -= 1;
                self.count(&mut hold)?;
                self.release(hold);
            }
        }
        Ok(())
    }

    fn acquire(&mut self) -> Option<Hold> {
        let Range { start, end } = self.orders.resources;
        let resource = Orders::resource(start + self.dice.index(end - start));
        self.note(What::Try { resource: resource.clone() });
        let request = self.locks.lock(&resource);
        let renews = self.orders.habits.renews;
        let answer = if renews { request.acquire() } else { request.no_renewal().acquire() };
        let at = history::now();
        match answer {
            Ok(guard) => {
                let token = guard.fencing_token().expect("fencing is on");
                let left = u64::try_from(guard.ends_in().as_nanos()).unwrap_or(u64::MAX);
                let granted = What::Granted { token: token.get(), left };
                self.notes.note_at(at, self.attempt, granted);
                Some(Hold { guard, resource, token, held: None, noted: None, lost: false })
            }
            Err(error) => {
                self.note(What::Refused(format!("{} {error}", kind(&error))));
                thread::sleep(BREATH);
                None
            }
        }
    }

    /// Seal, read, think, write.
    fn count(&mut self, hold: &mut Hold) -> anyhow::Result<()> {
        if !self.is_held(hold) {
            return Ok(());
        }
        let Some(reading) = self.counters.seal_and_read(&hold.resource, hold.token)? else {
            self.note(What::Stale(Counter::Fenced));
            return Ok(());
        };
        self.think(hold);
        if self.orders.habits.careless || self.is_held(hold) {
            self.write(hold, reading)?;
        }
        Ok(())
    }

    /// A careless caller sleeps without checking the lock; others check now and then.
    fn think(&mut self, hold: &mut Hold) {
        let Habits { thinks: (least, most), careless, .. } = self.orders.habits;
        let until = Instant::now() + self.dice.time(least, most);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            thread::sleep(if careless { left } else { left.min(LOOK_EVERY) });
            let done = Instant::now() >= until || is_stopped(&self.orders.dir);
            if done || (!careless && !self.is_held(hold)) {
                return;
            }
        }
    }

    fn write(&mut self, hold: &Hold, reading: Reading) -> anyhow::Result<()> {
        let Hold { resource, token, .. } = hold;
        let value = reading.one_more(Counter::Unfenced);
        self.note(What::Write { counter: Counter::Unfenced, value });
        self.counters.write_unfenced(resource, value)?;
        self.note(What::Applied(Counter::Unfenced));
        let value = reading.one_more(Counter::Fenced);
        self.note(What::Write { counter: Counter::Fenced, value });
        let written = self.counters.write_fenced(resource, *token, value)?;
        self.note(match written {
            Fenced::Done => What::Applied(Counter::Fenced),
            Fenced::Stale => What::Stale(Counter::Fenced),
        });
        Ok(())
    }

    fn release(&mut self, mut hold: Hold) {
        if self.is_held(&mut hold) {
            self.note_belief(&mut hold);
        }
        let outcome = match hold.guard.release() {
            Ok(Released::Now) => "now".to_owned(),
            Ok(_) => "gone".to_owned(),
            Err(error) => format!("unknown {error}"),
        };
        self.note(What::Released(outcome));
    }

    /// Checks and records the answer: the first no, and a yes now and then and before
    /// the first no.
    fn is_held(&mut self, hold: &mut Hold) -> bool {
        let asked = history::now();
        if hold.guard.is_held() {
            hold.held = Some(asked);
            if hold.noted.is_none_or(|noted| asked - noted > NOTE_EVERY) {
                self.note_belief(hold);
            }
            return true;
        }
        if !hold.lost {
            hold.lost = true;
            self.note_belief(hold);
            self.note(What::Lost(hold.guard.lost().to_string()));
        }
        false
    }

    fn note_belief(&mut self, hold: &mut Hold) {
        if let Some(held) = hold.held
            && hold.noted != hold.held
        {
            self.notes.note_at(held, self.attempt, What::Held);
            hold.noted = hold.held;
        }
    }

    fn note(&mut self, what: What) {
        self.notes.note(self.attempt, what);
    }
}

/// The kind of an error, in one word.
fn kind(error: &LockError) -> &'static str {
    match error {
        LockError::Held { .. } => "held",
        LockError::NoMajority { .. } => "no-majority",
        LockError::Quarantined { .. } => "quarantined",
        LockError::TooSlow { .. } => "too-slow",
        LockError::Busy { .. } => "busy",
        _ => "other",
    }
}
