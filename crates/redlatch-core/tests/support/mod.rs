//! A world to test the machine in: nodes in memory, clients, a clock that is
//! handed on, and lines between them that do what the test says.
//!
//! Nothing happens by itself but this: a command sent over an open line is
//! carried out and answered at once. Time stands still until the test lets it
//! [`pass`](World::pass).
#![allow(dead_code, reason = "no test needs all of it")]

mod channel;
mod client;
mod node;
mod seen;
mod world;

pub(crate) use channel::{Cut, Mode};
pub(crate) use world::{Lock, World};

use core::time::Duration;
use redlatch_core::{
    Entropy, Moment, Resources, Terms,
    config::{Wanted, WantedRenewal},
    dice::Dice,
};
use std::{process, sync::Once, thread};

pub(crate) const MS: Duration = Duration::from_millis(1);
/// The TTL of every lock here unless a test says otherwise. It leaves 988 ms of
/// use, a node timeout of 50 ms and 98.8 ms of notice.
pub(crate) const TTL: Duration = Duration::from_secs(1);
/// How long a node that forgot is quarantined, where there is a guard.
pub(crate) const WINDOW: Duration = Duration::from_millis(1500);
pub(crate) const USABLE: Duration = Duration::from_millis(988);
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_millis(50);
pub(crate) const NOTICE: Duration = Duration::from_micros(98_800);

pub(crate) fn at(millis: u32) -> Moment {
    Moment::START.after(millis * MS)
}

pub(crate) fn resource() -> Resources {
    Resources::new(["invoice:42"]).expect("a good name")
}

/// A lock without renewal.
pub(crate) fn plain() -> Terms {
    terms(|_| {})
}

/// A lock that is renewed every 333 ms for as long as `max_hold`.
pub(crate) fn renewed(max_hold: Duration) -> Terms {
    terms(|wanted| {
        wanted.renewal = Some(WantedRenewal { every: Some(333 * MS), max_hold });
    })
}

/// A lock of one second without renewal, but for what `change` makes of it.
pub(crate) fn terms(change: impl FnOnce(&mut Wanted)) -> Terms {
    let mut wanted = Wanted { ttl: TTL, renewal: None, ..Wanted::default() };
    change(&mut wanted);
    Terms::check(&wanted).expect("times that fit together")
}

/// Ends the process if its tests have not come to an end after a time that no
/// machine needs: a loop inside of the machine cannot be counted from outside.
pub(crate) fn watchdog() {
    const LIMIT: Duration = Duration::from_secs(600);
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        thread::spawn(|| {
            thread::sleep(LIMIT);
            eprintln!("a test has not ended after {LIMIT:?}: the machine is in a loop");
            process::abort();
        });
    });
}

/// Randomness that is the same in every run, and different for every client.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Luck {
    dice: Dice,
    /// What the pauses between attempts are made of, where a test fixes them.
    pub(crate) pauses: Option<u8>,
}

impl Luck {
    pub(crate) fn of(client: usize) -> Self {
        Luck { dice: Dice::of(client as u64, &[]), pauses: None }
    }
}

impl Entropy for Luck {
    fn fill(&mut self, bytes: &mut [u8]) {
        // A pause takes eight bytes, a token twenty.
        match (bytes.len(), self.pauses) {
            (8, Some(byte)) => bytes.fill(byte),
            _ => self.dice.fill(bytes),
        }
    }
}
