//! What is done for one row of the table of faults, and what must come of it.

use std::time::Duration;

use redlatch_testbed::{Server, ServerOptions};

use crate::checker::Findings;
use crate::orders::{Guarding, Habits, Orders};
use crate::scene::Scene;

/// One row of the table of faults.
pub(crate) struct Row {
    /// Its number in the table.
    pub(crate) number: u32,
    /// The fault.
    pub(crate) fault: &'static str,
    /// What is done, one after the other; all must be as they should.
    pub(crate) parts: Vec<Part>,
}

/// One thing that is done for a row.
pub(crate) enum Part {
    /// Workers under load while things break.
    Load(Box<Load>),
    /// Something short of its own.
    Script(Script),
    /// Tests of this workspace that show just this, by name.
    Tests(&'static [&'static str]),
}

impl Part {
    /// Lets nodes vote that forgot.
    pub(crate) fn drop_guard(&mut self) {
        if let Self::Load(load) = self {
            load.habits.guard = Guarding::Off;
        }
    }
}

/// Something short of its own: it says what it saw, or what was wrong.
pub(crate) struct Script {
    pub(crate) what: &'static str,
    pub(crate) play: fn(Scale) -> anyhow::Result<Shown>,
}

/// What a script did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    pub(crate) injected: usize,
    pub(crate) acquisitions: usize,
    pub(crate) note: String,
}

/// How long things are to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Full,
    Short,
}

/// Workers under load while things break.
pub(crate) struct Load {
    /// What the load shows, if the row has more than one.
    pub(crate) what: &'static str,
    pub(crate) nodes: Nodes,
    pub(crate) proxied: bool,
    /// Workers that hold the first resource for long and without renewal, one
    /// after the other: what a node forgets then matters.
    pub(crate) lingerers: usize,
    /// How long they hold it, at least and at most.
    pub(crate) linger: (Duration, Duration),
    /// Workers that take the other resources as often as they can.
    pub(crate) workers: usize,
    pub(crate) callers: usize,
    pub(crate) workers_clock: bool,
    /// How many other resources there are.
    pub(crate) resources: usize,
    pub(crate) acquires: Option<u64>,
    pub(crate) habits: Habits,
    /// How long, in full and in short.
    pub(crate) lasts: (Duration, Duration),
    /// Before the first fault.
    pub(crate) prepare: fn(&mut Scene),
    /// One round of faults; called until the time is up.
    pub(crate) nemesis: fn(&mut Scene),
    /// Afterwards: puts right what the last round may have left.
    pub(crate) repair: fn(&mut Scene),
    pub(crate) must: Must,
}

/// Which servers.
pub(crate) enum Nodes {
    /// So many alike.
    Alike(usize, ServerOptions),
    /// One of each.
    Each(Vec<ServerOptions>),
}

/// What must come of a load, besides tokens in order, no fenced update lost and
/// nothing left behind: those hold always.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each must stands for itself")]
pub(crate) struct Must {
    /// Promise 1 applies: nobody believes to hold what another one holds.
    pub(crate) exclude: bool,
    /// Without a fence updates are lost: else the test is too weak.
    pub(crate) lose_unfenced: bool,
    /// Locks are granted while the fault lasts.
    pub(crate) go_on: bool,
    /// Locks are granted again after each fault; not where one holder keeps the
    /// lock all the time.
    pub(crate) recovers: bool,
    /// Some guards are lost, and say so.
    pub(crate) signal_loss: bool,
    /// No guard is lost.
    pub(crate) keep_leases: bool,
}

impl Default for Must {
    fn default() -> Self {
        Self {
            exclude: true,
            lose_unfenced: false,
            go_on: true,
            recovers: true,
            signal_loss: false,
            keep_leases: false,
        }
    }
}

impl Default for Load {
    fn default() -> Self {
        Self {
            what: "load",
            nodes: Nodes::Alike(5, Server::options()),
            proxied: false,
            lingerers: 3,
            linger: (Duration::from_millis(300), Duration::from_millis(900)),
            workers: 4,
            callers: 1,
            workers_clock: false,
            resources: 2,
            acquires: None,
            habits: Habits::default(),
            lasts: (Duration::from_secs(12), Duration::from_millis(1500)),
            prepare: |_| (),
            nemesis: |_| (),
            repair: |_| (),
            must: Must::default(),
        }
    }
}

impl Load {
    pub(crate) fn servers(&self) -> Vec<ServerOptions> {
        match &self.nodes {
            Nodes::Alike(count, options) => vec![options.clone(); *count],
            Nodes::Each(options) => options.clone(),
        }
    }

    /// The orders of all workers, after a pattern.
    pub(crate) fn orders(&self, pattern: &Orders) -> Vec<Orders> {
        let first = self.first();
        let lingerer = Orders {
            resources: 0..first,
            callers: 1,
            habits: Habits { thinks: self.linger, ..self.habits },
            ..pattern.clone()
        };
        let worker = Orders { resources: first..self.counters(), ..pattern.clone() };
        let mut orders = vec![lingerer; self.lingerers];
        orders.extend(vec![worker; self.workers]);
        orders
    }

    /// How many resources are locked in all.
    pub(crate) fn counters(&self) -> usize {
        self.first() + self.resources
    }

    /// The first resource that is not for lingerers.
    fn first(&self) -> usize {
        usize::from(self.lingerers > 0)
    }

    pub(crate) fn lasts(&self, scale: Scale) -> Duration {
        match scale {
            Scale::Full => self.lasts.0,
            Scale::Short => self.lasts.1,
        }
    }
}

impl Must {
    /// What a reader of the figures must know.
    pub(crate) fn note(self) -> String {
        if self.exclude { String::new() } else { "exclusion is not promised here".into() }
    }

    /// What is not as it must be.
    pub(crate) fn missed(self, findings: &Findings) -> Vec<String> {
        let Findings { overlaps, token_faults, fenced, left, recovery, .. } = findings;
        let broken = [
            (self.exclude && !overlaps.is_empty(), format!("{} overlaps", overlaps.len())),
            (!token_faults.is_empty(), format!("{} token faults", token_faults.len())),
            (fenced.lost > 0, format!("{} fenced updates lost", fenced.lost)),
            (!left.is_empty(), format!("{} keys left behind", left.len())),
            // How long it took is a figure of the report: it depends on the machine.
            (
                self.recovers && recovery.without > 0,
                format!("{} faults without recovery", recovery.without),
            ),
            (self.keep_leases && findings.losses > 0, format!("{} leases lost", findings.losses)),
        ];
        let broken = broken.into_iter().filter_map(|(is_so, what)| is_so.then_some(what));
        broken.chain(self.unshown(findings).into_iter().map(str::to_owned)).collect()
    }

    /// What has to happen before the row shows anything. On a busy machine it
    /// takes longer, so the load goes on until then.
    pub(crate) fn unshown(self, findings: &Findings) -> Vec<&'static str> {
        let Findings { unfenced, recovery, losses, .. } = findings;
        let unshown = [
            (recovery.faults == 0, "no fault was injected"),
            (self.go_on && recovery.during == 0, "nothing granted while faults lasted"),
            (
                self.lose_unfenced && unfenced.lost == 0,
                "no update lost without a fence: the test is too weak",
            ),
            (self.signal_loss && *losses == 0, "no loss was signalled"),
        ];
        unshown.into_iter().filter_map(|(is_so, what)| is_so.then_some(what)).collect()
    }
}
