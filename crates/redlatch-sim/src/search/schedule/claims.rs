//! Which promises a run must keep.

use super::{Clocks, RestartGuard, Schedule, Wrong};
use std::time::Duration;

/// Which promises must hold in a run: a lock with a timeout needs clocks that run
/// at about the same rate, and nodes that do not forget behind its back.
///
/// If more than a minority has forgotten at once, fencing tokens rest on the nodes'
/// clocks alone, and clients with other settings may be the first to admit nodes
/// that serve nobody: the run then gives up those claims (see
/// [`Claims::after_amnesia`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a promise of its own")]
pub struct Claims {
    /// Promise 1.
    pub exclusion: bool,
    /// Promise 1 for other libraries, and for unguarded clients with another list:
    /// they cannot tell that a node forgot.
    pub foreign: bool,
    /// Promise 2.
    pub fencing: bool,
    /// Promise 2 even though a majority forgot: by the nodes' clocks.
    pub by_clock: bool,
    /// Promise 7, counted by clocks that nobody sets.
    pub windows: bool,
    /// Every job that must be granted can be.
    pub liveness: bool,
    /// Keys stay until they are released or expire.
    pub keys_stay: bool,
    /// Keys are gone once they have expired by true time.
    pub keys_go: bool,
}

impl Claims {
    /// What remains when fewer than a majority remember.
    pub fn after_amnesia(self, schedule: &Schedule) -> Claims {
        let alone = schedule.parties.len() == 1;
        Claims {
            exclusion: self.exclusion && alone,
            fencing: self.fencing && self.by_clock && alone,
            windows: self.windows && alone,
            liveness: self.liveness && alone,
            ..self
        }
    }

    /// What remains when a node was admitted without the registers of nodes that know
    /// higher numbers, because those were silent.
    pub fn after_silence(self) -> Claims {
        Claims { fencing: self.fencing && self.by_clock, ..self }
    }

    /// What remains when an operator's word was false.
    pub fn after_untruth(self) -> Claims {
        Claims { exclusion: false, fencing: false, windows: false, ..self }
    }

    /// What remains when an operator vouches for a node that can order tokens only by
    /// its clock.
    pub fn after_word(self) -> Claims {
        Claims { fencing: false, ..self }
    }
}

impl Schedule {
    pub fn claims(&self) -> Claims {
        let any = |wrong: &dyn Fn(&Wrong) -> bool| self.troubles.iter().any(|t| wrong(&t.what));
        let forgets = any(&Wrong::forgets);
        let forward = any(&|wrong| matches!(wrong, Wrong::StepNode { by: 0.., .. }));
        let back = any(&|wrong| matches!(wrong, Wrong::StepNode { by: ..0, .. }));
        let swapped = any(&|wrong| matches!(wrong, Wrong::Swap { .. }));
        let rerouted = any(&|wrong| matches!(wrong, Wrong::Reroute { .. }));
        let guard = self.parties[0].guard;
        // A mark's age and the uptime are counted by the wall clock: once that was
        // set, they prove nothing.
        let guarded = match guard {
            RestartGuard::Off => !forgets,
            RestartGuard::On => !(forgets && forward),
            RestartGuard::Strict => true,
        };
        let by_clock = !forward && !back && self.clocks_are_close();
        Claims {
            exclusion: guarded && !forward,
            foreign: !forgets && !forward && !self.fresh,
            // With one node, only its clock counts, no matter who proposes what.
            fencing: guarded || by_clock && self.nodes.len() == 1,
            by_clock,
            windows: guard != RestartGuard::Off && guarded,
            liveness: true,
            keys_stay: !forgets && !forward,
            // An address that leads elsewhere hides a server: nothing can be undone
            // there.
            keys_go: !back && !swapped && !rerouted,
        }
    }

    /// Whether the nodes' clocks are never apart by the longest TTL or more, and no
    /// register is ahead of them.
    fn clocks_are_close(&self) -> bool {
        let ends = self.jobs.iter().map(|job| job.at.get() + job.wait.get()).max();
        let ends = ends.unwrap_or_default() + self.max_ttl() * 4;
        let at = |clocks: &Clocks, time: Duration| {
            let drifted = i128::from(clocks.drift) * micros(time) / 1_000_000;
            i128::from(clocks.wall) + drifted
        };
        let apart = |time| {
            let shown = || self.nodes.iter().map(|clocks| at(clocks, time));
            shown().max().unwrap_or(0) - shown().min().unwrap_or(0)
        };
        let shortest = self.parties.iter().map(|party| party.max_ttl.get()).min();
        // Clients count windows, and their clocks may run fast.
        let most = micros(shortest.unwrap_or_default()) * 95 / 100;
        self.registers.iter().all(|register| *register < 1 << 40)
            && apart(Duration::ZERO).max(apart(ends)) < most
    }
}

fn micros(time: Duration) -> i128 {
    i128::try_from(time.as_micros()).unwrap_or(i128::MAX)
}
