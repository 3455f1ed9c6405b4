//! The lines in which this machine's own callers wait, one per contended lock.
//!
//! In:  callers that found a lock held, won it, released it or gave up.
//! Out: which of them talks to the nodes, and what a release does about the line.
//!
//! In each line only the *head* talks to the nodes; the others wait behind it. A lock that
//! nobody contends for has no line and costs nothing here. Callers are served in the order
//! of their [`OpId`]s, which is the order of arrival.

use super::OpId;
use crate::{
    line::{OPEN_EVERY, OPEN_FOR, Place, Then, Ticket, Waiter},
    moment::Moment,
    mutant::{self, Mutant},
    resource::Resources,
    token::Entropy,
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Lines {
    /// 48 random bits that identify this machine to the nodes; `None` until someone waits.
    client: Option<u64>,
    all: BTreeMap<Resources, Line>,
    /// What to tell callers once the current event has been handled.
    news: Vec<(OpId, News)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Line {
    /// How the nodes identify it.
    waiter: Waiter,
    /// The caller that talks to the nodes for all of them.
    head: Option<Head>,
    /// The callers behind it, in order.
    behind: BTreeSet<OpId>,
    /// The caller that won the lock from this line and holds it.
    holder: Option<OpId>,
    /// How many times in a row the lock was passed on among our callers.
    passes: u32,
    /// When to leave the lock free for a moment; `None` until it is first passed on.
    opens_at: Option<Moment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Head {
    id: OpId,
    /// `None` until it has been told that it is the head.
    claim: Option<Claim>,
}

/// How the head waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Claim {
    pub(super) ticket: Ticket,
    /// See [`InLine::local_batch`](crate::line::InLine::local_batch).
    pub(super) local_batch: u32,
}

/// News for a caller in line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum News {
    /// It is now the head. One of our callers holds the lock.
    Leads(Waiter),
    /// It is now the head, in place of a caller that would have looked at the nodes at
    /// this moment.
    Inherits(Place, Moment),
    /// The lock is being released for it: take it.
    Served,
    /// The lock is being released for anyone to take until this time.
    GivesWay(Moment),
}

/// Where a caller that found the lock held now stands.
pub(super) enum Stand {
    Head,
    Behind,
}

impl Lines {
    /// Returns the number by which the nodes know a line started by `id`.
    pub(super) fn waiter(&mut self, id: OpId, entropy: &mut impl Entropy) -> Waiter {
        let client = *self.client.get_or_insert_with(|| {
            let mut random = [0; 8];
            entropy.fill(&mut random[..6]);
            u64::from_le_bytes(random)
        });
        number(client, id)
    }

    /// Returns the number of a line started by `id`, if this machine has any numbers yet.
    pub(super) fn own_waiter(&self, id: OpId) -> Option<Waiter> {
        self.client.map(|client| number(client, id))
    }

    /// Returns whether a waiter is one of ours.
    pub(super) fn is_ours(&self, waiter: Waiter) -> bool {
        self.client == Some(waiter.client())
    }

    /// Lets a new caller wait behind others, if this lock has a line here.
    pub(super) fn wait_behind(&mut self, id: OpId, resources: &Resources) -> bool {
        let Some(line) = self.all.get_mut(resources) else { return false };
        line.behind.insert(id);
        self.advance(resources);
        true
    }

    /// Adds a caller that found the lock held and left this ticket on the nodes.
    pub(super) fn join(&mut self, id: OpId, resources: &Resources, claim: Claim) -> Stand {
        let line = self.all.entry(resources.clone()).or_insert_with(|| Line {
            waiter: claim.ticket.waiter,
            head: None,
            behind: BTreeSet::new(),
            holder: None,
            passes: 0,
            opens_at: None,
        });
        match &line.head {
            Some(head) if head.id != id => {
                line.behind.insert(id);
                Stand::Behind
            }
            _ if line.waiter != claim.ticket.waiter => {
                // The line already has a number, and this ticket has another one.
                line.behind.insert(id);
                self.advance(resources);
                Stand::Behind
            }
            _ => {
                line.head = Some(Head { id, claim: Some(claim) });
                Stand::Head
            }
        }
    }

    /// Returns whether the line for this lock has this place's number.
    pub(super) fn has(&self, resources: &Resources, place: &Place) -> bool {
        self.all.get(resources).is_some_and(|line| line.waiter == place.ticket.waiter)
    }

    /// Records how a caller that has become the head waits.
    pub(super) fn leads(&mut self, id: OpId, resources: &Resources, claim: Claim) {
        if let Some(line) = self.all.get_mut(resources) {
            line.head = Some(Head { id, claim: Some(claim) });
        }
    }

    /// Records that a caller has won the lock. The next caller becomes the head.
    pub(super) fn won(&mut self, id: OpId, resources: &Resources) {
        let Some(line) = self.all.get_mut(resources) else { return };
        line.behind.remove(&id);
        if line.head.as_ref().is_some_and(|head| head.id == id) {
            line.head = None;
            line.holder = Some(id);
            self.advance(resources);
        }
    }

    /// Removes a caller that did not get the lock. If it was the head, the next caller
    /// inherits its place and looks at the nodes at `look`. Returns whether there is such a
    /// caller.
    pub(super) fn leave(
        &mut self,
        id: OpId,
        resources: &Resources,
        place: Option<Place>,
        look: Moment,
    ) -> bool {
        let Some(line) = self.all.get_mut(resources) else { return false };
        line.behind.remove(&id);
        if line.head.as_ref().is_none_or(|head| head.id != id) {
            return false;
        }
        line.head = None;
        if mutant::on(Mutant::NoHeir) {
            return false;
        }
        let next = line.next();
        if let (Some(next), Some(place)) = (next, place) {
            line.head = Some(Head { id: next, claim: None });
            self.news.push((next, News::Inherits(place, look)));
            return true;
        }
        self.tidy(resources);
        false
    }

    /// Records that a lock is released. Returns what the nodes should do about our line, if
    /// one of our callers waits for the lock.
    pub(super) fn released(
        &mut self,
        now: Moment,
        id: OpId,
        resources: &Resources,
    ) -> Option<Then> {
        let line = self.all.get_mut(resources)?;
        line.holder.take_if(|holder| *holder == id);
        let then = line.head.as_ref().and_then(|head| {
            if now >= *line.opens_at.get_or_insert(now.after(OPEN_EVERY)) {
                line.opens_at = None;
                line.passes = 0;
                self.news.push((head.id, News::GivesWay(now.after(OPEN_FOR))));
                return None;
            }
            self.news.push((head.id, News::Served));
            let Claim { ticket, local_batch } = head.claim?;
            line.passes += 1;
            if line.passes > local_batch && !mutant::on(Mutant::BatchWithoutEnd) {
                line.passes = 0;
                return Some(Then::Wait(ticket));
            }
            Some(Then::Pass(ticket))
        });
        self.tidy(resources);
        then
    }

    /// Records that a lease is no longer ours to manage. The head then looks for itself.
    /// Returns its number, if there is a head.
    pub(super) fn forgotten(&mut self, id: OpId) -> Option<Waiter> {
        let mut lines = self.all.iter_mut();
        let (resources, line) = lines.find(|(_, line)| line.holder == Some(id))?;
        line.holder = None;
        let head = line.head.as_ref().map(|head| (head.id, News::Served));
        let (resources, waiter) = (resources.clone(), head.is_some().then_some(line.waiter));
        self.news.extend(head);
        self.tidy(&resources);
        waiter
    }

    /// Returns who may use what a node has reserved for this waiter: the holder, whose key
    /// may be missing there, and the head.
    pub(super) fn served(&self, waiter: Waiter) -> Option<(Option<OpId>, Option<OpId>)> {
        let line = self.all.values().find(|line| line.waiter == waiter)?;
        Some((line.holder, line.head.as_ref().map(|head| head.id)))
    }

    /// Returns the head of each line.
    pub(super) fn heads(&self) -> Vec<OpId> {
        self.all.values().filter_map(|line| Some(line.head.as_ref()?.id)).collect()
    }

    /// Returns the next caller with news, and the news.
    pub(super) fn news(&mut self) -> Option<(OpId, News)> {
        self.news.pop()
    }

    /// Makes the first caller in the queue the head, if there is no head.
    fn advance(&mut self, resources: &Resources) {
        let Some(line) = self.all.get_mut(resources) else { return };
        if line.head.is_some() {
            return;
        }
        if let Some(next) = line.next() {
            line.head = Some(Head { id: next, claim: None });
            self.news.push((next, News::Leads(line.waiter)));
        }
        self.tidy(resources);
    }

    /// Removes a line that nobody uses.
    fn tidy(&mut self, resources: &Resources) {
        let is_over =
            |line: &Line| line.head.is_none() && line.holder.is_none() && line.behind.is_empty();
        if self.all.get(resources).is_some_and(is_over) {
            self.all.remove(resources);
        }
    }
}

impl Line {
    /// Removes and returns the next caller behind the head.
    fn next(&mut self) -> Option<OpId> {
        let youngest = mutant::on(Mutant::ServesTheYoungest);
        if youngest { self.behind.pop_last() } else { self.behind.pop_first() }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "ids that far apart never meet")]
fn number(client: u64, id: OpId) -> Waiter {
    Waiter::new(client, id.0 as u16)
}
