//! The restart guard: which nodes may vote, and since when they have not.
//!
//! In:  what a node says when it is looked at ([`Facts`]), and the time.
//! Out: whether it is admitted, and if not, when it may be.
//!
//! A node that forgot its locks must not vote before every lock it may have
//! forgotten is over. Each node keeps a [`Marker`]: which life of it was
//! admitted, and by which [`Agreement`]. Every vote compares it, so a restart,
//! a flush, a restored dump or another list of nodes takes the node out at
//! once; so does another server that answers under the node's address. One that
//! is out keeps a [`Mark`] instead, left by the first client
//! that saw it so: as long as the mark is there, nobody has admitted it since.

use crate::{
    command::Facts,
    ledger::Ledger,
    moment::Steady,
    mutant::{self, Mutant},
};
use alloc::{
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::{fmt, time::Duration};

/// What all clients of some nodes must agree on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Agreement {
    nodes: Vec<Arc<str>>,
    max_ttl: Duration,
    skew: Duration,
    /// Which of the nodes this one is, as its clients name it.
    here: Option<Arc<str>>,
}

/// An [`Agreement`], short enough to send along with every vote. Its last six
/// digits are the node's, the others those of all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

impl Agreement {
    /// The names of all nodes, in any order, and the times that matter, in
    /// whole milliseconds.
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

    /// The same as it is kept on this node of the list. A server that is admitted
    /// under one name does not vote under another: it would count as two nodes.
    #[must_use]
    pub fn at(&self, node: &str) -> Self {
        let here = Some(node.into()).filter(|_| !mutant::on(Mutant::NodeNotNamed));
        Agreement { here, ..self.clone() }
    }

    /// The agreement that was written down as `text`, if it is one.
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

    /// What was written down as `text`, in one line for people, who know which
    /// node they ask.
    #[must_use]
    pub fn in_one_line(text: &str) -> String {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(HERE)).collect();
        lines.join(", ")
    }

    /// What votes carry of it.
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

    /// The nodes, sorted.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<str>] {
        &self.nodes
    }

    /// Whether it is kept by another node of the list than this one.
    #[must_use]
    pub fn is_of_another(&self, node: &str) -> bool {
        let is_other = self.here.as_deref().is_some_and(|here| here != node);
        is_other && self.nodes.iter().any(|listed| **listed == *node)
    }

    /// The longest TTL that any lock may have.
    #[must_use]
    pub fn max_ttl(&self) -> Duration {
        self.max_ttl
    }

    /// How far a clock may be ahead of a node's.
    #[must_use]
    pub fn skew(&self) -> Duration {
        self.skew
    }

    /// How long a node must have been out: a lock it forgot is over by then,
    /// and so is every fencing number that a clock proposed.
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

    /// Whether a majority by this agreement and one by the other always share a
    /// node, so that nodes can change over one by one. The same list, or one
    /// node more or less.
    #[must_use]
    pub fn may_follow(&self, other: &Agreement) -> bool {
        let missing = |from: &[Arc<str>], of: &[Arc<str>]| {
            from.iter().filter(|node| !of.contains(node)).count()
        };
        missing(&self.nodes, &other.nodes) + missing(&other.nodes, &self.nodes) <= 1
    }
}

/// What stands in front of the name of the node that keeps the agreement.
const HERE: &str = "this is ";

/// Written down on the nodes, for people and for [`Agreement::parse`].
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
    /// The bits that tell the node; scripts know them as the last six digits.
    const NODE: u64 = 0xff_ffff;

    /// Whether both are of the same agreement, for whichever nodes.
    #[must_use]
    pub fn agrees_with(self, other: Fingerprint) -> bool {
        self.0 & !Self::NODE == other.0 & !Self::NODE
    }

    /// The fingerprint that was written down as `text`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        hex.then(|| u64::from_str_radix(text, 16).ok().map(Fingerprint))?
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The guard of one client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guard {
    /// What the client agrees to.
    pub agreement: Agreement,
    /// The nodes in the order in which the client asks them, and the fingerprint
    /// of the agreement on each.
    places: Arc<[(Arc<str>, Fingerprint)]>,
    /// Trust only what this client has watched itself, by its own clock.
    pub strict: bool,
    /// Whether this client admits nodes; one that is only passing through does
    /// not.
    pub admits: bool,
}

impl Guard {
    /// A guard that admits nodes: these, in the order in which they are asked.
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
        Guard { agreement, places, strict, admits: true }
    }

    /// What votes of this node carry.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[must_use]
    pub fn fingerprint(&self, node: usize) -> Fingerprint {
        self.places[node].1
    }

    /// The agreement as this node keeps it.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[must_use]
    pub fn agreement_at(&self, node: usize) -> Agreement {
        self.agreement.at(&self.places[node].0)
    }

    /// The same, for a client that is only passing through.
    #[must_use]
    pub fn passing(mut self) -> Self {
        self.admits = false;
        self
    }
}

/// Which life of a node was admitted, and for whom.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The [`run`](crate::Identity::run) that was admitted.
    pub run: Arc<str>,
    /// The agreement by which it was.
    pub fingerprint: Fingerprint,
}

impl Marker {
    /// Whether the node serves others: clients of another agreement, or of this
    /// one under another name. Of an earlier run, the marker of another node only
    /// says that its data were copied here: it was that node's replica, say.
    #[must_use]
    pub fn is_of_others(&self, run: &str, guard: Fingerprint) -> bool {
        let copied = *self.run != *run && self.fingerprint.agrees_with(guard);
        self.fingerprint != guard && !copied
    }

    /// The marker that was written down as `text`: run, space, fingerprint.
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

/// Left on a node that is out, by the first who saw it so. It is bound to the
/// node's run, is removed when the node is admitted, and is lost with all else
/// that the node forgets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Different for each mark.
    pub id: Arc<str>,
    /// For how long the node has been out, by its own clock.
    pub age: Duration,
}

/// A node's answer that it may not vote, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Quarantine {
    /// Why.
    pub cause: Cause,
    /// How long still; none if that is not known, or up to an operator.
    pub remaining: Option<Duration>,
}

/// Why a node may not vote.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// It has no marker of its present life: it is new, or it may have forgotten
    /// locks.
    Forgot,
    /// Its clients agree to something else, which is given as far as known.
    Disagrees(Option<Arc<str>>),
    /// It is another node of the same list: its address leads to the wrong server.
    OtherNode {
        /// Under which name it was admitted.
        is: Arc<str>,
        /// Under which it was asked.
        asked: Arc<str>,
    },
    /// To a client without a guard: those with one are watching it, and have not
    /// written down yet which nodes they count.
    Watched,
}

impl Cause {
    /// Whether it serves others, or would have to: waiting does not help.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Cause::Disagrees(_) | Cause::OtherNode { .. })
    }
}

impl Quarantine {
    /// For that reason, for who knows how long.
    #[must_use]
    pub fn new(cause: Cause) -> Self {
        Quarantine { cause, remaining: None }
    }
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("quarantined")?;
        if let Some(remaining) = self.remaining {
            write!(f, " for another {remaining:.1?}")?;
        }
        write!(f, ": {}", self.cause)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Forgot => f.write_str(
                "it may have forgotten locks (restarted, flushed, promoted or new); \
                 `redlatch admit --wait` waits for it",
            ),
            Cause::Disagrees(theirs) => {
                f.write_str("its clients have another list of nodes, or other times")?;
                if let Some(theirs) = theirs {
                    write!(f, " ({})", Agreement::in_one_line(theirs))?;
                }
                f.write_str(
                    "; give all clients the same settings; if the change is meant for all \
                     clients: `redlatch admit --replace --all`",
                )
            }
            Cause::OtherNode { is, asked } => write!(
                f,
                "this server is admitted as {is}, not as {asked}: two addresses of the list lead \
                 to one server, or lead to each other's; point {asked} (DNS, NAT, proxy, port \
                 forward) back to a server of its own"
            ),
            Cause::Watched => f.write_str(
                "clients with the restart guard are about to admit it, by a list of nodes that \
                 is not known yet; wait until they have, or turn the guard on",
            ),
        }
    }
}

/// What one client knows of one node that is out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Watch {
    /// Since when this client has seen which mark in which life of the node.
    since: Option<(Arc<str>, Arc<str>, Steady)>,
    /// How long it must have been out: longer, where nodes are taken from clients
    /// that had agreed to longer times.
    window: Duration,
    /// Whether its uptime counts: see [`Watch::believe_uptime`].
    believes_uptime: bool,
}

/// What a look at a node amounts to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    Admitted,
    /// Nothing can be done before an operator speaks.
    Disagrees,
    /// It is out, and nothing on it tells since when.
    Unmarked,
    /// It may be admitted from then on, if this mark is still there.
    Out {
        mark: Arc<str>,
        from: Steady,
    },
}

impl Watch {
    /// Takes in what the node says now.
    pub(crate) fn look(
        &mut self,
        now: Steady,
        facts: &Facts,
        guard: &Guard,
        node: usize,
    ) -> Standing {
        let mark = match (facts.objection(guard.fingerprint(node)), &facts.mark) {
            (Some(Cause::Forgot), Some(mark)) => mark,
            (objection, _) => {
                self.since = None;
                return match objection {
                    None => Standing::Admitted,
                    Some(Cause::Forgot) => Standing::Unmarked,
                    Some(_) => Standing::Disagrees,
                };
            }
        };
        let same = |(run, id, _): &&(Arc<str>, Arc<str>, Steady)| {
            *run == facts.identity.run && *id == mark.id || mutant::on(Mutant::MarkNotCompared)
        };
        let since = self.since.as_ref().filter(same).map_or(now, |(_, _, since)| *since);
        self.since = Some((facts.identity.run.clone(), mark.id.clone(), since));
        let window = self.window.max(guard.agreement.window());
        let mut from = since.after(window);
        if !guard.strict {
            from = from.min(now.after(window).before(facts.out_for(self.believes_uptime)));
        }
        Standing::Out { mark: mark.id.clone(), from }
    }

    /// Clients of the nodes agreed, or agree, to a window of this length.
    pub(crate) fn lasts_at_least(&mut self, window: Duration) {
        self.window = self.window.max(window);
    }

    /// Whether it is enough that the node has been up for its window. It is only
    /// if all nodes of the list are as new: otherwise the name may have been
    /// another server's until a moment ago, and the uptime of a spare that has
    /// taken its place says nothing about the locks of that one.
    pub(crate) fn believe_uptime(&mut self, all_new: bool) {
        self.believes_uptime = all_new;
    }

    /// Whether a mark is being watched.
    pub(crate) fn is_on(&self) -> bool {
        self.since.is_some()
    }
}

impl Facts {
    /// For how long it has been up without a lock, as far as it can tell: nobody
    /// ever admitted it, nothing was taken from it, and it is nobody's replica
    /// that may have missed what happened last.
    pub(crate) fn new_for(&self) -> Option<Duration> {
        let new = self.marker.is_none() && self.agreement.is_none() && self.reserved.is_none();
        let intact = self.intact || mutant::on(Mutant::UptimeAfterFlush);
        // Servers count whole seconds, from a start that was cut to one as well.
        let cut = Duration::from_secs(1);
        (new && intact && !self.promoted)
            .then(|| self.uptime.unwrap_or_default().saturating_sub(cut))
    }

    /// How long it has been out, by the age of its mark or, where that is to be
    /// believed, by its uptime.
    fn out_for(&self, believes_uptime: bool) -> Duration {
        let marked = self.mark.as_ref().map_or(Duration::ZERO, |mark| mark.age);
        let up = self.new_for().filter(|_| believes_uptime);
        marked.max(up.unwrap_or_default())
    }

    /// How much longer the node is out, by what it says of itself, which a
    /// strict guard does not trust; none where it does not tell.
    #[must_use]
    pub fn out_until(&self, guard: &Guard) -> Option<Duration> {
        self.mark.as_ref().filter(|_| !guard.strict)?;
        // It was taken from others: their locks must be over, too.
        let theirs = self.reserved.and(self.agreement.as_deref()).and_then(Agreement::parse);
        let theirs = theirs.map_or(Duration::ZERO, |theirs| theirs.window());
        Some(guard.agreement.window().max(theirs).saturating_sub(self.out_for(false)))
    }

    /// Why the node may not vote by this agreement; none if it may.
    #[must_use]
    pub fn objection(&self, guard: Fingerprint) -> Option<Cause> {
        match &self.marker {
            Some(marker) if marker.is_of_others(&self.identity.run, guard) => {
                let theirs = self.agreement.as_deref().and_then(Agreement::parse);
                let other = theirs.and_then(|theirs| theirs.asked_for_another(guard));
                Some(other.unwrap_or_else(|| Cause::Disagrees(self.agreement.clone())))
            }
            Some(marker) if marker.run == self.identity.run => None,
            // For whom it was reserved is known, but not what they agreed to.
            None if self.reserved.is_some_and(|reserved| reserved != guard) => {
                Some(Cause::Disagrees(None))
            }
            _ => Some(Cause::Forgot),
        }
    }

    /// Why a client without a guard must not count on the node: see
    /// [`Ledger::other_nodes`].
    #[must_use]
    pub fn other_nodes(&self, ours: &Agreement) -> Option<Cause> {
        other_nodes(self.agreement.as_ref(), self.reserved, self.mark.is_some(), ours)
    }
}

impl Agreement {
    /// The cause, if somebody who agrees asks for another node of the list.
    fn asked_for_another(&self, guard: Fingerprint) -> Option<Cause> {
        let is = self.here.clone()?;
        let asked = self.nodes.iter().find(|node| self.at(node).fingerprint() == guard)?;
        Some(Cause::OtherNode { is, asked: asked.clone() })
    }
}

impl Ledger {
    /// Why a client without a guard must not count on the node, if it must not:
    /// the clients that have one count other nodes than `ours`, or may do so, or
    /// know it as another node of the list than [`Agreement::at`] says. A majority
    /// of theirs and one of ours need not share a node.
    #[must_use]
    pub fn other_nodes(&self, ours: &Agreement) -> Option<Cause> {
        let reserved = self.reserved.as_deref().and_then(Fingerprint::parse);
        other_nodes(self.agreement.as_ref(), reserved, self.watched.is_some(), ours)
    }
}

/// What was agreed counts whether or not the marker is still there: the clients
/// who agreed to it are, and will have the node admitted again.
fn other_nodes(
    agreement: Option<&Arc<str>>,
    reserved: Option<Fingerprint>,
    watched: bool,
    ours: &Agreement,
) -> Option<Cause> {
    let Some(text) = agreement else {
        return (watched || reserved.is_some()).then_some(Cause::Watched);
    };
    match Agreement::parse(text) {
        Some(theirs) if theirs.nodes == ours.nodes || mutant::on(Mutant::OtherNodesCount) => {
            if let (Some(is), Some(asked)) = (&theirs.here, &ours.here)
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
        assert_eq!(admitted.other_nodes(&agreement(&["c", "b", "a"], 5)), None, "times may differ");
        let out = Ledger { admitted: None, ..admitted.clone() };
        assert_eq!(out.other_nodes(&one), said, "they will have it admitted again");
        let taken = Ledger { reserved: Some(one.fingerprint().to_string().into()), ..out };
        assert_eq!(taken.other_nodes(&theirs), Some(Cause::Disagrees(None)), "others take it");
        let odd = Ledger { agreement: Some("of a later version".into()), ..Ledger::default() };
        assert!(matches!(odd.other_nodes(&one), Some(Cause::Disagrees(Some(_)))));
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

    #[test]
    fn a_node_that_is_watched_by_an_unknown_list_is_not_for_clients_without_a_guard() {
        let ours = Agreement::new(["a".into()], Duration::ZERO, Duration::ZERO);
        let watched = Ledger { watched: Some("run 01 7".into()), ..Ledger::default() };

        assert_eq!(watched.other_nodes(&ours), Some(Cause::Watched));
        assert_eq!(Ledger::default().other_nodes(&ours), None, "nobody has been there");
    }
}
