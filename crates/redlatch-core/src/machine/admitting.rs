//! Watches the nodes that may not vote, and admits them when they may.
//!
//! Works in phases: look at all nodes, which changes nothing; leave a mark on quarantined
//! ones; admit those whose time has come; look again. If a node refuses this client because
//! it serves another agreement, the client marks and admits nothing: otherwise one
//! misconfigured client would take over every node that restarts. The same holds if two
//! addresses lead to one server.
//!
//! The lowest number that an admitted node may give comes from a look that began after its
//! window, never before: it must cover everything granted in the meantime.

mod node;

use super::{Next, OpId, Output, Tag, Vouch, World};
use crate::{
    agreement::Admission,
    command::{Command, Facts, Reply},
    moment::{Moment, Now, Steady},
    standing::Standing,
    token::Entropy,
    told::Told,
    vote::{Fault, Vote},
    watch::Outlook,
};
use alloc::{boxed::Box, string::ToString, sync::Arc, vec, vec::Vec};
use core::time::Duration;
use node::{Node, Word};

/// How long the nodes may take to answer in each phase.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest pause between two looks.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// The shortest pause, however short the window is.
const SHORTEST_REST: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Admitting {
    nodes: Box<[Node]>,
    phase: Phase,
    /// The latest time at which the phase ends.
    until: Moment,
    /// When the last look was sent.
    looked_at: Steady,
    /// Callers waiting to hear which nodes may vote.
    callers: Vec<(OpId, Patience)>,
    /// Someone asked in the middle of a phase: look again after it.
    asked: bool,
    /// Someone vouched for the nodes, provided that no client ever admitted any of them.
    vouched_new: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    Resting,
    Looking,
    Marking,
    Admitting,
}

/// How long a caller that asks which nodes may vote waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Patience {
    /// Until a majority may vote.
    Little,
    /// Until everything that can be done at once is done.
    Much,
}

impl Admitting {
    pub(super) fn start<E: Entropy>(now: Now, id: OpId, world: &mut World<E>) -> Self {
        let mut admitting = Admitting {
            nodes: vec![Node::default(); world.nodes].into(),
            phase: Phase::Resting,
            until: now.lease,
            looked_at: now.steady,
            callers: Vec::new(),
            asked: false,
            vouched_new: false,
        };
        admitting.look(now, id, world);
        admitting
    }

    pub(super) fn due(&self) -> Moment {
        self.until
    }

    /// Returns how much longer the node stays quarantined, if known. A client that any node
    /// refuses admits none, so it cannot tell.
    pub(super) fn remaining(
        &self,
        now: Steady,
        admission: &Admission,
        node: usize,
    ) -> Option<Duration> {
        let reserved = self.nodes[node].is_reserved(admission.fingerprint(node));
        let told = self.told(admission);
        if told.is_refused() && !reserved || told.are_twins() {
            return None;
        }
        self.nodes[node].remaining(now)
    }

    /// Registers a caller that asks which nodes may vote.
    pub(super) fn ask<E: Entropy>(
        &mut self,
        now: Now,
        id: OpId,
        caller: OpId,
        vouch: &Vouch,
        world: &mut World<E>,
    ) -> Next {
        let vouches = vouch.new || !vouch.remembers.is_empty() || !vouch.replace.is_empty();
        let wants_more = vouch.patient || vouches;
        self.callers.push((caller, if wants_more { Patience::Much } else { Patience::Little }));
        vouch.remembers.iter().for_each(|node| self.nodes[*node].word = Word::Given);
        vouch.replace.iter().for_each(|node| self.nodes[*node].replace = true);
        self.vouched_new |= vouch.new;
        if self.phase == Phase::Resting {
            self.look(now, id, world);
        } else {
            self.asked = true;
        }
        Next::Same
    }

    pub(super) fn reply<E: Entropy>(
        &mut self,
        now: Now,
        id: OpId,
        tag: Tag,
        node: usize,
        reply: Reply,
        world: &mut World<E>,
    ) -> Next {
        if tag.round != world.admission_round {
            return Next::Same;
        }
        let looking = world.admission.as_ref().filter(|_| self.phase == Phase::Looking);
        if let (Some(admission), Reply::Facts(facts)) = (looking, &reply) {
            // From now on, the node is known to have the mark.
            let outlook = self.nodes[node].watch.look(now.steady, facts, admission, node);
            self.nodes[node].outlook = Some(outlook);
        }
        self.nodes[node].answer = Some(reply);
        if self.nodes.iter().all(|node| node.answer.is_some()) {
            return self.proceed(now, id, world);
        }
        if self.phase == Phase::Looking && self.majority_admitted() {
            self.answer_callers(now, Patience::Little, world);
        }
        Next::Same
    }

    pub(super) fn tick<E: Entropy>(&mut self, now: Now, id: OpId, world: &mut World<E>) -> Next {
        if now.lease < self.until { Next::Same } else { self.proceed(now, id, world) }
    }

    /// Ends a phase and begins the next.
    fn proceed<E: Entropy>(&mut self, now: Now, id: OpId, world: &mut World<E>) -> Next {
        let Some(admission) = world.admission.clone() else { return Next::Over };
        match self.phase {
            Phase::Resting => self.look(now, id, world),
            Phase::Looking => {
                self.take_in(now, &admission);
                if !self.mark(now, id, &admission, world) {
                    return self.admit(now, id, &admission, world);
                }
            }
            Phase::Marking => {
                self.take_in(now, &admission);
                return self.admit(now, id, &admission, world);
            }
            Phase::Admitting if self.tell_admitted(world) => self.look(now, id, world),
            Phase::Admitting => return self.rest(now, id, &admission, world),
        }
        Next::Same
    }

    fn look<E: Entropy>(&mut self, now: Now, id: OpId, world: &mut World<E>) {
        self.asked = false;
        self.begin(now, Phase::Looking, world);
        self.looked_at = now.steady;
        for node in &mut self.nodes {
            node.look = None;
        }
        for node in 0..world.nodes {
            send(node, id, Command::Examine, world);
        }
    }

    /// Processes what the nodes answered in this phase.
    fn take_in(&mut self, now: Now, admission: &Admission) {
        let looking = self.phase == Phase::Looking;
        for node in &mut self.nodes {
            match node.answer.take() {
                Some(answer @ Reply::Facts(_)) => node.look = Some(answer),
                answer if looking => node.look = answer,
                _ => {}
            }
        }
        if looking {
            self.take_in_new();
        }
        let longest = self.told(admission).longest_window();
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.watch.lasts_at_least(longest);
            node.conclude(now.steady, admission, at, self.asked);
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].extra = self.told(admission).extra(node);
        }
    }

    /// Applies a caller's word that all nodes are new, if they are.
    fn take_in_new(&mut self) {
        // A word given during a look applies to the next look.
        if self.vouched_new && !self.asked {
            self.vouched_new = false;
            if self.nodes.iter().all(|node| node.facts().is_some_and(Facts::is_new)) {
                self.nodes.iter_mut().for_each(|node| node.word = Word::Given);
            }
        }
    }

    /// Returns what the nodes said at the last look.
    fn told<'a>(&'a self, admission: &'a Admission) -> Told<'a> {
        Told::new(admission, self.nodes.iter().map(Node::facts))
    }

    /// Leaves a mark on quarantined nodes, unless this client is the one at fault. Returns
    /// whether there were any to mark.
    fn mark<E: Entropy>(
        &mut self,
        now: Now,
        id: OpId,
        admission: &Admission,
        world: &mut World<E>,
    ) -> bool {
        let told = self.told(admission);
        let (refused, twins) = (told.is_refused(), told.are_twins());
        let to_mark = |node: &Node| {
            let unmarked = node.outlook == Some(Outlook::Unmarked);
            node.facts().is_some() && !twins && (node.replace || unmarked && !refused)
        };
        let marked: Vec<usize> =
            (0..self.nodes.len()).filter(|node| to_mark(&self.nodes[*node])).collect();
        if marked.is_empty() {
            return false;
        }
        self.begin(now, Phase::Marking, world);
        self.wait_for(&marked);
        for node in marked {
            let mut nonce = [0; 8];
            world.entropy.fill(&mut nonce);
            let (fingerprint, nonce) = (admission.fingerprint(node), u64::from_le_bytes(nonce));
            let replace = self.nodes[node].replace;
            send(node, id, Command::Watch { fingerprint, nonce, replace }, world);
        }
        true
    }

    /// Admits the nodes whose time had come when the last look began.
    fn admit<E: Entropy>(
        &mut self,
        now: Now,
        id: OpId,
        admission: &Admission,
        world: &mut World<E>,
    ) -> Next {
        let ripe: Vec<(usize, Arc<str>)> = (0..self.nodes.len())
            .filter(|node| self.may_admit(*node, admission))
            .filter_map(|node| Some((node, self.nodes[node].ripe(self.looked_at)?.clone())))
            .collect();
        if ripe.is_empty() {
            return self.rest(now, id, admission, world);
        }
        self.begin(now, Phase::Admitting, world);
        self.wait_for(&ripe.iter().map(|(node, _)| *node).collect::<Vec<_>>());
        for (node, mark) in ripe {
            let agreement = admission.agreement_at(node).to_string().into();
            let (fingerprint, floor) =
                (admission.fingerprint(node), self.told(admission).floor(node));
            send(node, id, Command::Admit { fingerprint, agreement, mark, floor }, world);
        }
        Next::Same
    }

    /// Returns whether this client may admit the node once its time has come. Unless an
    /// operator vouched for the node, a majority must have answered; otherwise we could
    /// miss that the nodes serve another agreement.
    fn may_admit(&self, node: usize, admission: &Admission) -> bool {
        let candidate = &self.nodes[node];
        let vouched = matches!(candidate.word, Word::For(_));
        let told = self.told(admission);
        let reserved = candidate.is_reserved(admission.fingerprint(node));
        (told.is_majority_with(node) || vouched)
            && (reserved || !told.is_refused())
            && !told.are_twins()
    }

    /// Answers the callers and waits, if there is anything to wait for.
    fn rest<E: Entropy>(
        &mut self,
        now: Now,
        id: OpId,
        admission: &Admission,
        world: &mut World<E>,
    ) -> Next {
        let ripened =
            |node: &Node| node.ripe(now.steady).is_some() && node.ripe(self.looked_at).is_none();
        if self.asked || self.nodes.iter().any(ripened) {
            self.look(now, id, world);
            return Next::Same;
        }
        self.answer_callers(now, Patience::Much, world);
        if !self.nodes.iter().any(Node::needs_watching) {
            return Next::Over;
        }
        let rest = (admission.agreement.window() / 4).clamp(SHORTEST_REST, LONGEST_REST);
        let left = self.nodes.iter().filter_map(|node| node.remaining(now.steady));
        let next = left.filter(|left| !left.is_zero()).fold(rest, Duration::min);
        self.begin(now, Phase::Resting, world);
        self.until = now.lease.after(next);
        Next::Same
    }

    /// Reports the nodes that were just admitted. Returns whether there were any.
    fn tell_admitted<E>(&self, world: &mut World<E>) -> bool {
        let granted = |node: &&Node| node.answer == Some(Reply::Vote(Vote::Granted));
        for (node, _) in self.nodes.iter().enumerate().filter(|(_, node)| granted(node)) {
            world.outbox.push_back(Output::Admitted(node));
        }
        self.nodes.iter().any(|node| granted(&node))
    }

    fn answer_callers<E>(&mut self, now: Now, patience: Patience, world: &mut World<E>) {
        let Some(admission) = &world.admission else { return };
        let nodes = 0..self.nodes.len();
        let standings: Box<[Standing]> =
            nodes.map(|node| self.standing(now.steady, admission, node)).collect();
        self.callers.retain(|(caller, wants)| {
            let answer = *wants <= patience;
            if answer {
                world.outbox.push_back(Output::Standings(*caller, standings.clone()));
            }
            !answer
        });
    }

    /// Returns a node's standing as of its last answer. This client fills in the time left,
    /// since it has watched the node.
    fn standing(&self, now: Steady, admission: &Admission, node: usize) -> Standing {
        let Node { answer, look, .. } = &self.nodes[node];
        let answer = answer.as_ref().filter(|_| self.phase == Phase::Looking);
        let Some(reply) = answer.or(look.as_ref()) else {
            return Standing::Failed(Fault::TimedOut(PATIENCE));
        };
        let mut standing = admission.standing(node, reply);
        if let Standing::Quarantined(quarantine) = &mut standing {
            quarantine.remaining = self.remaining(now, admission, node);
        }
        standing
    }

    fn majority_admitted(&self) -> bool {
        let admitted = |node: &&Node| node.is_seen() && node.outlook == Some(Outlook::Admitted);
        self.nodes.iter().filter(admitted).count() > self.nodes.len() / 2
    }

    fn begin<E>(&mut self, now: Now, phase: Phase, world: &mut World<E>) {
        self.phase = phase;
        self.until = now.lease.after(PATIENCE);
        world.admission_round += 1;
        for node in &mut self.nodes {
            node.answer = None;
        }
    }

    /// Waits for these nodes only: all others count as having answered.
    fn wait_for(&mut self, asked: &[usize]) {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.answer = (!asked.contains(&at)).then_some(Reply::Vote(Vote::Pending));
        }
    }
}

/// Sends a command in the current phase.
fn send<E>(node: usize, id: OpId, command: Command, world: &mut World<E>) {
    world.send(node, Tag { op: id, round: world.admission_round }, command);
}
