//! The mutants, and where each is hunted.

use crate::{node::Flaw, search::world::Slip};
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
    /// Where it must be found.
    pub hunt: Hunt,
}

/// Where a mutant must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hunt {
    /// By the model, in the scenario that leaves room for it.
    Model(&'static str),
    /// By the search, in that many seeds from that one on.
    Seeds(u64, u64),
}

/// Where the mistake is.
#[derive(Debug, Clone, Copy)]
pub enum Plant {
    /// In a decision of the core.
    Core(Core),
    /// In a node.
    Node(Flaw),
    /// In both: either alone does no harm.
    Both(Core, Flaw),
    /// In what carries commands to nodes.
    UndosOvertake,
    /// In what drives the machine.
    Driver(Slip),
}

/// What is planted where.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Planted {
    pub(super) core: Option<Core>,
    pub(super) flaw: Option<Flaw>,
    pub(super) undos_overtake: bool,
    pub(super) slip: Option<Slip>,
}

impl Plant {
    pub(super) fn split(self) -> Planted {
        let none = Planted::default();
        match self {
            Plant::Core(core) => Planted { core: Some(core), ..none },
            Plant::Node(flaw) => Planted { flaw: Some(flaw), ..none },
            Plant::Both(core, flaw) => Planted { core: Some(core), flaw: Some(flaw), ..none },
            Plant::UndosOvertake => Planted { undos_overtake: true, ..none },
            Plant::Driver(slip) => Planted { slip: Some(slip), ..none },
        }
    }
}

const fn core(mutant: Core, name: &'static str, scenario: &'static str) -> Mutant {
    Mutant { name, about: "", plant: Plant::Core(mutant), hunt: Hunt::Model(scenario) }
}

const fn node(flaw: Flaw, name: &'static str, scenario: &'static str) -> Mutant {
    Mutant { name, about: "", plant: Plant::Node(flaw), hunt: Hunt::Model(scenario) }
}

/// One that is found by seeds.
const fn seeds(plant: Plant, name: &'static str, count: u64) -> Mutant {
    Mutant { name, about: "", plant, hunt: Hunt::Seeds(0, count) }
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
        hunt: Hunt::Model("cancel"),
    },
    Mutant {
        about: "a release deletes the key of whoever has it",
        ..node(Flaw::ReleaseDeletesAny, "release-deletes-any", "again")
    },
    Mutant {
        about: "the window is as long as the longest lock, and no longer",
        ..seeds(Plant::Core(Core::WindowWithoutSkew), "window-without-skew", 1000)
    },
    Mutant {
        about: "a window goes on though the mark that it was counted by is another",
        ..seeds(Plant::Core(Core::MarkNotCompared), "mark-not-compared", 1000)
    },
    Mutant {
        about: "a node that was flushed is admitted by its uptime",
        ..seeds(Plant::Core(Core::UptimeAfterFlush), "uptime-after-flush", 1000)
    },
    Mutant {
        about: "a spare in another server's place is admitted by its own uptime",
        ..seeds(Plant::Core(Core::UptimeOfASpare), "uptime-of-a-spare", 1000)
    },
    Mutant {
        about: "a node is admitted by the numbers of a minority",
        ..seeds(Plant::Core(Core::FloorOfAMinority), "floor-of-a-minority", 1000)
    },
    Mutant {
        about: "a node is admitted without the numbers of the others",
        ..seeds(Plant::Core(Core::NoFloor), "no-floor", 1000)
    },
    Mutant {
        about: "an extension does not carry the lease's number",
        ..seeds(Plant::Core(Core::NumberNotCarried), "number-not-carried", 1000)
    },
    Mutant {
        about: "a client that nodes refuse admits others",
        ..seeds(Plant::Core(Core::AdmitsThoughRefused), "admits-though-refused", 1000)
    },
    Mutant {
        about: "an operator's word outlives the admission it was for",
        ..seeds(Plant::Core(Core::WordOutlives), "word-outlives", 1000)
    },
    Mutant {
        about: "a garbled reply counts as a command never sent",
        ..seeds(Plant::Core(Core::NonsenseNeverSent), "nonsense-never-sent", 1000)
    },
    Mutant {
        about: "a client without a guard that names a minority is served",
        ..seeds(Plant::Core(Core::OtherNodesCount), "minority-without-guard", 1000)
    },
    Mutant {
        about: "a marker does not say which node of the list it is for",
        ..seeds(Plant::Core(Core::NodeNotNamed), "node-not-named", 1000)
    },
    Mutant {
        about: "a node is admitted by any mark",
        ..node(Flaw::IgnoresMark, "mark-ignored", "admitted-twice")
    },
    Mutant {
        about: "a node does not tell that it was flushed",
        ..seeds(Plant::Node(Flaw::HidesFlushes), "flush-not-told", 1000)
    },
    Mutant {
        about: "a lease is put back on a node that serves others",
        ..seeds(
            Plant::Both(Core::PlantsWhereRefused, Flaw::PlantsForAnyone),
            "plants-where-refused",
            1000,
        )
    },
    Mutant {
        about: "windows are counted by the clock of leases",
        ..seeds(Plant::Driver(Slip::OneClock), "window-by-lease-clock", 1000)
    },
    Mutant {
        about: "a client without a guard asks nobody whom a node serves",
        ..seeds(Plant::Driver(Slip::TrustsAnyNode), "trusts-any-node", 1000)
    },
    Mutant {
        about: "one node is exchanged for another at once",
        ..seeds(Plant::Driver(Slip::ExchangesNodes), "nodes-exchanged", 1000)
    },
    Mutant {
        about: "a node that was admitted stays reserved",
        ..seeds(Plant::Node(Flaw::StaysReserved), "stays-reserved", 1000)
    },
    Mutant {
        about: "the same as uptime-after-flush, in every history of a small world",
        ..core(Core::UptimeAfterFlush, "flushed-uptime", "guarded-flush")
    },
    Mutant {
        about: "the same as admits-though-refused, in every history of a small world",
        ..core(Core::AdmitsThoughRefused, "stranger-admits", "guarded-stranger")
    },
    Mutant {
        name: "one-clock",
        about: "the same as window-by-lease-clock, in every history of a small world",
        plant: Plant::Driver(Slip::OneClock),
        hunt: Hunt::Model("guarded-jump"),
    },
];
