//! Callers of an async lock: each takes the one lock, or its own, in a closed loop.

use super::{crowd, hold::hold};
use crate::wire::{Order, Record, Turn, now_ns};
use std::{
    fs::{File, OpenOptions},
    future::Future,
    io::Write as _,
    time::Duration,
};
use tokio::task::JoinSet;

/// How often a caller checks whether it is its turn to ask.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A lock library, connected.
pub(super) trait Lock: Send + Sync + 'static {
    type Caller: Caller;

    /// One more caller of it.
    fn caller(&self) -> impl Future<Output = anyhow::Result<Self::Caller>> + Send;
}

pub(super) trait Caller: Send + 'static {
    type Held: Send;

    /// Waits for the lock for so long.
    fn acquire(
        &mut self,
        key: &str,
        wait: Duration,
    ) -> impl Future<Output = anyhow::Result<Self::Held>> + Send;

    fn release(&mut self, held: Self::Held) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// 0 if the lock has none.
    fn fencing_token(_held: &Self::Held) -> u64 {
        0
    }
}

/// A lock and its callers, who stay from one order to the next, as do their
/// connections and leases.
pub(super) struct Host<L: Lock> {
    lock: L,
    callers: Vec<L::Caller>,
}

impl<L: Lock> Host<L> {
    pub(super) fn new(lock: L) -> Self {
        Self { lock, callers: Vec::new() }
    }

    /// Runs all callers of the order.
    pub(super) async fn serve(&mut self, order: &Order) -> anyhow::Result<Record> {
        while self.callers.len() < order.tasks {
            self.callers.push(self.lock.caller().await?);
        }
        let mut running = JoinSet::new();
        for (index, caller) in self.callers.drain(..order.tasks).enumerate() {
            let (number, order) = (order.first + index, order.clone());
            let one = One { key: order.key_of(number), number, order, record: Record::default() };
            running.spawn(one.run(caller));
        }
        let mut done = Vec::new();
        while let Some(one) = running.join_next().await {
            done.push(one??);
        }
        done.sort_by_key(|(one, _)| one.number);
        let mut record = Record::default();
        for (one, caller) in done {
            self.callers.push(caller);
            record.add(one.record);
        }
        Ok(record)
    }
}

struct One {
    key: String,
    order: Order,
    number: usize,
    record: Record,
}

impl One {
    async fn run<C: Caller>(mut self, mut caller: C) -> anyhow::Result<(Self, C)> {
        let mut turns = Vec::new();
        let mut moods = crowd::Moods::new(self.number as u64 ^ now_ns());
        let mut baton = self.order.baton.as_ref().map(Baton::open).transpose()?;
        let mut next = self.number as u64;
        let mut due = self.order.begin_ns;
        sleep_until(due).await;
        while now_ns() < self.order.end_ns {
            if let Some(baton) = &baton
                && baton.grants()? < next
            {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            let asked = now_ns();
            let Some(held) = self.ask(&mut caller, &mut moods).await else { continue };
            let granted = now_ns();
            if let Some(baton) = &mut baton {
                baton.pass()?;
                next += self.order.callers as u64;
            }
            hold(Duration::from_micros(self.order.hold_us)).await?;
            let (token, releasing) = (C::fencing_token(&held), now_ns());
            if let Err(error) = caller.release(held).await {
                self.record.why = error.to_string();
            }
            turns.push(Turn { asked, granted, releasing, released: now_ns(), token });
            if self.order.every_us > 0 {
                due += 1_000 * self.order.every_us;
                sleep_until(due).await;
            }
        }
        self.record.callers = vec![turns];
        Ok((self, caller))
    }

    async fn ask<C: Caller>(
        &mut self,
        caller: &mut C,
        moods: &mut crowd::Moods,
    ) -> Option<C::Held> {
        let mood = if self.order.crowd { moods.next() } else { crowd::Mood::Patient };
        let (key, patience) = (&self.key, Duration::from_millis(self.order.wait_ms));
        let acquired = match mood {
            crowd::Mood::Patient => caller.acquire(key, patience).await,
            crowd::Mood::Hasty(wait) => caller.acquire(key, wait).await,
            crowd::Mood::Fickle(after) => {
                match tokio::time::timeout(after, caller.acquire(key, patience)).await {
                    Ok(acquired) => acquired,
                    Err(dropped) => Err(dropped.into()),
                }
            }
        };
        match acquired {
            Ok(held) => return Some(held),
            Err(_) if mood != crowd::Mood::Patient => self.record.left += 1,
            Err(error) => {
                self.record.gave_up += 1;
                self.record.why = error.to_string();
                // A caller that fails at once must pause, or it would spin forever.
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        None
    }
}

async fn sleep_until(due: u64) {
    tokio::time::sleep(Duration::from_nanos(due.saturating_sub(now_ns()))).await;
}

/// A file that all callers append to and look at.
struct Baton(File);

impl Baton {
    fn open(path: impl AsRef<std::path::Path>) -> anyhow::Result<Self> {
        Ok(Self(OpenOptions::new().create(true).append(true).open(path)?))
    }

    fn grants(&self) -> anyhow::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn pass(&mut self) -> anyhow::Result<()> {
        Ok(self.0.write_all(b".")?)
    }
}
