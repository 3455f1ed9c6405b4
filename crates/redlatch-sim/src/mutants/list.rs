//! The mutants, and where each is hunted.

use crate::{model::Mistake, node::Flaw};
use redlatch_core::mutant::Mutant as Core;

/// A known way to get it wrong.
#[derive(Debug, Clone, Copy)]
pub struct Mutant {
    /// For the command line and the table.
    pub name: &'static str,
    /// What is wrong.
    pub about: &'static str,
    /// How it is planted.
    pub plant: Plant,
    /// The scenario that leaves room for it.
    pub scenario: &'static str,
}

/// Where the mistake is.
#[derive(Debug, Clone, Copy)]
pub enum Plant {
    /// In a decision of the core.
    Core(Core),
    /// In a node.
    Node(Flaw),
    /// In what carries commands to nodes.
    UndosOvertake,
}

impl Plant {
    /// The core's part and the rest.
    pub(super) fn split(self) -> (Option<Core>, Mistake) {
        match self {
            Plant::Core(mutant) => (Some(mutant), Mistake::default()),
            Plant::Node(flaw) => (None, Mistake { flaw: Some(flaw), ..Mistake::default() }),
            Plant::UndosOvertake => (None, Mistake { undos_overtake: true, ..Mistake::default() }),
        }
    }
}

const fn core(mutant: Core, name: &'static str, scenario: &'static str) -> Mutant {
    Mutant { name, about: "", plant: Plant::Core(mutant), scenario }
}

const fn node(flaw: Flaw, name: &'static str, scenario: &'static str) -> Mutant {
    Mutant { name, about: "", plant: Plant::Node(flaw), scenario }
}

/// All of them.
pub const ALL: &[Mutant] = &[
    Mutant {
        about: "a majority is a grant, however late it comes",
        ..core(Core::ValidityNotRechecked, "validity-not-rechecked", "late-replies")
    },
    Mutant {
        about: "validity is checked after the first round only",
        ..core(Core::ValidityCheckedEarly, "validity-checked-early", "late-numbers")
    },
    Mutant {
        about: "the greatest number counts, whoever else has it",
        ..core(Core::NoSecondRound, "no-second-round", "numbers")
    },
    Mutant {
        about: "a register is raised also where the key is another's",
        ..node(Flaw::RaisesUnconditionally, "raise-unconditional", "early-expiry")
    },
    Mutant {
        about: "a number is confirmed by a register that has more",
        ..node(Flaw::ConfirmsAtLeast, "raise-at-least", "echo")
    },
    Mutant {
        about: "later attempts sign with the token of the first",
        ..core(Core::TokenReused, "token-reused", "retry")
    },
    Mutant {
        about: "an extension can shorten the life of a key",
        ..node(Flaw::ExtensionShortens, "extension-shortens", "short-extension")
    },
    Mutant {
        about: "an extension counts also after the old lease",
        ..core(Core::ExtensionAfterTheEnd, "extension-after-end", "late-extension")
    },
    Mutant {
        about: "an extension creates the keys it does not find",
        ..node(Flaw::ExtensionRecreates, "extension-recreates", "removed")
    },
    Mutant {
        about: "a node that forgot votes again after half of the window",
        ..core(Core::QuarantineTooShort, "quarantine-too-short", "guarded")
    },
    Mutant {
        about: "the registers for a repair are read before the window",
        ..node(Flaw::ReadsRegistersEarly, "repair-before-window", "guarded-numbers")
    },
    Mutant {
        about: "a promoted replica's uptime is believed",
        ..core(Core::UptimeAfterPromotion, "uptime-after-promotion", "failover")
    },
    Mutant {
        about: "nodes that refused are not asked to undo",
        ..core(Core::NoUndoWhereRefused, "no-undo-where-refused", "repeat")
    },
    Mutant {
        about: "nodes that failed do not count",
        ..core(Core::MajorityOfTheReachable, "majority-of-reachable", "unreachable")
    },
    Mutant {
        name: "undo-overtakes",
        about: "an undo overtakes its take",
        plant: Plant::UndosOvertake,
        scenario: "cancel",
    },
    Mutant {
        about: "a release deletes the key of whoever has it",
        ..node(Flaw::ReleaseDeletesAny, "release-deletes-any", "again")
    },
];
