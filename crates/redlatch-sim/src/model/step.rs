//! Lists what can happen next.
//!
//! In:  a state.
//! Out: every possible step, in a fixed order.
//!
//! Only mirror images are left out: identical nodes are numbered in the order in
//! which they handle the first client's first take, and clients with the same
//! script in the order in which they begin.

use super::{caller::Stage, lines::Mislaid, scenario::NODES, world::World};

/// One thing that happens. Clients and nodes are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The caller asks for a lock.
    Start {
        client: usize,
    },
    Release {
        client: usize,
    },
    Extend {
        client: usize,
    },
    Cancel {
        client: usize,
    },
    /// The client checks which nodes may vote.
    Look {
        client: usize,
    },
    Tick {
        client: usize,
    },
    /// The node carries out the client's next command.
    CarryOut {
        client: usize,
        node: usize,
    },
    /// The client gets the node's oldest reply.
    Answer {
        client: usize,
        node: usize,
    },
    /// The client is woken by the node.
    Wake {
        client: usize,
        node: usize,
    },
    /// The line goes wrong on the node.
    Mislay {
        node: usize,
        how: Mislaid,
    },
    /// The connection breaks, and the client notices.
    Cut {
        client: usize,
        node: usize,
    },
    /// The command just sent found no connection.
    Refuse {
        client: usize,
        node: usize,
    },
    /// The node carries out the client's next command, which stays queued.
    Repeat {
        client: usize,
        node: usize,
    },
    /// The node carries out the client's next command; a copy arrives later.
    Echo {
        client: usize,
        node: usize,
    },
    /// The node carries out a command of a broken connection.
    Straggle {
        client: usize,
        node: usize,
    },
    /// The node restarts without its memory.
    Restart {
        node: usize,
    },
    FlushAll,
    Jump {
        client: usize,
    },
    /// The node's key expires early.
    Expire {
        node: usize,
    },
    /// Someone deletes the lock on all nodes.
    Remove,
    /// A replica without the keys takes the node's place.
    FailOver {
        node: usize,
    },
    ForeignTake {
        node: usize,
    },
    ForeignDelete {
        node: usize,
    },
    /// Time passes until something changes by itself.
    Pass,
}

impl World {
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(24);
        for client in 0..self.clients() {
            self.steps_of_caller(client, &mut steps);
            for node in 0..NODES {
                self.steps_of_line(client, node, &mut steps);
            }
        }
        for node in 0..NODES {
            self.steps_of_node(node, &mut steps);
        }
        let held = self.callers.iter().any(|caller| caller.holds(self.now));
        if self.faults.removals > 0 && held {
            steps.push(Step::Remove);
        }
        if self.faults.flushes > 0 {
            steps.push(Step::FlushAll);
        }
        if self.may_pass() {
            steps.push(Step::Pass);
        }
        steps
    }

    fn steps_of_caller(&self, client: usize, steps: &mut Vec<Step>) {
        let caller = &self.callers[client];
        let script = &self.setting.scenario.scripts[client];
        match &caller.stage {
            Stage::Idle if caller.started < script.locks && self.may_begin(client) => {
                steps.push(Step::Start { client });
            }
            Stage::Wanting if script.cancels => steps.push(Step::Cancel { client }),
            Stage::Holding(lease) if !lease.lost => {
                if script.releases {
                    steps.push(Step::Release { client });
                }
                if caller.extends > 0 {
                    steps.push(Step::Extend { client });
                }
            }
            _ => {}
        }
        if caller.looks > 0 && self.has_quarantined_node() && script.begins() <= self.now {
            steps.push(Step::Look { client });
        }
        if self.faults.jumps > 0 && script.jumps {
            steps.push(Step::Jump { client });
        }
        if self.is_due(client) {
            steps.push(Step::Tick { client });
        }
    }

    fn may_begin(&self, client: usize) -> bool {
        let scripts = &self.setting.scenario.scripts;
        let started = |client: usize| self.callers[client].started > 0;
        let mirrored = |client: usize| scripts[client] == scripts[client - 1];
        let in_turn = client == 0
            || started(client)
            || (started(client - 1) || !mirrored(client)) && started(0);
        in_turn && scripts[client].begins() <= self.now
    }

    /// Whether an examination finds anything; otherwise it ends at once.
    fn has_quarantined_node(&self) -> bool {
        let guard = self.setting.guard.as_ref();
        let mut nodes = self.nodes.iter().enumerate();
        guard.is_some_and(|guard| nodes.any(|(at, node)| !node.is_admitted(guard.fingerprint(at))))
    }

    fn steps_of_line(&self, client: usize, node: usize, steps: &mut Vec<Step>) {
        let line = self.channel(client, node);
        let left = &self.faults;
        if line.answer().is_some() {
            steps.push(Step::Answer { client, node });
        }
        if line.wake().is_some() {
            steps.push(Step::Wake { client, node });
        }
        if line.straggler().is_some() {
            steps.push(Step::Straggle { client, node });
        }
        if client == 0 && self.is_mirrored(node) {
            return;
        }
        if line.next().is_some() {
            steps.push(Step::CarryOut { client, node });
            if left.repeats > 0 {
                steps.push(Step::Repeat { client, node });
            }
            if left.echoes > 0 {
                steps.push(Step::Echo { client, node });
            }
            if left.refusals > 0 && line.has_one_command() {
                steps.push(Step::Refuse { client, node });
            }
        }
        if left.cuts > 0 && !line.is_idle()
            || left.deaf > 0 && line.is_idle() && self.hears(client, node)
        {
            steps.push(Step::Cut { client, node });
        }
    }

    fn steps_of_node(&self, node: usize, steps: &mut Vec<Step>) {
        if self.faults.restarts > 0 && !self.is_mirrored(node) {
            steps.push(Step::Restart { node });
        }
        if self.faults.failovers > 0 && !self.is_mirrored(node) {
            steps.push(Step::FailOver { node });
        }
        if self.faults.expiries > 0 && !self.nodes[node].contents.keys.is_empty() {
            steps.push(Step::Expire { node });
        }
        if self.faults.mislaid > 0 {
            steps.extend(self.mislayable(node).into_iter().map(|how| Step::Mislay { node, how }));
        }
        if self.foreign.may_take(node) {
            steps.push(Step::ForeignTake { node });
        }
        if self.foreign.may_delete(node) {
            steps.push(Step::ForeignDelete { node });
        }
    }

    /// Whether an untouched node with a lower number must come first.
    fn is_mirrored(&self, node: usize) -> bool {
        let bit = 1 << node;
        self.untouched & bit != 0 && self.untouched & (bit - 1) != 0
    }

    /// Time passes a due timer only if its client is paused.
    fn may_pass(&self) -> bool {
        let overdue = (0..self.clients()).any(|client| self.is_due(client));
        (!overdue || self.faults.lags > 0) && self.next_moment().is_some()
    }
}
