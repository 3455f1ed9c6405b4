//! Which promises a run can be held to.

use super::{Guard, Place, Schedule, Wrong};
use std::time::Duration;

/// Which promises must hold in a run: a lock with a timeout needs clocks that
/// run at about the same rate, and nodes that do not forget behind its back.
///
/// Where more than a minority has forgotten at once, fencing numbers rest on the
/// nodes' clocks alone; and whoever has other settings may be the first to admit
/// what nobody serves any more: from then on the run itself gives up these claims
/// (see [`Claims::after_amnesia`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a promise of its own")]
pub struct Claims {
    /// Promise 1.
    pub exclusion: bool,
    /// Promise 1 for other libraries, and clients that name other nodes and have
    /// no guard: they cannot tell that a node forgot.
    pub foreign: bool,
    /// Promise 2.
    pub fencing: bool,
    /// Promise 2 although a majority forgot: by the nodes' clocks.
    pub by_clock: bool,
    /// Promise 7: what is counted by clocks that nobody sets.
    pub windows: bool,
    /// Those who must get a lock in the end can.
    pub liveness: bool,
    /// Keys stay where they were set until they were released or ran out.
    pub keys_stay: bool,
    /// Keys are gone when their time is over by true time.
    pub keys_go: bool,
}

impl Claims {
    /// What is left of them when fewer than a majority remember.
    #[must_use]
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

    /// What is left of them when an operator's word was not true.
    #[must_use]
    pub fn after_untruth(self) -> Claims {
        Claims { exclusion: false, fencing: false, windows: false, ..self }
    }

    /// What is left of them when an operator vouches for a node that has no more
    /// than its clock to tell numbers by.
    #[must_use]
    pub fn after_word(self) -> Claims {
        Claims { fencing: false, ..self }
    }
}

impl Schedule {
    /// What must hold.
    #[must_use]
    pub fn claims(&self) -> Claims {
        let any = |wrong: &dyn Fn(&Wrong) -> bool| self.troubles.iter().any(|t| wrong(&t.what));
        let forgets = any(&Wrong::forgets);
        let forward = any(&|wrong| matches!(wrong, Wrong::StepNode { by: 0.., .. }));
        let back = any(&|wrong| matches!(wrong, Wrong::StepNode { by: ..0, .. }));
        let swapped = any(&|wrong| matches!(wrong, Wrong::Swap { .. }));
        let rerouted = any(&|wrong| matches!(wrong, Wrong::Reroute { .. }));
        let guard = self.parties[0].guard;
        // A mark's age and uptime are counted by the wall clock: where that was
        // set they prove nothing.
        let guarded = match guard {
            Guard::Off => !forgets,
            Guard::On => !(forgets && forward),
            Guard::Strict => true,
        };
        let by_clock = !forward && !back && self.clocks_are_close();
        Claims {
            exclusion: guarded && !forward,
            foreign: !forgets && !forward && !self.fresh,
            // The clock of one node is what counts, whoever proposes what.
            fencing: guarded || by_clock && self.nodes.len() == 1,
            by_clock,
            windows: guard != Guard::Off && guarded,
            liveness: true,
            keys_stay: !forgets && !forward,
            // Nothing can be undone on a server that an address has led away from.
            keys_go: !back && !swapped && !rerouted,
        }
    }

    /// Whether the nodes' clocks are never apart by as much as the longest TTL,
    /// and no register is ahead of them.
    fn clocks_are_close(&self) -> bool {
        let ends = self.jobs.iter().map(|job| job.at.get() + job.wait.get()).max();
        let ends = ends.unwrap_or_default() + self.max_ttl() * 4;
        let at = |place: &Place, time: Duration| {
            let drifted = i128::from(place.drift) * micros(time) / 1_000_000;
            i128::from(place.wall) + drifted
        };
        let apart = |time| {
            let shown = || self.nodes.iter().map(|place| at(place, time));
            shown().max().unwrap_or(0) - shown().min().unwrap_or(0)
        };
        let shortest = self.parties.iter().map(|party| party.max_ttl.get()).min();
        // A window is counted by clients' clocks, which may run fast.
        let most = micros(shortest.unwrap_or_default()) * 95 / 100;
        self.registers.iter().all(|register| *register < 1 << 40)
            && apart(Duration::ZERO).max(apart(ends)) < most
    }
}

fn micros(time: Duration) -> i128 {
    i128::try_from(time.as_micros()).unwrap_or(i128::MAX)
}
