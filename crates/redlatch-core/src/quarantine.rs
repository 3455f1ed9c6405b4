//! Why a node may not vote, and what it keeps about that.
//!
//! In:  what a node reports when it is examined ([`Facts`], [`Ledger`]).
//! Out: the objection to its vote, if there is one.
//!
//! A node that forgot its locks must not vote until every lock it may have forgotten has
//! expired. Each node keeps a [`Marker`] that says which run of it was admitted, and by
//! which [`Agreement`]. Every vote checks it, so a restart, a flush, a restored dump,
//! another list of nodes or another server at the node's address quarantines the node at
//! once. A quarantined node keeps a [`Mark`] instead, left by the first client that saw it
//! quarantined: while the mark is there, nobody has admitted the node.

use crate::{
    agreement::{Admission, Agreement, Fingerprint},
    command::Facts,
    ledger::Ledger,
    mutant::{self, Mutant},
};
use alloc::{
    format,
    string::{String, ToString},
    sync::Arc,
};
use core::{fmt, time::Duration};

/// Which run of a node was admitted, and by which agreement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The [`run`](crate::Identity::run) that was admitted.
    pub run: Arc<str>,
    /// The agreement by which it was admitted.
    pub fingerprint: Fingerprint,
}

impl Marker {
    /// Returns whether the node serves others: clients of another agreement, or of this one
    /// under another name. A marker of another node and another run only shows that data
    /// was copied here, for example because this server was that node's replica.
    #[must_use]
    pub(crate) fn is_of_others(&self, run: &str, fingerprint: Fingerprint) -> bool {
        let copied = *self.run != *run && self.fingerprint.agrees_with(fingerprint);
        self.fingerprint != fingerprint && !copied
    }

    /// Parses a marker written as `text`: run, space, fingerprint.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (run, fingerprint) = text.rsplit_once(' ')?;
        Some(Marker { run: run.into(), fingerprint: Fingerprint::parse(fingerprint)? })
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.run, self.fingerprint)
    }
}

/// Left on a quarantined node by the first client that saw it quarantined. It is bound to
/// the node's run, removed when the node is admitted, and lost with everything else that
/// the node forgets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Unique to each mark.
    pub id: Arc<str>,
    /// How long the node has been quarantined, by its clock.
    pub age: Duration,
}

/// A node's answer that it may not vote, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Quarantine {
    /// Why it may not vote.
    pub cause: Cause,
    /// Time left; `None` if it is unknown or up to an operator.
    pub remaining: Option<Duration>,
}

/// Why a node may not vote. Its text states the cause only, not what to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// It has no marker of its current run: it is new, or may have forgotten locks.
    Forgot,
    /// Its clients have another agreement, given here if known.
    Disagrees(Option<Arc<str>>),
    /// It is another node of the same list: its address leads to the wrong server.
    OtherNode {
        /// The name under which it was admitted.
        is: Arc<str>,
        /// The name under which it was asked.
        asked: Arc<str>,
    },
    /// Only for clients without the restart guard: a guarded client has marked the node, and
    /// none has admitted it yet, which would record the nodes that they use.
    Watched,
}

impl Cause {
    /// Returns whether it serves others, or would have to, so that waiting does not help.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Cause::Disagrees(_) | Cause::OtherNode { .. })
    }

    /// Returns the name by which clients with another list know the node, if it says.
    #[must_use]
    pub fn admitted_as(&self) -> Option<Arc<str>> {
        match self {
            Cause::Disagrees(Some(theirs)) => Agreement::parse(theirs)?.here().cloned(),
            _ => None,
        }
    }

    /// Returns the cause in words, for a client with this agreement. It says how the
    /// agreement of the node's clients differs, instead of repeating all of it.
    #[must_use]
    pub fn for_client_of(&self, ours: &Agreement) -> String {
        let theirs = match self {
            Cause::Disagrees(Some(theirs)) => Agreement::parse(theirs),
            _ => None,
        };
        theirs.map_or_else(
            || self.to_string(),
            |theirs| format!("its clients have {}", ours.difference(&theirs)),
        )
    }
}

impl Quarantine {
    /// Creates a quarantine with this cause and an unknown time left.
    #[must_use]
    pub fn new(cause: Cause) -> Self {
        Quarantine { cause, remaining: None }
    }

    /// Returns the quarantine in words, for a client with this agreement: see
    /// [`Cause::for_client_of`].
    #[must_use]
    pub fn for_client_of(&self, ours: &Agreement) -> String {
        format!("{}: {}", self.for_another(), self.cause.for_client_of(ours))
    }

    fn for_another(&self) -> String {
        match self.remaining {
            Some(remaining) => format!("quarantined for another {remaining:.1?}"),
            None => "quarantined".into(),
        }
    }
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.for_another(), self.cause)
    }
}

const FORGOT: &str = "it may have forgotten locks (it is new, was restarted or flushed, evicted \
                      keys, or changed its replication)";

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Forgot => f.write_str(FORGOT),
            Cause::Disagrees(theirs) => {
                f.write_str("its clients have another list of nodes, or other times")?;
                match theirs {
                    Some(theirs) => write!(f, " ({})", Agreement::in_one_line(theirs)),
                    None => Ok(()),
                }
            }
            Cause::OtherNode { is, asked } => write!(
                f,
                "this server is admitted as {is}, not as {asked}: two addresses of the list lead \
                 to one server, or lead to each other's"
            ),
            Cause::Watched => f.write_str(
                "a client with the restart guard has marked it, and none has admitted it yet, so \
                 it is not known which nodes they count",
            ),
        }
    }
}

impl Facts {
    /// Returns the agreement of the clients it votes for, if any.
    pub(crate) fn served(&self) -> Option<Agreement> {
        let marker = self.marker.as_ref().filter(|marker| marker.run == self.identity.run)?;
        let served = Agreement::parse(self.agreement.as_deref()?)?;
        (served.fingerprint() == marker.fingerprint).then_some(served)
    }

    /// Returns why the node may not vote by this agreement, or `None` if it may.
    #[must_use]
    pub fn objection(&self, fingerprint: Fingerprint) -> Option<Cause> {
        match &self.marker {
            Some(marker) if marker.is_of_others(&self.identity.run, fingerprint) => {
                let theirs = self.agreement.as_deref().and_then(Agreement::parse);
                let other = theirs.and_then(|theirs| theirs.asked_for_another(fingerprint));
                Some(other.unwrap_or_else(|| Cause::Disagrees(self.agreement.clone())))
            }
            Some(marker) if marker.run == self.identity.run => None,
            // It says for whom it is reserved, but not what they agreed on.
            None if self.reserved.is_some_and(|reserved| reserved != fingerprint) => {
                Some(Cause::Disagrees(None))
            }
            _ => Some(Cause::Forgot),
        }
    }

    /// Returns whether it serves clients of another agreement.
    pub(crate) fn serves_others(&self, fingerprint: Fingerprint) -> bool {
        let objection = || self.objection(fingerprint);
        self.marker.is_some() && objection().is_some_and(|cause| cause != Cause::Forgot)
    }

    /// Returns whether, judging by this answer, it has forgotten nothing: it has a marker
    /// of its current run, whoever set it, or had one when it was taken over in this run.
    pub(crate) fn remembers(&self) -> bool {
        let admitted = self.marker.as_ref().is_some_and(|marker| marker.run == self.identity.run);
        let taken = self.reserved.is_some() && self.agreement.is_some() && self.mark.is_some();
        admitted || taken
    }

    /// Returns why a client without the restart guard must not count the node: see
    /// [`Ledger::other_nodes`].
    #[must_use]
    pub fn other_nodes(&self, ours: &Agreement) -> Option<Cause> {
        other_nodes(self.agreement.as_ref(), self.reserved, self.mark.is_some(), ours)
    }
}

/// How far others have got with taking a node over from clients of our agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Taking {
    /// They may still be taking it.
    UnderWay,
    /// They stopped: they could have admitted the node by now, and have not.
    Abandoned,
}

impl Admission {
    /// Returns how far others have got with taking the node over from clients of our agreement, or
    /// `None` if they have not begun, have finished, or began with a node of a third agreement.
    ///
    /// We may take it back at any time. Since its mark was set, it has granted nothing to
    /// anyone; the keys that it has kept for the others since are still there and make it
    /// refuse us; and once we do, they can no longer admit it.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[must_use]
    pub fn taking(&self, node: usize, facts: &Facts) -> Option<Taking> {
        let ours = self.fingerprint(node);
        let begun = facts.marker.is_none() && facts.reserved.is_some_and(|list| list != ours);
        let last = facts.agreement.as_deref().and_then(Agreement::parse);
        if !begun || last.is_none_or(|last| last.fingerprint() != ours) {
            return None;
        }
        let over = facts.mark.as_ref().is_some_and(|mark| mark.age >= self.agreement.window());
        Some(if over { Taking::Abandoned } else { Taking::UnderWay })
    }
}

impl Agreement {
    /// Returns the cause if a client of this agreement asks for another node of the
    /// list.
    fn asked_for_another(&self, fingerprint: Fingerprint) -> Option<Cause> {
        let is = self.here()?.clone();
        let asked = self.nodes().iter().find(|node| self.at(node).fingerprint() == fingerprint)?;
        Some(Cause::OtherNode { is, asked: asked.clone() })
    }
}

impl Ledger {
    /// Returns why a client without the restart guard must not count the node, or `None` if
    /// it may. It must not if guarded clients use, or may use, nodes other than `ours`, or if
    /// they know the node as another one of the list than [`Agreement::at`] says: a majority
    /// of theirs and a majority of ours need not share a node. Nor may it if its locks may
    /// live longer than theirs: guarded clients would readmit a node that forgot such locks
    /// before the locks expire.
    #[must_use]
    pub fn other_nodes(&self, ours: &Agreement) -> Option<Cause> {
        let reserved = self.reserved.as_deref().and_then(Fingerprint::parse);
        other_nodes(self.agreement.as_ref(), reserved, self.watched.is_some(), ours)
    }
}

/// The agreement counts even without a marker: its clients still exist, and will admit the
/// node again.
fn other_nodes(
    agreement: Option<&Arc<str>>,
    reserved: Option<Fingerprint>,
    watched: bool,
    ours: &Agreement,
) -> Option<Cause> {
    let Some(text) = agreement else {
        return (watched || reserved.is_some()).then_some(Cause::Watched);
    };
    let is_served = |theirs: &Agreement| {
        (theirs.nodes() == ours.nodes() || mutant::on(Mutant::OtherNodesCount))
            && (ours.max_ttl() <= theirs.max_ttl() || mutant::on(Mutant::LongerLeasesCount))
    };
    match Agreement::parse(text) {
        Some(theirs) if is_served(&theirs) => {
            if let (Some(is), Some(asked)) = (theirs.here(), ours.here())
                && is != asked
            {
                return Some(Cause::OtherNode { is: is.clone(), asked: asked.clone() });
            }
            let elsewhere = reserved.is_some_and(|reserved| reserved != theirs.fingerprint());
            elsewhere.then_some(Cause::Disagrees(None))
        }
        _ => Some(Cause::Disagrees(Some(text.clone()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_a_guard_must_count_the_nodes_that_those_with_one_count() {
        let agreement = |nodes: &[&str], max_ttl| {
            let names = nodes.iter().map(|name| Arc::from(*name));
            Agreement::new(names, Duration::from_secs(max_ttl), Duration::from_secs(1))
        };
        let theirs = agreement(&["a", "b", "c"], 30);
        let run: Arc<str> = "run".into();
        let marker = Marker { run, fingerprint: theirs.fingerprint() };
        let admitted = Ledger {
            admitted: Some(marker.to_string().into()),
            agreement: Some(theirs.to_string().into()),
            ..Ledger::default()
        };
        let one = agreement(&["a"], 30);
        let said = Some(Cause::Disagrees(admitted.agreement.clone()));

        assert_eq!(admitted.other_nodes(&one), said);
        assert_eq!(admitted.other_nodes(&agreement(&["c", "b", "a"], 30)), None);
        assert_eq!(admitted.other_nodes(&agreement(&["a", "b", "c"], 5)), None, "gone in time");
        assert_eq!(
            admitted.other_nodes(&agreement(&["a", "b", "c"], 31)),
            said,
            "outlive a window"
        );
        let out = Ledger { admitted: None, ..admitted.clone() };
        assert_eq!(out.other_nodes(&one), said, "they will have it admitted again");
        let taken = Ledger { reserved: Some(one.fingerprint().to_string().into()), ..out };
        assert_eq!(taken.other_nodes(&theirs), Some(Cause::Disagrees(None)), "others take it");
        let odd = Ledger { agreement: Some("of a later version".into()), ..Ledger::default() };
        assert!(matches!(odd.other_nodes(&one), Some(Cause::Disagrees(Some(_)))));
    }

    #[test]
    fn a_client_is_told_how_the_settings_of_others_differ() {
        let agreement = |nodes: &[&str], max_ttl, skew| {
            let names = nodes.iter().map(|name| Arc::from(*name));
            Agreement::new(names, Duration::from_secs(max_ttl), Duration::from_secs(skew))
        };
        let ours = agreement(&["a", "b"], 20, 1);
        let told = |theirs: &Agreement| {
            let theirs = theirs.at("a").to_string();
            Cause::Disagrees(Some(theirs.into())).for_client_of(&ours)
        };

        assert_eq!(
            told(&agreement(&["a", "b", "c"], 20, 1)),
            "its clients have another list of nodes (with c)"
        );
        assert_eq!(
            told(&agreement(&["a"], 20, 1)),
            "its clients have another list of nodes (without b)"
        );
        assert_eq!(
            told(&agreement(&["b", "a"], 30, 2)),
            "its clients have max_ttl 30s instead of 20s, skew 2s instead of 1s"
        );
        let unknown = Cause::Disagrees(None);
        assert_eq!(unknown.for_client_of(&ours), unknown.to_string());
        let odd = Cause::Disagrees(Some("of a later version".into()));
        assert_eq!(odd.for_client_of(&ours), odd.to_string());
    }

    #[test]
    fn a_client_without_a_guard_is_refused_by_another_node_of_the_list() {
        let names = || ["a", "b"].into_iter().map(Arc::from);
        let theirs = Agreement::new(names(), Duration::from_secs(30), Duration::ZERO);
        let ours = Agreement::new(names(), Duration::ZERO, Duration::ZERO);
        let admitted = Some(Arc::from(theirs.at("b").to_string()));
        let there = Ledger { agreement: admitted, ..Ledger::default() };

        let cause = Cause::OtherNode { is: "b".into(), asked: "a".into() };
        assert_eq!(there.other_nodes(&ours.at("a")), Some(cause));
        assert_eq!(there.other_nodes(&ours.at("b")), None);
    }

    #[test]
    fn a_node_that_is_watched_by_an_unknown_list_is_not_for_clients_without_a_guard() {
        let ours = Agreement::new(["a".into()], Duration::ZERO, Duration::ZERO);
        let watched = Ledger { watched: Some("run 01 7".into()), ..Ledger::default() };

        assert_eq!(watched.other_nodes(&ours), Some(Cause::Watched));
        assert_eq!(Ledger::default().other_nodes(&ours), None, "nobody has been there");
    }
}
