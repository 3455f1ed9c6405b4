//! The nodes that may not vote: looked at, and admitted when they may be.
//!
//! One turn after the other: look at all nodes, which changes nothing; leave a
//! mark on those that are out; admit those whose time has come; look again. A
//! client that a node refuses because it serves another agreement marks and
//! admits nothing: otherwise one client with other settings would take over
//! every node that restarts. So does one to which two addresses lead to one
//! server.
//!
//! The numbers that an admitted node must not fall below come from a look that
//! began after its window, never before: what was granted meanwhile must be
//! among them.

use super::{Next, OpId, Output, Tag, Vouch, World};
use crate::{
    command::{Command, Facts, Reply},
    fence::FencingToken,
    moment::{Moment, Now, Steady},
    mutant::{self, Mutant},
    quarantine::{Agreement, Fingerprint, Guard, Standing, Watch},
    quorum::{Fault, Vote},
    token::Entropy,
};
use alloc::{boxed::Box, string::ToString, sync::Arc, vec, vec::Vec};
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
    /// When the turn ends at the latest.
    until: Moment,
    /// When the last look was sent.
    looked_at: Steady,
    /// Callers waiting to hear which nodes may vote.
    callers: Vec<(OpId, Patience)>,
    /// Somebody asked in the middle of a turn: look again afterwards.
    asked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Turn {
    Resting,
    Looking,
    Marking,
    Admitting,
}

/// What a caller who asks which nodes may vote waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Patience {
    /// A majority that may.
    Little,
    /// Whatever can be done at once.
    Much,
}

/// What is known of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Node {
    watch: Watch,
    standing: Option<Standing>,
    word: Word,
    /// It is to be taken from its clients.
    replace: bool,
    /// How much longer than its window it is out, since nobody knows which
    /// numbers it gave: without end where only an operator can tell.
    extra: Duration,
    /// Its answer in this turn.
    answer: Option<Reply>,
    /// Its answer to the last look.
    look: Option<Reply>,
}

/// An operator's word that a node remembers every lock. It is about the node as
/// it is now: if it forgets again, the word is void.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
enum Word {
    #[default]
    None,
    /// The next look says for which node.
    Given,
    /// For this run, which has no mark yet.
    Run(Arc<str>),
    /// For the node as long as it has this mark.
    For(Arc<str>),
}

impl Node {
    /// The mark by which the node may be admitted if the time is `now`.
    fn ripe(&self, now: Steady) -> Option<&Arc<str>> {
        match &self.standing {
            Some(Standing::Out { mark, from })
                if from.after(self.extra) <= now || self.is_vouched(mark) =>
            {
                Some(mark)
            }
            _ => None,
        }
    }

    fn is_vouched(&self, mark: &Arc<str>) -> bool {
        matches!(&self.word, Word::For(known) if known == mark)
    }

    fn is_seen(&self) -> bool {
        matches!(self.answer, Some(Reply::Facts(_)))
    }

    /// What it said when it was last looked at.
    fn facts(&self) -> Option<&Facts> {
        match &self.look {
            Some(Reply::Facts(facts)) => Some(facts),
            _ => None,
        }
    }

    /// Whether it had a marker of its present run when it was last looked at,
    /// whosever: it has forgotten nothing since. None if it did not answer.
    fn remembers(&self) -> Option<bool> {
        let facts = self.facts()?;
        Some(facts.marker.as_ref().is_some_and(|marker| marker.run == facts.identity.run))
    }

    /// Whether it was taken from others on an operator's word, for us.
    fn is_reserved(&self, guard: Fingerprint) -> bool {
        self.facts().is_some_and(|facts| facts.reserved == Some(guard))
    }

    /// Whether it serves clients of another agreement.
    fn serves_others(&self) -> bool {
        let marked = self.facts().is_some_and(|facts| facts.marker.is_some());
        marked && self.standing == Some(Standing::Disagrees)
    }

    /// Takes in what the node said last; silence leaves it open, and voids an
    /// operator's word unless the node is looked at `again` before the answer.
    fn conclude(&mut self, now: Steady, guard: &Guard, node: usize, again: bool) {
        let reserved = self.is_reserved(guard.fingerprint(node));
        let Some(Reply::Facts(facts)) = &self.look else {
            self.standing = None;
            if !(again && self.word == Word::Given) {
                self.word = Word::None;
            }
            return;
        };
        self.replace &= !reserved;
        let standing = self.watch.look(now, facts, guard, node);
        self.replace &= standing != Standing::Admitted;
        let run = &facts.identity.run;
        self.word = match (&standing, core::mem::take(&mut self.word)) {
            (Standing::Unmarked, Word::Given) => Word::Run(run.clone()),
            (Standing::Out { mark, .. }, Word::Given) => Word::For(mark.clone()),
            (Standing::Out { mark, .. }, Word::Run(meant)) if meant == *run => {
                Word::For(mark.clone())
            }
            (Standing::Out { mark, .. }, Word::For(meant)) if meant == *mark => Word::For(meant),
            (_, Word::For(_) | Word::Given) if mutant::on(Mutant::WordOutlives) => Word::Given,
            _ => Word::None,
        };
        self.standing = Some(standing);
    }

    /// How much longer it is out, as far as is known.
    fn remaining(&self, now: Steady) -> Option<Duration> {
        match &self.standing {
            Some(Standing::Out { from, .. }) if self.extra < Duration::MAX => {
                Some(from.after(self.extra).since(now))
            }
            _ => None,
        }
    }

    /// What it said when it was last looked at, and how long it is out.
    fn told(&self, now: Steady, turn: &Turn) -> Reply {
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
        let in_or_unknown = matches!(self.standing, None | Some(Standing::Admitted));
        !in_or_unknown || self.watch.is_on()
    }
}

impl Guarding {
    pub(super) fn start<E: Entropy>(now: Now, id: OpId, world: &mut World<E>) -> Self {
        let mut guarding = Guarding {
            nodes: vec![Node::default(); world.nodes].into(),
            turn: Turn::Resting,
            until: now.lease,
            looked_at: now.steady,
            callers: Vec::new(),
            asked: false,
        };
        guarding.look(now, id, world);
        guarding
    }

    pub(super) fn due(&self) -> Moment {
        self.until
    }

    /// How much longer the node is out, as far as is known.
    pub(super) fn remaining(&self, now: Steady, node: usize) -> Option<Duration> {
        self.nodes[node].remaining(now)
    }

    /// Somebody wants to know which nodes may vote.
    pub(super) fn ask<E: Entropy>(
        &mut self,
        now: Now,
        id: OpId,
        caller: OpId,
        vouch: &Vouch,
        world: &mut World<E>,
    ) -> Next {
        let vouches = !vouch.remembers.is_empty() || !vouch.replace.is_empty();
        let wants_more = vouch.patient || vouches;
        self.callers.push((caller, if wants_more { Patience::Much } else { Patience::Little }));
        vouch.remembers.iter().for_each(|node| self.nodes[*node].word = Word::Given);
        vouch.replace.iter().for_each(|node| self.nodes[*node].replace = true);
        if self.turn == Turn::Resting {
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
        if tag.round != world.guard_round {
            return Next::Same;
        }
        let looking = world.guard.as_ref().filter(|_| self.turn == Turn::Looking);
        if let (Some(guard), Reply::Facts(facts)) = (looking, &reply) {
            // From here on the mark is known to be there.
            let standing = self.nodes[node].watch.look(now.steady, facts, guard, node);
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

    pub(super) fn tick<E: Entropy>(&mut self, now: Now, id: OpId, world: &mut World<E>) -> Next {
        if now.lease < self.until { Next::Same } else { self.proceed(now, id, world) }
    }

    /// One turn is over.
    fn proceed<E: Entropy>(&mut self, now: Now, id: OpId, world: &mut World<E>) -> Next {
        let Some(guard) = world.guard.clone() else { return Next::Over };
        match self.turn {
            Turn::Resting => self.look(now, id, world),
            Turn::Looking => {
                self.take_in(now, &guard);
                if !self.mark(now, id, &guard, world) {
                    return self.admit(now, id, &guard, world);
                }
            }
            Turn::Marking => {
                self.take_in(now, &guard);
                return self.admit(now, id, &guard, world);
            }
            Turn::Admitting if self.tell_admitted(world) => self.look(now, id, world),
            Turn::Admitting => return self.rest(now, id, &guard, world),
        }
        Next::Same
    }

    fn look<E: Entropy>(&mut self, now: Now, id: OpId, world: &mut World<E>) {
        self.asked = false;
        self.begin(now, Turn::Looking, world);
        self.looked_at = now.steady;
        for node in &mut self.nodes {
            node.look = None;
            node.watch.believe_uptime(false);
        }
        for node in 0..world.nodes {
            send(node, id, Command::Examine, world);
        }
    }

    /// The nodes that answered said something new.
    fn take_in(&mut self, now: Now, guard: &Guard) {
        let looking = self.turn == Turn::Looking;
        for node in &mut self.nodes {
            match node.answer.take() {
                Some(answer @ Reply::Facts(_)) => node.look = Some(answer),
                answer if looking => node.look = answer,
                _ => {}
            }
        }
        let (longest, all_new) = (self.longest_window(), self.are_all_new(guard));
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.watch.lasts_at_least(longest);
            node.watch.believe_uptime(all_new);
            node.conclude(now.steady, guard, at, self.asked);
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].extra = self.extra(node, guard);
        }
    }

    /// Whether no node of the list was ever admitted, and all have been up for the
    /// window, as far as all of them can tell. One alone cannot.
    fn are_all_new(&self, guard: &Guard) -> bool {
        let window = guard.agreement.window();
        let new_for = |node: &Node| node.facts().and_then(Facts::new_for);
        let new = |node: &Node| new_for(node).is_some_and(|up| up >= window);
        let all = self.nodes.len() > 1 && self.nodes.iter().all(new);
        all || mutant::on(Mutant::UptimeOfASpare)
    }

    /// The longest window that clients of any node agreed to. One that forgot does
    /// not know it any more, and others may still hold locks of that length.
    fn longest_window(&self) -> Duration {
        let told = self.nodes.iter().filter_map(|node| node.facts()?.agreement.as_deref());
        let windows = told.filter_map(Agreement::parse).map(|agreement| agreement.window());
        windows.max().unwrap_or_default()
    }

    /// Leaves a mark on the nodes that are out, unless we are the ones who are
    /// wrong. Whether there were any.
    fn mark<E: Entropy>(
        &mut self,
        now: Now,
        id: OpId,
        guard: &Guard,
        world: &mut World<E>,
    ) -> bool {
        let (refused, twins) = (self.is_refused(), self.are_twins());
        let to_mark = |node: &Node| {
            let unmarked = node.standing == Some(Standing::Unmarked);
            node.facts().is_some() && !twins && (node.replace || unmarked && !refused)
        };
        let marked: Vec<usize> =
            (0..self.nodes.len()).filter(|node| to_mark(&self.nodes[*node])).collect();
        if marked.is_empty() {
            return false;
        }
        self.begin(now, Turn::Marking, world);
        self.wait_for(&marked);
        for node in marked {
            let mut nonce = [0; 8];
            world.entropy.fill(&mut nonce);
            let (guard, nonce) = (guard.fingerprint(node), u64::from_le_bytes(nonce));
            let replace = self.nodes[node].replace;
            send(node, id, Command::Watch { guard, nonce, replace }, world);
        }
        true
    }

    /// Admits the nodes whose time had come when the last look began.
    fn admit<E: Entropy>(
        &mut self,
        now: Now,
        id: OpId,
        guard: &Guard,
        world: &mut World<E>,
    ) -> Next {
        let ripe: Vec<(usize, Arc<str>)> = (0..self.nodes.len())
            .filter(|node| self.may_admit(*node, guard))
            .filter_map(|node| Some((node, self.nodes[node].ripe(self.looked_at)?.clone())))
            .collect();
        if ripe.is_empty() {
            return self.rest(now, id, guard, world);
        }
        self.begin(now, Turn::Admitting, world);
        self.wait_for(&ripe.iter().map(|(node, _)| *node).collect::<Vec<_>>());
        for (node, mark) in ripe {
            let agreement = guard.agreement_at(node).to_string().into();
            let (guard, floor) = (guard.fingerprint(node), self.floor(node));
            send(node, id, Command::Admit { guard, agreement, mark, floor }, world);
        }
        Next::Same
    }

    /// Whether it is for us to admit the node, once its time has come: of the
    /// nodes that serve another agreement we must have seen one, if there is one.
    fn may_admit(&self, node: usize, guard: &Guard) -> bool {
        let candidate = &self.nodes[node];
        let vouched = matches!(candidate.word, Word::For(_));
        let seen = 1 + self.others(node).count() > self.nodes.len() / 2;
        let reserved = candidate.is_reserved(guard.fingerprint(node));
        (seen || vouched) && (reserved || !self.is_refused()) && !self.are_twins()
    }

    /// How much longer than its window a node is out while the others do not know
    /// which numbers it gave. One that is silent may be back soon. If it is not,
    /// the clocks, which have moved on, keep numbers in order, unless one of them
    /// is wrong by `max_ttl`; a strict guard trusts no clock.
    fn extra(&self, node: usize, guard: &Guard) -> Duration {
        let others = self.others(node).count();
        let enough = others > (self.nodes.len() - 1) / 2 || self.nodes.len() == 1;
        match enough && self.know_every_grant() || mutant::on(Mutant::FloorOfAMinority) {
            true => Duration::ZERO,
            false if guard.strict => Duration::MAX,
            false => guard.agreement.window(),
        }
    }

    /// Whether one of the nodes that were seen, and remember, knows of every
    /// grant: a node that forgot tells nothing about numbers. Where so many
    /// forgot that this cannot be, the clocks alone keep numbers in order.
    fn know_every_grant(&self) -> bool {
        let nodes = self.nodes.len();
        // So many share a node with every majority.
        let needed = nodes - nodes / 2;
        let count = |remembers| {
            self.nodes.iter().filter(|node| node.remembers() == Some(remembers)).count()
        };
        count(true) >= needed || nodes - count(false) < needed
    }

    /// Whether a node serves clients of another agreement: one of us is wrong,
    /// and it may be us.
    fn is_refused(&self) -> bool {
        self.nodes.iter().any(Node::serves_others) && !mutant::on(Mutant::AdmitsThoughRefused)
    }

    /// Whether two addresses lead to one server. Which of the nodes it is, nobody
    /// can tell once it has forgotten; and it would be heard twice about the
    /// others.
    fn are_twins(&self) -> bool {
        let runs = || self.nodes.iter().filter_map(Node::facts).map(|facts| &facts.identity.run);
        runs().enumerate().any(|(at, run)| runs().skip(at + 1).any(|next| next == run))
    }

    /// What the other nodes said.
    fn others(&self, node: usize) -> impl Iterator<Item = &Facts> {
        let others = self.nodes.iter().enumerate().filter(move |(other, _)| *other != node);
        others.filter_map(|(_, other)| other.facts())
    }

    /// The greatest number that the other nodes have given.
    fn floor(&self, node: usize) -> Option<FencingToken> {
        let others = self.others(node).filter(|_| !mutant::on(Mutant::NoFloor));
        others.filter_map(|facts| facts.highest).max()
    }

    /// Nothing can be done but wait, if there is anything to wait for.
    fn rest<E: Entropy>(
        &mut self,
        now: Now,
        id: OpId,
        guard: &Guard,
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
        let rest = (guard.agreement.window() / 4).clamp(SHORTEST_REST, LONGEST_REST);
        let left = self.nodes.iter().filter_map(|node| node.remaining(now.steady));
        let next = left.filter(|left| !left.is_zero()).fold(rest, Duration::min);
        self.begin(now, Turn::Resting, world);
        self.until = now.lease.after(next);
        Next::Same
    }

    /// Whether any node was admitted.
    fn tell_admitted<E>(&self, world: &mut World<E>) -> bool {
        let granted = |node: &&Node| node.answer == Some(Reply::Vote(Vote::Granted));
        for (node, _) in self.nodes.iter().enumerate().filter(|(_, node)| granted(node)) {
            world.outbox.push_back(Output::Admitted(node));
        }
        self.nodes.iter().any(|node| granted(&node))
    }

    fn answer_callers<E>(&mut self, now: Now, patience: Patience, world: &mut World<E>) {
        let told = self.nodes.iter().map(|node| node.told(now.steady, &self.turn));
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

    fn begin<E>(&mut self, now: Now, turn: Turn, world: &mut World<E>) {
        self.turn = turn;
        self.until = now.lease.after(PATIENCE);
        world.guard_round += 1;
        for node in &mut self.nodes {
            node.answer = None;
        }
    }

    /// Only these nodes are asked in this turn.
    fn wait_for(&mut self, asked: &[usize]) {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.answer = (!asked.contains(&at)).then_some(Reply::Vote(Vote::Pending));
        }
    }
}

/// Asks a node in the turn under way.
fn send<E>(node: usize, id: OpId, command: Command, world: &mut World<E>) {
    world.send(node, Tag { op: id, round: world.guard_round }, command);
}
