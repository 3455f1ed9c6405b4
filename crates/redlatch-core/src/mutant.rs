//! The known ways to get it wrong, for the proof alone.
//!
//! Without the feature `mutants` none of this exists in the code that ships:
//! `on` is `false` at compile time. With it, one mistake at a time can be
//! [`plant`]ed, and the model checker of `redlatch-sim` must catch it.

/// One mistake in a decision of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutant {
    /// A majority is a grant, however late it comes.
    ValidityNotRechecked = 1,
    /// Validity is checked when the takes are answered, not after raising.
    ValidityCheckedEarly,
    /// The greatest number counts, whoever else has it.
    NoSecondRound,
    /// Later attempts sign with the token of the first.
    TokenReused,
    /// An extension counts whenever its answers come.
    ExtensionAfterTheEnd,
    /// Nodes that refused are not asked to undo.
    NoUndoWhereRefused,
    /// Nodes that failed do not count.
    MajorityOfTheReachable,
    /// A node that forgot is out for half of the window.
    QuarantineTooShort,
    /// The window is as long as the longest lock, and no longer.
    WindowWithoutSkew,
    /// A window goes on when the mark that it was counted by is another.
    MarkNotCompared,
    /// The uptime of a node is believed though others have been admitted: it may
    /// be a spare that took another server's place.
    UptimeOfASpare,
    /// The uptime of a node that was flushed is believed.
    UptimeAfterFlush,
    /// A node is admitted by what any one of the others says of numbers.
    FloorOfAMinority,
    /// A node is admitted without the numbers of the others.
    NoFloor,
    /// An extension does not bring the lease's number along.
    NumberNotCarried,
    /// A client that is refused admits nodes all the same.
    AdmitsThoughRefused,
    /// An operator's word counts for what the node forgets later, too.
    WordOutlives,
    /// A lease is put back also where a node serves other clients.
    PlantsWhereRefused,
    /// A garbled reply is taken for a command that was never sent.
    NonsenseNeverSent,
    /// A client without a guard counts on every node, whomever it serves.
    OtherNodesCount,
    /// The agreement on a node does not say which of the list it is.
    NodeNotNamed,
}

#[cfg(feature = "mutants")]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// Makes this mistake from now on, in the whole process, and no other.
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
