//! What all nodes reported when they were examined together.
//!
//! In:  the facts of the nodes that answered, and the settings of the client that asked.
//! Out: what no single node can tell: whether this client is refused, and how long a
//!      node that forgot has to wait for the others.

use crate::{
    agreement::{Admission, Agreement},
    command::Facts,
    fence::FencingToken,
    mutant::{self, Mutant},
};
use alloc::vec::Vec;
use core::time::Duration;

/// What each node reported, in order; `None` if it did not answer.
pub(crate) struct Told<'a> {
    pub(crate) admission: &'a Admission,
    facts: Vec<Option<&'a Facts>>,
}

impl<'a> Told<'a> {
    pub(crate) fn new(
        admission: &'a Admission,
        facts: impl IntoIterator<Item = Option<&'a Facts>>,
    ) -> Self {
        Told { admission, facts: facts.into_iter().collect() }
    }

    fn all(&self) -> impl Iterator<Item = (usize, &'a Facts)> {
        self.facts.iter().enumerate().filter_map(|(at, facts)| Some((at, (*facts)?)))
    }

    /// Returns what the other nodes said.
    fn others(&self, node: usize) -> impl Iterator<Item = &'a Facts> {
        self.all().filter(move |(at, _)| *at != node).map(|(_, facts)| facts)
    }

    /// Returns whether a majority has answered, counting this node.
    pub(crate) fn is_majority_with(&self, node: usize) -> bool {
        1 + self.others(node).count() > self.facts.len() / 2
    }

    /// Returns whether a node serves clients of another agreement. Then one side is wrong,
    /// possibly ours.
    pub(crate) fn is_refused(&self) -> bool {
        let admission = self.admission;
        self.all().any(|(at, facts)| facts.serves_others(admission.fingerprint(at)))
            && !mutant::on(Mutant::AdmitsThoughRefused)
    }

    /// Returns whether two addresses lead to the same server. Once that server has
    /// forgotten, nobody can tell which of the nodes it is, and what it reports about
    /// the others would count twice.
    pub(crate) fn are_twins(&self) -> bool {
        let runs = || self.all().map(|(_, facts)| &facts.identity.run);
        runs().enumerate().any(|(at, run)| runs().skip(at + 1).any(|next| next == run))
    }

    /// Returns the agreements by which the nodes were last admitted.
    fn agreements(&self) -> impl Iterator<Item = Agreement> {
        self.all().filter_map(|(_, facts)| Agreement::parse(facts.agreement.as_deref()?))
    }

    /// Returns the longest window that clients of any node agreed to. A node that forgot no
    /// longer knows it, but other clients may still hold locks for that long.
    pub(crate) fn longest_window(&self) -> Duration {
        self.agreements().map(|agreement| agreement.window()).max().unwrap_or_default()
    }

    /// Returns how much longer than its window a node stays quarantined while the others do
    /// not know which numbers it gave. A silent node may be back soon. If it is not, the
    /// clocks, which have moved on, keep numbers in order unless one of them is off by
    /// `max_ttl`; a strict restart guard trusts no clock.
    pub(crate) fn extra(&self, node: usize) -> Duration {
        let nodes = self.facts.len();
        let enough = self.others(node).count() > (nodes - 1) / 2 || nodes == 1;
        match enough && self.know_every_grant() || mutant::on(Mutant::FloorOfAMinority) {
            true => Duration::ZERO,
            false if self.admission.strict => Duration::MAX,
            false => self.admission.agreement.window(),
        }
    }

    /// Returns whether the nodes that answered and remember know of every grant between
    /// them: a node that forgot says nothing about numbers. If too many forgot for that,
    /// the clocks alone keep numbers in order.
    ///
    /// This must hold for every list that a node has served: nodes that left our list may
    /// know of grants that none of ours knows of.
    fn know_every_grant(&self) -> bool {
        let mut lists = self.agreements().chain([self.admission.agreement.clone()]);
        lists.all(|list| self.know_every_grant_of(&list))
    }

    fn know_every_grant_of(&self, list: &Agreement) -> bool {
        let nodes = list.nodes().len();
        // This many nodes share a node with every majority.
        let needed = nodes - nodes / 2;
        let count = |remembers| {
            let listed = |node| self.admission.may_be_of(self.admission.name(node), list);
            let nodes = self.all().filter(|(at, _)| listed(*at));
            nodes.filter(|(_, facts)| facts.remembers() == remembers).count()
        };
        count(true) >= needed || nodes - count(false) < needed
    }

    /// Returns the highest number that the other nodes have given.
    pub(crate) fn floor(&self, node: usize) -> Option<FencingToken> {
        let others = self.others(node).filter(|_| !mutant::on(Mutant::NoFloor));
        others.filter_map(|facts| facts.highest).max()
    }
}
