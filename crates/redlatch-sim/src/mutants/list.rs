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

/// All of them.
#[must_use]
pub fn all() -> Vec<Mutant> {
    let core = |mutant, name, about, scenario| Mutant {
        name,
        about,
        plant: Plant::Core(mutant),
        scenario,
    };
    let node =
        |flaw, name, about, scenario| Mutant { name, about, plant: Plant::Node(flaw), scenario };
    vec![
        core(
            Core::ValidityNotRechecked,
            "validity-not-rechecked",
            "a majority is a grant, however late it comes",
            "late-replies",
        ),
        core(
            Core::ValidityCheckedEarly,
            "validity-checked-early",
            "validity is checked after the first round only",
            "late-numbers",
        ),
        core(
            Core::NoSecondRound,
            "no-second-round",
            "the greatest number counts, whoever else has it",
            "numbers",
        ),
        node(
            Flaw::RaisesUnconditionally,
            "raise-unconditional",
            "a register is raised also where the key is another's",
            "early-expiry",
        ),
        node(
            Flaw::ConfirmsAtLeast,
            "raise-at-least",
            "a number is confirmed by a register that has more",
            "echo",
        ),
        core(
            Core::TokenReused,
            "token-reused",
            "later attempts sign with the token of the first",
            "retry",
        ),
        node(
            Flaw::ExtensionShortens,
            "extension-shortens",
            "an extension can shorten the life of a key",
            "short-extension",
        ),
        core(
            Core::ExtensionAfterTheEnd,
            "extension-after-end",
            "an extension counts also after the old lease",
            "late-extension",
        ),
        node(
            Flaw::ExtensionRecreates,
            "extension-recreates",
            "an extension creates the keys it does not find",
            "removed",
        ),
        core(
            Core::QuarantineTooShort,
            "quarantine-too-short",
            "a node that forgot votes again after half of the window",
            "guarded",
        ),
        node(
            Flaw::ReadsRegistersEarly,
            "repair-before-window",
            "the registers for a repair are read before the window",
            "guarded-numbers",
        ),
        core(
            Core::UptimeAfterPromotion,
            "uptime-after-promotion",
            "a promoted replica's uptime is believed",
            "failover",
        ),
        core(
            Core::NoUndoWhereRefused,
            "no-undo-where-refused",
            "nodes that refused are not asked to undo",
            "repeat",
        ),
        core(
            Core::MajorityOfTheReachable,
            "majority-of-reachable",
            "nodes that failed do not count",
            "unreachable",
        ),
        Mutant {
            name: "undo-overtakes",
            about: "an undo overtakes its take",
            plant: Plant::UndosOvertake,
            scenario: "cancel",
        },
        node(
            Flaw::ReleaseDeletesAny,
            "release-deletes-any",
            "a release deletes the key of whoever has it",
            "again",
        ),
    ]
}
