//! Known mistakes, planted to prove that the checks catch them.
//!
//! Without the feature `mutants` none of this is in the code that ships: `on` is
//! `false` at compile time. With it, one mistake at a time can be [`plant`]ed,
//! and the model checker of `redlatch-sim` must catch it.

/// One mistake in a decision of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutant {
    /// A majority is a grant, no matter how late it comes.
    ValidityNotRechecked = 1,
    /// Validity is checked when the takes are answered, not after the registers are
    /// raised.
    ValidityCheckedEarly,
    /// The highest number counts, even if no majority has it.
    NoSecondRound,
    /// Every attempt uses the same token.
    TokenReused,
    /// An extension counts whenever its answers arrive.
    ExtensionAfterTheEnd,
    /// Nodes that refused are not asked to undo.
    NoUndoWhereRefused,
    /// The majority is counted without the nodes that failed.
    MajorityOfTheReachable,
    /// A node that forgot stays quarantined for only half of `max_ttl`.
    QuarantineTooShort,
    /// The window is only as long as the longest lock.
    WindowWithoutSkew,
    /// A window continues although the mark it is measured by has changed.
    MarkNotCompared,
    /// A node that has been up for the window is admitted, even if its name belonged to
    /// another server a moment ago.
    UptimeCounts,
    /// A node is admitted on the numbers that a minority of the others reports.
    FloorOfAMinority,
    /// A node is admitted without the others' numbers.
    NoFloor,
    /// An extension does not carry the lease's number.
    NumberNotCarried,
    /// A client that a node refuses still admits nodes.
    AdmitsThoughRefused,
    /// An operator's word still counts after the node forgets again.
    WordOutlives,
    /// A lease is also put back on nodes that serve other clients.
    PlantsWhereRefused,
    /// A garbled reply is treated as a command that was never sent.
    NonsenseNeverSent,
    /// A client without the restart guard counts every node, no matter whom it serves.
    OtherNodesCount,
    /// A client without the restart guard is served, though its locks may live longer than
    /// the clients that admitted the node agreed to.
    LongerLeasesCount,
    /// The agreement on a node does not say which node of the list it is.
    NodeNotNamed,
    /// A wake counts as a vote.
    WakeIsAVote,
    /// A wake that overtakes the answer to a take is ignored.
    EarlyWakeIgnored,
    /// Clients waiting in line rely on being woken.
    NeverLooksAgain,
    /// A waiter whose attempt is lost keeps its keys on some nodes.
    KeepsItsPart,
    /// A waiter that gives up leaves its ticket on the nodes.
    TicketLeft,
    /// A head that gives up appoints no successor.
    NoHeir,
    /// A client passes the lock on among its callers without end.
    BatchWithoutEnd,
    /// A waiter tells each node only once that it leaves, whether or not the message
    /// arrives.
    LeavesOnce,
    /// A lock that is handed to another process leaves its ticket in line.
    TicketForgotten,
    /// A waiter that can no longer be woken waits for its timer.
    DeafAndPatient,
    /// A client serves the last of its callers first.
    ServesTheYoungest,
}

#[cfg(feature = "mutants")]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// Makes this mistake, and no other, from now on in the whole process.
#[cfg(feature = "mutants")]
pub fn plant(mutant: Option<Mutant>) {
    let number = mutant.map_or(0, |mutant| mutant as u8);
    PLANTED.store(number, core::sync::atomic::Ordering::SeqCst);
}

#[cfg(feature = "mutants")]
pub(crate) fn on(mutant: Mutant) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == mutant as u8
}

#[cfg(not(feature = "mutants"))]
pub(crate) const fn on(_: Mutant) -> bool {
    false
}
