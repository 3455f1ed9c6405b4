//! What is done for one row of the table of faults, and what the result must be.

use crate::{
    checker::Findings,
    orders::{GuardSetting, Habits, Orders},
    scene::Scene,
};
use redlatch_testbed::{Server, ServerOptions};
use std::time::Duration;

pub(crate) struct Row {
    pub(crate) number: u32,
    pub(crate) fault: &'static str,
    /// All of them must succeed.
    pub(crate) parts: Vec<Part>,
}

impl Row {
    pub(crate) fn load(mut self, load: Load) -> Self {
        self.parts.push(Part::Load(Box::new(load)));
        self
    }

    pub(crate) fn script(
        mut self,
        what: &'static str,
        play: fn(Scale) -> anyhow::Result<Shown>,
    ) -> Self {
        self.parts.push(Part::Script(Script { what, play }));
        self
    }

    pub(crate) fn tests(mut self, names: &'static [&'static str]) -> Self {
        self.parts.push(Part::Tests(names));
        self
    }
}

pub(crate) enum Part {
    Load(Box<Load>),
    /// A short separate scenario.
    Script(Script),
    /// Tests of this workspace that show it, by name.
    Tests(&'static [&'static str]),
}

impl Part {
    /// Lets nodes that forgot vote.
    pub(crate) fn drop_guard(&mut self) {
        if let Self::Load(load) = self {
            load.habits.guard = GuardSetting::Off;
        }
    }
}

/// A short separate scenario: returns what it saw, or what was wrong.
pub(crate) struct Script {
    pub(crate) what: &'static str,
    pub(crate) play: fn(Scale) -> anyhow::Result<Shown>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    pub(crate) injected: usize,
    pub(crate) acquisitions: usize,
    pub(crate) note: String,
}

/// How long a run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Full,
    Short,
}

pub(crate) struct Load {
    /// What distinguishes this load from others of the row.
    pub(crate) what: &'static str,
    pub(crate) nodes: Nodes,
    pub(crate) proxied: bool,
    /// Workers that take turns holding the first resource for a long time without
    /// renewal, so that it matters if a node forgets.
    pub(crate) lingerers: usize,
    /// The least and the most time they hold it.
    pub(crate) linger: (Duration, Duration),
    /// Workers that take the other resources as often as they can.
    pub(crate) workers: usize,
    pub(crate) callers: usize,
    pub(crate) workers_clock: bool,
    /// How many other resources there are.
    pub(crate) resources: usize,
    pub(crate) acquires: Option<u64>,
    pub(crate) habits: Habits,
    /// In a full and in a short run.
    pub(crate) lasts: (Duration, Duration),
    pub(crate) prepare: fn(&mut Scene),
    /// One round of faults; called until the time is up.
    pub(crate) nemesis: fn(&mut Scene),
    /// Runs at the end: repairs what the last round may have left broken.
    pub(crate) repair: fn(&mut Scene),
    pub(crate) must: Must,
}

pub(crate) enum Nodes {
    /// This many of one kind.
    Alike(usize, ServerOptions),
    /// One of each.
    Each(Vec<ServerOptions>),
}

/// What the result of a load must be. In any case, tokens are in order, no fenced
/// update is lost and nothing is left behind.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each must stands for itself")]
pub(crate) struct Must {
    /// Exclusion is promised: no two callers believe they hold one lock.
    pub(crate) exclude: bool,
    /// Unfenced updates are lost: otherwise the test is too weak.
    pub(crate) lose_unfenced: bool,
    /// Locks are granted while the fault lasts.
    pub(crate) go_on: bool,
    /// Locks are granted again after each fault; not if one holder keeps the lock
    /// all the time.
    pub(crate) recovers: bool,
    /// Some guards are lost and signal it.
    pub(crate) signal_loss: bool,
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
    /// What readers of the figures need to know.
    pub(crate) fn note(self) -> String {
        if self.exclude { String::new() } else { "exclusion is not promised here".into() }
    }

    pub(crate) fn missed(self, findings: &Findings) -> Vec<String> {
        let Findings { overlaps, token_faults, fenced, left, recovery, .. } = findings;
        let broken = [
            (self.exclude && !overlaps.is_empty(), format!("{} overlaps", overlaps.len())),
            (!token_faults.is_empty(), format!("{} token faults", token_faults.len())),
            (fenced.lost > 0, format!("{} fenced updates lost", fenced.lost)),
            (!left.is_empty(), format!("{} keys left behind", left.len())),
            // The report shows how long it took, since that depends on the machine.
            (
                self.recovers && recovery.without > 0,
                format!("{} faults without recovery", recovery.without),
            ),
            (self.keep_leases && findings.losses > 0, format!("{} leases lost", findings.losses)),
        ];
        let broken = broken.into_iter().filter_map(|(is_so, what)| is_so.then_some(what));
        broken.chain(self.unshown(findings).into_iter().map(str::to_owned)).collect()
    }

    /// What must happen before the row shows anything. The load goes on until then,
    /// which takes longer on a busy machine.
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
