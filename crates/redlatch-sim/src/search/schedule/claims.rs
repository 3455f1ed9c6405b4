//! Which promises a run can be held to.

use super::{Guard, Schedule, Wrong};

/// Which promises must hold in a run: a lock with a timeout needs clocks that
/// run at about the same rate, and nodes that do not forget behind its back.
///
/// Where more than a minority has forgotten at once, nobody can tell the fencing
/// numbers any more, and by their uptime nodes that were flushed look fit: from
/// then on the run itself gives up these claims (see [`Claims::after_amnesia`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a promise of its own")]
pub struct Claims {
    /// Promise 1.
    pub exclusion: bool,
    /// Promise 1 for other libraries, too: they know of no restart guard.
    pub foreign: bool,
    /// Promise 2.
    pub fencing: bool,
    /// Keys stay where they were set until they were released or ran out.
    pub keys_stay: bool,
    /// Keys are gone when their time is over by true time.
    pub keys_go: bool,
}

impl Claims {
    /// What is left of them when fewer than a majority remember.
    #[must_use]
    pub fn after_amnesia(self, guard: Guard) -> Claims {
        let exclusion = self.exclusion && guard == Guard::Strict;
        Claims { exclusion, fencing: false, ..self }
    }
}

impl Schedule {
    /// What must hold.
    #[must_use]
    pub fn claims(&self) -> Claims {
        let any = |wrong: &dyn Fn(&Wrong) -> bool| self.troubles.iter().any(|t| wrong(&t.what));
        let forgets = any(&Wrong::forgets);
        let forward = any(&|wrong| matches!(wrong, Wrong::StepNode { by: 0.., .. }));
        // A client whose clock jumps ahead believes keys dead that are not.
        let jumps = any(&|wrong| matches!(wrong, Wrong::StepClient { by: 0.., .. }));
        let back = any(&|wrong| matches!(wrong, Wrong::StepNode { by: ..0, .. }));
        // Uptime is counted by the wall clock: where that was set it proves nothing.
        let guarded = match self.guard {
            Guard::Off => !forgets,
            Guard::On => !(forgets && forward),
            Guard::Strict => true,
        };
        Claims {
            exclusion: guarded && !forward,
            foreign: !forgets && !forward,
            fencing: guarded,
            keys_stay: !forgets && !forward,
            keys_go: !back && !jumps,
        }
    }
}
