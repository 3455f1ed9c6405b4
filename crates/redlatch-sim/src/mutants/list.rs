//! All mutants, and where each must be found.

use crate::{node::Flaw, search::world::Slip};
use Hunt::{Model, Seeds};
use Plant::{Both, Driver, Node, UndosOvertake};
use redlatch_core::mutant::Mutant as Core;

#[derive(Debug, Clone, Copy)]
pub struct Mutant {
    pub name: &'static str,
    pub about: &'static str,
    pub plant: Plant,
    pub hunt: Hunt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hunt {
    /// By the model, in this scenario.
    Model(&'static str),
    /// By the search, within this many seeds from the first.
    Seeds(u64, u64),
}

/// Where the mistake is.
#[derive(Debug, Clone, Copy)]
pub enum Plant {
    /// In a decision of the core.
    Core(Core),
    Node(Flaw),
    /// In both: either alone is harmless.
    Both(Core, Flaw),
    /// In the transport.
    UndosOvertake,
    /// In the driver of the machine.
    Driver(Slip),
}

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
            Node(flaw) => Planted { flaw: Some(flaw), ..none },
            Both(core, flaw) => Planted { core: Some(core), flaw: Some(flaw), ..none },
            UndosOvertake => Planted { undos_overtake: true, ..none },
            Driver(slip) => Planted { slip: Some(slip), ..none },
        }
    }
}

const fn mutant(name: &'static str, about: &'static str) -> Named {
    Named { name, about }
}

/// A mutant that is not planted yet: keeps each row of the list to two lines.
struct Named {
    name: &'static str,
    about: &'static str,
}

impl Named {
    const fn planted(self, plant: Plant, hunt: Hunt) -> Mutant {
        Mutant { name: self.name, about: self.about, plant, hunt }
    }
}

pub const ALL: &[Mutant] = &[
    mutant("validity-not-rechecked", "a majority is a grant, however late it comes")
        .planted(Plant::Core(Core::ValidityNotRechecked), Model("late-replies")),
    mutant("validity-checked-early", "validity is checked after the first round only")
        .planted(Plant::Core(Core::ValidityCheckedEarly), Model("late-numbers")),
    mutant("no-second-round", "the greatest number wins, even if another client has it")
        .planted(Plant::Core(Core::NoSecondRound), Model("numbers")),
    mutant("raise-unconditional", "a register is raised even if the key is someone else's")
        .planted(Node(Flaw::RaisesUnconditionally), Model("early-expiry")),
    mutant("raise-at-least", "a register that has more confirms a number")
        .planted(Node(Flaw::ConfirmsAtLeast), Model("echo")),
    mutant("token-reused", "later attempts reuse the lock token of the first")
        .planted(Plant::Core(Core::TokenReused), Model("retry")),
    mutant("extension-shortens", "an extension can shorten the life of a key")
        .planted(Node(Flaw::ExtensionShortens), Model("short-extension")),
    mutant("extension-after-end", "an extension counts even after the old lease has ended")
        .planted(Plant::Core(Core::ExtensionAfterTheEnd), Model("late-extension")),
    mutant("extension-recreates", "an extension creates the keys it does not find")
        .planted(Node(Flaw::ExtensionRecreates), Model("removed")),
    mutant("quarantine-too-short", "a node that forgot votes again after half of the window")
        .planted(Plant::Core(Core::QuarantineTooShort), Model("guarded")),
    mutant("repair-before-window", "the registers for a repair are read before the window")
        .planted(Node(Flaw::ReadsRegistersEarly), Model("guarded-numbers")),
    mutant("no-undo-where-refused", "nodes that refused are not asked to undo")
        .planted(Plant::Core(Core::NoUndoWhereRefused), Model("repeat")),
    mutant("majority-of-reachable", "nodes that failed are not counted")
        .planted(Plant::Core(Core::MajorityOfTheReachable), Model("unreachable")),
    mutant("undo-overtakes", "an undo overtakes its take").planted(UndosOvertake, Model("cancel")),
    mutant("release-deletes-any", "a release deletes the key, whoever owns it")
        .planted(Node(Flaw::ReleaseDeletesAny), Model("again")),
    mutant("window-without-skew", "the window is only as long as the longest TTL")
        .planted(Plant::Core(Core::WindowWithoutSkew), Seeds(0, 1000)),
    mutant("mark-not-compared", "a window goes on although the mark has changed")
        .planted(Plant::Core(Core::MarkNotCompared), Seeds(0, 1000)),
    mutant(
        "uptime-counts",
        "a node is admitted by its uptime, though it was flushed or is a spare",
    )
    .planted(Plant::Core(Core::UptimeCounts), Seeds(0, 1000)),
    mutant("floor-of-a-minority", "a node is admitted with the registers of a minority")
        .planted(Plant::Core(Core::FloorOfAMinority), Seeds(0, 1000)),
    mutant("no-floor", "a node is admitted without the registers of the others")
        .planted(Plant::Core(Core::NoFloor), Seeds(0, 1000)),
    mutant("number-not-carried", "an extension does not carry the lease's fencing token")
        .planted(Plant::Core(Core::NumberNotCarried), Seeds(0, 1000)),
    mutant("admits-though-refused", "a client that nodes refuse admits other nodes")
        .planted(Plant::Core(Core::AdmitsThoughRefused), Seeds(0, 1000)),
    mutant("word-outlives", "an operator's word outlives the admission it was for")
        .planted(Plant::Core(Core::WordOutlives), Seeds(0, 1000)),
    mutant("nonsense-never-sent", "a garbled reply counts as a command never sent")
        .planted(Plant::Core(Core::NonsenseNeverSent), Seeds(0, 1000)),
    mutant("minority-without-guard", "an unguarded client that names a minority is served")
        .planted(Plant::Core(Core::OtherNodesCount), Seeds(0, 1000)),
    mutant("longer-without-guard", "an unguarded client with a longer max_ttl is served")
        .planted(Plant::Core(Core::LongerLeasesCount), Seeds(0, 1000)),
    mutant("node-not-named", "a marker does not say which node of the list it is for")
        .planted(Plant::Core(Core::NodeNotNamed), Seeds(0, 1000)),
    mutant("mark-ignored", "a node is admitted by any mark")
        .planted(Node(Flaw::IgnoresMark), Model("admitted-twice")),
    mutant("plants-where-refused", "a lease is planted on a node that serves other clients")
        .planted(Both(Core::PlantsWhereRefused, Flaw::PlantsForAnyone), Seeds(0, 1000)),
    mutant("window-by-lease-clock", "windows are counted by the lease clock")
        .planted(Driver(Slip::OneClock), Seeds(0, 1000)),
    mutant("trusts-any-node", "an unguarded client does not check whom a node serves")
        .planted(Driver(Slip::TrustsAnyNode), Seeds(0, 1000)),
    mutant("nodes-exchanged", "an operator may exchange one node for another at once")
        .planted(Driver(Slip::ExchangesNodes), Seeds(0, 1000)),
    mutant("stays-reserved", "a node that was admitted stays reserved")
        .planted(Node(Flaw::StaysReserved), Seeds(0, 1000)),
    mutant("flushed-uptime", "the same as uptime-counts, in every history of a small world")
        .planted(Plant::Core(Core::UptimeCounts), Model("guarded-flush")),
    mutant(
        "stranger-admits",
        "the same as admits-though-refused, in every history of a small world",
    )
    .planted(Plant::Core(Core::AdmitsThoughRefused), Model("guarded-stranger")),
    mutant("one-clock", "the same as window-by-lease-clock, in every history of a small world")
        .planted(Driver(Slip::OneClock), Model("guarded-jump")),
    mutant("wake-is-a-vote", "a client that a majority has woken believes that it holds the lock")
        .planted(Plant::Core(Core::WakeIsAVote), Model("line-mislaid")),
    mutant("early-wake-ignored", "a wake that overtakes the answer to a take is ignored")
        .planted(Plant::Core(Core::EarlyWakeIgnored), Model("line")),
    mutant("never-looks-again", "whoever waits in line relies on being woken")
        .planted(Plant::Core(Core::NeverLooksAgain), Model("line")),
    mutant("keeps-its-part", "a waiter whose attempt is lost keeps what it got on some nodes")
        .planted(Plant::Core(Core::KeepsItsPart), Model("line")),
    mutant("ticket-left", "a waiter that gives up stays in line")
        .planted(Plant::Core(Core::TicketLeft), Model("line-timeout")),
    mutant("no-heir", "a head that gives up names nobody in its place")
        .planted(Plant::Core(Core::NoHeir), Model("line-cancel")),
    mutant("batch-without-end", "a client passes the lock on among its callers without end")
        .planted(Plant::Core(Core::BatchWithoutEnd), Model("line-callers")),
    mutant("reserves-silently", "a node reserves the key for the next in line and wakes nobody")
        .planted(Node(Flaw::ReservesSilently), Model("line-three")),
    mutant("serves-the-last", "a node serves the last in line instead of the first")
        .planted(Node(Flaw::ServesTheLast), Model("line-again")),
    mutant("lets-anyone-in", "a node grants a key that it has reserved for another")
        .planted(Node(Flaw::LetsAnyoneIn), Model("line-again")),
    mutant("deaf-and-patient", "a waiter that can no longer be woken waits for its timer")
        .planted(Plant::Core(Core::DeafAndPatient), Model("line-deaf")),
    mutant("leaves-once", "a waiter that gives up says so once, whether or not that arrives")
        .planted(Plant::Core(Core::LeavesOnce), Model("line-cuts-timeout")),
    mutant(
        "ticket-forgotten",
        "a lock that is handed to another process leaves its ticket in line",
    )
    .planted(Plant::Core(Core::TicketForgotten), Seeds(0, 1000)),
    mutant("serves-the-youngest", "of the callers of a client the last is served first")
        .planted(Plant::Core(Core::ServesTheYoungest), Seeds(0, 1000)),
    mutant("keeps-the-dead", "a node keeps tickets of clients that no longer ask")
        .planted(Node(Flaw::KeepsTheDead), Seeds(700, 300)),
];
