//! The nodes that may not vote: looked at, and admitted when they may be.
//!
//! One turn after the other: look at all nodes; if some may be admitted, read
//! the registers of all; put them on those that may, and admit these; look
//! again. Reading comes after the window, never before: what was granted
//! meanwhile must be among it.

use super::{Next, OpId, Output, Tag, Vouch, World};
use crate::{
    command::{Command, Registers, Reply},
    fence::FencingToken,
    moment::Moment,
    quarantine::{Guard, Standing, Watch},
    quorum::{Fault, Vote},
    token::Entropy,
};
use alloc::{boxed::Box, collections::BTreeMap, string::ToString, sync::Arc, vec, vec::Vec};
use core::time::Duration;

/// How long the nodes may take for each turn.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest pause from one look to the next.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// The shortest, however short the window is.
const SHORTEST_REST: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Guarding {
    nodes: Box<[Node]>,
    turn: Turn,
    /// Until when the turn lasts.
    until: Moment,
    round: u32,
    /// Those who asked which nodes may vote, and what is there to tell them.
    callers: Vec<(OpId, Patience)>,
    /// Somebody asked in the middle of a turn: look again afterwards.
    asked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Turn {
    Resting,
    Looking,
    Reading,
    Admitting,
}

/// For what somebody waits who asks which nodes may vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Patience {
    /// A majority that may.
    Little,
    /// Whatever can be done at once.
    Much,
}

/// An operator's word that a node remembers: good for the mark it has when it is
/// looked at next, and for no mark that it gets later.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
enum Word {
    #[default]
    None,
    /// Given; the next look to end says for which mark.
    Given,
    /// For the node as long as it has this mark.
    For(Arc<str>),
}

/// What is known of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Node {
    watch: Watch,
    standing: Option<Standing>,
    /// An operator's word for it.
    word: Word,
    /// It is to be taken from its clients.
    replace: bool,
    /// Its answer in this turn.
    answer: Option<Reply>,
    /// Its answer to the last look.
    look: Option<Reply>,
}

impl Node {
    /// The mark by which it may be admitted now, if it may.
    fn ripe(&self, now: Moment) -> Option<&Arc<str>> {
        match &self.standing {
            Some(Standing::Out { mark, from }) if self.is_vouched() || *from <= now => Some(mark),
            _ => None,
        }
    }

    /// Whether an operator's word is for the node as it is now.
    fn is_vouched(&self) -> bool {
        match (&self.word, &self.standing) {
            (Word::For(meant), Some(Standing::Out { mark, .. })) => meant == mark,
            _ => false,
        }
    }

    /// Whether it had a marker of its present run when it was last looked at,
    /// whosever: it has forgotten nothing since. None if it did not answer.
    fn remembers(&self) -> Option<bool> {
        let Some(Reply::Facts(facts)) = &self.look else { return None };
        Some(facts.marker.as_ref().is_some_and(|marker| marker.run == facts.identity.run))
    }

    fn is_seen(&self) -> bool {
        matches!(self.answer, Some(Reply::Facts(_)))
    }

    /// Makes up its mind about what the node said; silence leaves it open.
    /// `again`: it will be looked at once more before anybody is answered.
    fn conclude(&mut self, now: Moment, guard: &Guard, starting: bool, again: bool) {
        self.standing = None;
        if let Some(Reply::Facts(facts)) = &self.look {
            if facts.reserved == Some(guard.fingerprint) {
                self.replace = false;
                self.watch.taken_from(facts.agreement.as_deref());
            }
            self.standing = Some(self.watch.look(now, facts, guard, starting));
            let admitted = self.standing == Some(Standing::Admitted);
            self.replace &= !admitted;
        }
        self.word = match (core::mem::take(&mut self.word), &self.standing) {
            (Word::Given, Some(Standing::Out { mark, .. })) => Word::For(mark.clone()),
            (Word::Given, None) if again => Word::Given,
            (Word::For(meant), Some(Standing::Out { mark, .. })) if meant == *mark => {
                Word::For(meant)
            }
            _ => Word::None,
        };
    }

    /// How long it is out for still, as far as is known.
    fn remaining(&self, now: Moment) -> Option<Duration> {
        match &self.standing {
            Some(Standing::Out { from, .. }) => Some(from.since(now)),
            _ => None,
        }
    }

    /// What it said when it was last looked at, and how long it is out.
    fn told(&self, now: Moment, turn: &Turn) -> Reply {
        let answer = self.answer.as_ref().filter(|_| *turn == Turn::Looking);
        match answer.or(self.look.as_ref()).cloned() {
            Some(Reply::Facts(mut facts)) => {
                facts.remaining = self.remaining(now);
                Reply::Facts(facts)
            }
            Some(other) => other,
            None => Reply::failed(Fault::TimedOut(PATIENCE)),
        }
    }

    fn needs_watching(&self) -> bool {
        matches!(self.standing, Some(Standing::Out { .. } | Standing::Disagrees))
            || self.watch.is_on()
    }
}

impl Guarding {
    pub(super) fn start<E: Entropy>(now: Moment, id: OpId, world: &mut World<E>) -> Self {
        let mut guarding = Guarding {
            nodes: vec![Node::default(); world.nodes].into(),
            turn: Turn::Resting,
            until: now,
            round: 0,
            callers: Vec::new(),
            asked: false,
        };
        guarding.look(now, id, world);
        guarding
    }

    pub(super) fn due(&self) -> Moment {
        self.until
    }

    /// How long the node is out for still, as far as is known.
    pub(super) fn remaining(&self, now: Moment, node: usize) -> Option<Duration> {
        self.nodes[node].remaining(now)
    }

    /// Somebody wants to know which nodes may vote.
    pub(super) fn ask<E: Entropy>(
        &mut self,
        now: Moment,
        id: OpId,
        caller: OpId,
        vouch: &Vouch,
        world: &mut World<E>,
    ) -> Next {
        let vouches = !vouch.remembers.is_empty() || !vouch.replace.is_empty();
        let wants_more = vouch.patient || vouches;
        self.callers.push((caller, if wants_more { Patience::Much } else { Patience::Little }));
        for node in &vouch.remembers {
            self.nodes[*node].word = Word::Given;
        }
        for node in &vouch.replace {
            self.nodes[*node].replace = true;
        }
        if self.turn == Turn::Resting {
            self.look(now, id, world);
        } else {
            self.asked = true;
        }
        Next::Same
    }

    pub(super) fn reply<E: Entropy>(
        &mut self,
        now: Moment,
        id: OpId,
        tag: Tag,
        node: usize,
        reply: Reply,
        world: &mut World<E>,
    ) -> Next {
        if tag.round != self.round {
            return Next::Same;
        }
        let looking = world.guard.as_ref().filter(|_| self.turn == Turn::Looking);
        if let (Some(guard), Reply::Facts(facts)) = (looking, &reply) {
            // From here on the mark is known to be there.
            let standing = self.nodes[node].watch.look(now, facts, guard, false);
            self.nodes[node].standing = Some(standing);
        }
        self.nodes[node].answer = Some(reply);
        if self.nodes.iter().all(|node| node.answer.is_some()) {
            return self.proceed(now, id, world);
        }
        if self.turn == Turn::Looking && self.majority_admitted() {
            self.answer_callers(now, Patience::Little, world);
        }
        Next::Same
    }

    pub(super) fn tick<E: Entropy>(&mut self, now: Moment, id: OpId, world: &mut World<E>) -> Next {
        if now < self.until { Next::Same } else { self.proceed(now, id, world) }
    }

    /// One turn is over.
    fn proceed<E: Entropy>(&mut self, now: Moment, id: OpId, world: &mut World<E>) -> Next {
        match self.turn {
            Turn::Resting => self.look(now, id, world),
            Turn::Looking => return self.conclude(now, id, world),
            Turn::Reading => return self.admit(now, id, world),
            Turn::Admitting if self.tell_admitted(world) => self.look(now, id, world),
            Turn::Admitting => return self.rest(now, id, world),
        }
        Next::Same
    }

    fn look<E: Entropy>(&mut self, now: Moment, id: OpId, world: &mut World<E>) {
        let Some(guard) = world.guard.as_ref().map(|guard| guard.fingerprint) else { return };
        self.asked = false;
        self.begin(now, Turn::Looking);
        for node in 0..world.nodes {
            let mut nonce = [0; 8];
            world.entropy.fill(&mut nonce);
            let nonce = u64::from_le_bytes(nonce);
            let replace = self.nodes[node].replace;
            self.send(node, id, Command::Watch { guard, nonce, replace }, world);
        }
    }

    /// All nodes were looked at: what now?
    fn conclude<E: Entropy>(&mut self, now: Moment, id: OpId, world: &mut World<E>) -> Next {
        let Some(guard) = world.guard.clone() else { return Next::Over };
        let starting = self.is_starting();
        for node in &mut self.nodes {
            node.look = node.answer.take();
            node.conclude(now, &guard, starting, self.asked);
        }
        if self.nodes.iter().any(|node| node.ripe(now).is_some()) {
            self.begin(now, Turn::Reading);
            for node in 0..world.nodes {
                self.send(node, id, Command::Registers, world);
            }
            return Next::Same;
        }
        self.rest(now, id, world)
    }

    /// Nothing can be done but wait, if there is anything to wait for.
    fn rest<E: Entropy>(&mut self, now: Moment, id: OpId, world: &mut World<E>) -> Next {
        let Some(guard) = &world.guard else { return Next::Over };
        let rest = (guard.agreement.window() / 4).clamp(SHORTEST_REST, LONGEST_REST);
        if self.asked {
            self.look(now, id, world);
            return Next::Same;
        }
        self.answer_callers(now, Patience::Much, world);
        if !self.nodes.iter().any(Node::needs_watching) {
            return Next::Over;
        }
        let next = self.nodes.iter().filter_map(|node| match &node.standing {
            Some(Standing::Out { from, .. }) if *from > now => Some(*from),
            _ => None,
        });
        let until = next.fold(now.after(rest), Moment::min);
        self.begin(now, Turn::Resting);
        self.until = until;
        Next::Same
    }

    /// The registers were read: put them on those that may be admitted.
    fn admit<E: Entropy>(&mut self, now: Moment, id: OpId, world: &mut World<E>) -> Next {
        let Some(guard) = world.guard.clone() else { return Next::Over };
        let read: Vec<_> = self.nodes.iter_mut().map(|node| node.answer.take()).collect();
        let marks: Vec<_> = self.nodes.iter().map(|node| node.ripe(now).cloned()).collect();
        self.begin(now, Turn::Admitting);
        let mut sent = false;
        for (node, mark) in marks.into_iter().enumerate() {
            let others = others(&read, node);
            let enough = others.len() > (world.nodes - 1) / 2 || world.nodes == 1;
            let enough = enough && self.is_known_by_those_who_told(&read);
            let Some(mark) = mark.filter(|_| enough || self.nodes[node].is_vouched()) else {
                self.nodes[node].answer = Some(Reply::Vote(Vote::Pending));
                continue;
            };
            let agreement = guard.agreement.to_string().into();
            let (guard, registers) = (guard.fingerprint, greatest(&others));
            self.send(node, id, Command::Admit { guard, agreement, mark, registers }, world);
            sent = true;
        }
        if sent { Next::Same } else { self.rest(now, id, world) }
    }

    /// Whether every grant is known to one of the nodes that told their registers
    /// and remember: a node that forgot it, too, tells nothing about it. Where so
    /// many forgot that this cannot be, the clocks alone keep numbers in order.
    fn is_known_by_those_who_told(&self, read: &[Option<Reply>]) -> bool {
        let nodes = self.nodes.len();
        // So many share a node with every majority.
        let needed = nodes - nodes / 2;
        let told = |(node, read): (&Node, &Option<Reply>)| {
            node.remembers() == Some(true) && matches!(read, Some(Reply::Registers(_)))
        };
        let told = self.nodes.iter().zip(read).filter(|pair| told(*pair)).count();
        let forgot = self.nodes.iter().filter(|node| node.remembers() == Some(false)).count();
        told >= needed || nodes - forgot < needed
    }

    /// Whether any node was admitted.
    fn tell_admitted<E>(&self, world: &mut World<E>) -> bool {
        let granted = |node: &&Node| node.answer == Some(Reply::Vote(Vote::Granted));
        for (node, _) in self.nodes.iter().enumerate().filter(|(_, node)| granted(node)) {
            world.outbox.push_back(Output::Admitted(node));
        }
        self.nodes.iter().any(|node| granted(&node))
    }

    fn answer_callers<E>(&mut self, now: Moment, patience: Patience, world: &mut World<E>) {
        let told = self.nodes.iter().map(|node| node.told(now, &self.turn));
        let told: Box<[Reply]> = told.collect();
        self.callers.retain(|(caller, wants)| {
            let answer = *wants <= patience;
            if answer {
                world.outbox.push_back(Output::Guarded(*caller, told.clone()));
            }
            !answer
        });
    }

    fn majority_admitted(&self) -> bool {
        let admitted = |node: &&Node| node.is_seen() && node.standing == Some(Standing::Admitted);
        self.nodes.iter().filter(admitted).count() > self.nodes.len() / 2
    }

    /// Whether the nodes have never been admitted, as far as they can be seen: no
    /// lock can have been granted by this agreement.
    fn is_starting(&self) -> bool {
        let seen = || self.nodes.iter().filter(|node| node.is_seen());
        let out = |node: &&Node| matches!(node.standing, Some(Standing::Out { .. }));
        let any_admitted = seen().any(|node| node.standing == Some(Standing::Admitted));
        !any_admitted && seen().filter(out).count() > self.nodes.len() / 2
    }

    fn begin(&mut self, now: Moment, turn: Turn) {
        self.turn = turn;
        self.until = now.after(PATIENCE);
        self.round += 1;
        for node in &mut self.nodes {
            node.answer = None;
        }
    }

    fn send<E>(&self, node: usize, id: OpId, command: Command, world: &mut World<E>) {
        world.send(node, Tag { op: id, round: self.round }, command);
    }
}

/// The registers that the other nodes told.
fn others(read: &[Option<Reply>], node: usize) -> Vec<&Registers> {
    let others = read.iter().enumerate().filter(|(other, _)| *other != node);
    let told = others.filter_map(|(_, read)| match read {
        Some(Reply::Registers(registers)) => Some(registers),
        _ => None,
    });
    told.collect()
}

/// The greatest number of each register.
fn greatest(told: &[&Registers]) -> Registers {
    let mut greatest: BTreeMap<u32, FencingToken> = BTreeMap::new();
    for (register, number) in told.iter().flat_map(|registers| registers.iter()) {
        let known = greatest.entry(*register).or_insert(*number);
        *known = (*known).max(*number);
    }
    greatest.into_iter().collect()
}
