//! What all clients of a set of nodes agree on, and one client's settings.
//!
//! In:  the names of the nodes, and the times.
//! Out: the agreement as written on each node, its fingerprint for every vote, and
//!      how long a node that forgot its locks must not vote.

use crate::{
    command::Facts,
    mutant::{self, Mutant},
};
use alloc::{
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::{fmt, time::Duration};

/// What all clients of a set of nodes must agree on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Agreement {
    nodes: Vec<Arc<str>>,
    max_ttl: Duration,
    skew: Duration,
    /// Which of the nodes this is, by the name that its clients use.
    here: Option<Arc<str>>,
}

/// The hash of an [`Agreement`], short enough to send with every vote. Its last six digits
/// depend on the node, the others are the same for all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

impl Agreement {
    /// Creates an agreement from the names of all nodes, in any order, and the
    /// times, in whole milliseconds.
    pub fn new(
        nodes: impl IntoIterator<Item = Arc<str>>,
        max_ttl: Duration,
        skew: Duration,
    ) -> Self {
        let mut nodes: Vec<Arc<str>> = nodes.into_iter().collect();
        nodes.sort_unstable();
        let whole = |time: Duration| Duration::from_millis(millis(time));
        Agreement { nodes, max_ttl: whole(max_ttl), skew: whole(skew), here: None }
    }

    /// Returns the agreement as this node of the list keeps it. A server admitted under one
    /// name does not vote under another: otherwise it would count as two nodes.
    #[must_use]
    pub fn at(&self, node: &str) -> Self {
        let here = Some(node.into()).filter(|_| !mutant::on(Mutant::NodeNotNamed));
        Agreement { here, ..self.clone() }
    }

    /// Parses an agreement written as `text`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut time = |name: &str| {
            let millis = lines.next()?.strip_prefix(name)?.strip_suffix("ms")?;
            Some(Duration::from_millis(millis.parse().ok()?))
        };
        let (max_ttl, skew) = (time("max_ttl ")?, time("skew ")?);
        let mut lines = lines.peekable();
        let here = lines.next_if(|line| line.starts_with(HERE)).map(|line| &line[HERE.len()..]);
        let agreement = Agreement::new(lines.map(Arc::from), max_ttl, skew);
        Some(Agreement { here: here.map(Arc::from), ..agreement })
    }

    /// Formats the written `text` in one line, for people, who know which node they asked.
    #[must_use]
    pub fn in_one_line(text: &str) -> String {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(HERE)).collect();
        lines.join(", ")
    }

    /// Returns its fingerprint, which votes carry.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let hash = |text: &str| {
            text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
        };
        let all = Agreement { here: None, ..self.clone() };
        let here = self.here.as_deref().map_or(0, hash) & Fingerprint::NODE;
        Fingerprint(hash(&all.to_string()) & !Fingerprint::NODE | here)
    }

    /// Returns the nodes, sorted.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<str>] {
        &self.nodes
    }

    /// Returns whether it is kept by another node of the list, not by this one.
    #[must_use]
    pub fn is_of_another(&self, node: &str) -> bool {
        let is_other = self.here.as_deref().is_some_and(|here| here != node);
        is_other && self.nodes.iter().any(|listed| **listed == *node)
    }

    /// Returns the node that keeps it, if it was written on one.
    pub(crate) fn here(&self) -> Option<&Arc<str>> {
        self.here.as_ref()
    }

    /// Returns the longest TTL that any lock may have.
    #[must_use]
    pub fn max_ttl(&self) -> Duration {
        self.max_ttl
    }

    /// Returns how far a clock may be ahead of a node's.
    #[must_use]
    pub fn skew(&self) -> Duration {
        self.skew
    }

    /// Returns how long a node must have been quarantined: by then every lock it forgot has
    /// expired, and every fencing number that a clock proposed is in the past.
    #[must_use]
    pub fn window(&self) -> Duration {
        if mutant::on(Mutant::QuarantineTooShort) {
            return self.max_ttl / 2;
        }
        if mutant::on(Mutant::WindowWithoutSkew) {
            return self.max_ttl;
        }
        self.max_ttl.saturating_add(self.skew)
    }

    /// Says how another agreement differs from this one, as in `another list of nodes
    /// (with c, without d), max_ttl 30s instead of 20s`. The text follows "clients with".
    ///
    /// # Example
    ///
    /// ```
    /// use redlatch_core::Agreement;
    /// use std::time::Duration;
    ///
    /// let of = |nodes: [&str; 2], max_ttl| {
    ///     let times = [max_ttl, 30].map(Duration::from_secs);
    ///     Agreement::new(nodes.map(Into::into), times[0], times[1])
    /// };
    /// let ours = of(["a", "b"], 20);
    /// assert_eq!(ours.difference(&of(["a", "b"], 30)), "max_ttl 30s instead of 20s");
    /// assert_eq!(ours.difference(&of(["a", "c"], 20)), "another list of nodes (with c, without b)");
    /// ```
    #[must_use]
    pub fn difference(&self, theirs: &Agreement) -> String {
        let mut parts: Vec<String> = Vec::new();
        if self.nodes != theirs.nodes {
            parts.push(format!("another list of nodes{}", self.other_nodes_of(theirs)));
        }
        for (name, theirs, ours) in
            [("max_ttl", theirs.max_ttl, self.max_ttl), ("skew", theirs.skew, self.skew)]
        {
            if theirs != ours {
                parts.push(format!("{name} {theirs:?} instead of {ours:?}"));
            }
        }
        if parts.is_empty() { "other settings".into() } else { parts.join(", ") }
    }

    /// The nodes that only one of the two lists has, in brackets.
    fn other_nodes_of(&self, theirs: &Agreement) -> String {
        let only = |word: &str, one: &Agreement, other: &Agreement| {
            let only = one.nodes.iter().filter(|node| !other.nodes.contains(node));
            let only: Vec<&str> = only.map(|node| &**node).collect();
            (!only.is_empty()).then(|| format!("{word} {}", only.join(", ")))
        };
        let parts = [only("with", theirs, self), only("without", self, theirs)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
    }

    /// Returns whether every majority under this agreement shares a node with every
    /// majority under the other, so that nodes can change over one by one: the lists are
    /// the same, or one has one more node.
    #[must_use]
    pub fn may_follow(&self, other: &Agreement) -> bool {
        // Each of their nodes matches at most one of ours.
        let (mut theirs, mut added) = (other.nodes.clone(), 0);
        for node in &self.nodes {
            match theirs.iter().position(|other| other == node) {
                Some(at) => _ = theirs.swap_remove(at),
                None => added += 1,
            }
        }
        added + theirs.len() <= 1
    }

    /// Translates the list into others' names: a node that now votes for them, and says
    /// under which name, gets that name. `told` holds what our nodes reported, each under
    /// the name that we use for it.
    ///
    /// Two lists that name the same servers differently are one list.
    #[must_use]
    pub fn in_words_of<'a>(
        &self,
        theirs: &Agreement,
        told: impl IntoIterator<Item = (&'a str, &'a Facts)>,
    ) -> Self {
        let mut ours = self.clone();
        for (name, facts) in told {
            let Ok(at) = self.nodes.binary_search_by(|node| (**node).cmp(name)) else { continue };
            let serves = facts.served().filter(|served| served.agrees_with(theirs));
            if let Some(known_as) = serves.and_then(|served| served.here) {
                ours.nodes[at] = known_as;
            }
        }
        ours.nodes.sort_unstable();
        ours
    }

    fn agrees_with(&self, other: &Agreement) -> bool {
        self.fingerprint().agrees_with(other.fingerprint())
    }
}

/// Precedes the name of the node that keeps the agreement.
const HERE: &str = "this is ";

/// The form written on the nodes, for people and for [`Agreement::parse`].
impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "max_ttl {}ms\nskew {}ms", millis(self.max_ttl), millis(self.skew))?;
        self.here.iter().try_for_each(|node| write!(f, "\n{HERE}{node}"))?;
        self.nodes.iter().try_for_each(|node| write!(f, "\n{node}"))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Fingerprint {
    /// The bits that identify the node; scripts use them as the last six digits.
    const NODE: u64 = 0xff_ffff;

    /// Returns whether both belong to the same agreement, whichever node each is for.
    #[must_use]
    pub(crate) fn agrees_with(self, other: Fingerprint) -> bool {
        self.0 & !Self::NODE == other.0 & !Self::NODE
    }

    /// Parses a fingerprint written as `text`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        hex.then(|| u64::from_str_radix(text, 16).ok().map(Fingerprint))?
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// One client's restart guard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Admission {
    /// The client's agreement.
    pub agreement: Agreement,
    /// The nodes in the order in which the client asks them, each with its
    /// fingerprint of the agreement.
    places: Arc<[(Arc<str>, Fingerprint)]>,
    /// Whether to trust only what this client has watched itself, by its own clock.
    pub strict: bool,
    /// Whether this client admits nodes; a short-lived one does not.
    pub admits: bool,
}

impl Admission {
    /// Creates a guard that admits these nodes, in the order in which they are asked.
    pub fn new(
        nodes: impl IntoIterator<Item = Arc<str>>,
        max_ttl: Duration,
        skew: Duration,
        strict: bool,
    ) -> Self {
        let nodes: Vec<Arc<str>> = nodes.into_iter().collect();
        let agreement = Agreement::new(nodes.iter().cloned(), max_ttl, skew);
        let place = |node: Arc<str>| {
            let fingerprint = agreement.at(&node).fingerprint();
            (node, fingerprint)
        };
        let places = nodes.into_iter().map(place).collect();
        Admission { agreement, places, strict, admits: true }
    }

    /// Returns the fingerprint that this node's votes carry.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[must_use]
    pub fn fingerprint(&self, node: usize) -> Fingerprint {
        self.places[node].1
    }

    /// Returns the node's name.
    pub(crate) fn name(&self, node: usize) -> &Arc<str> {
        &self.places[node].0
    }

    /// Returns whether our node may be on this list. Lists of the same length are assumed
    /// to have the same nodes, perhaps under other names.
    #[must_use]
    pub fn may_be_of(&self, node: &str, list: &Agreement) -> bool {
        list.nodes.len() == self.places.len() || list.nodes.iter().any(|name| **name == *node)
    }

    /// Returns the agreement as this node keeps it.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[must_use]
    pub fn agreement_at(&self, node: usize) -> Agreement {
        self.agreement.at(&self.places[node].0)
    }

    /// Turns off admitting, for a short-lived client.
    #[must_use]
    pub fn passing(mut self) -> Self {
        self.admits = false;
        self
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_on_a_node_says_which_of_the_list_it_is() {
        let names = ["redis://b", "redis://a"].into_iter().map(Arc::from);
        let agreement = Agreement::new(names, Duration::from_secs(30), Duration::from_secs(1));
        let [a, b] = ["redis://a", "redis://b"].map(|node| agreement.at(node));

        let text = "max_ttl 30000ms\nskew 1000ms\nthis is redis://a\nredis://a\nredis://b";
        assert_eq!(a.to_string(), text);
        assert_eq!(Agreement::parse(text).as_ref(), Some(&a));
        assert_ne!(a.fingerprint(), b.fingerprint());
        assert!(a.may_follow(&b));
    }
}
